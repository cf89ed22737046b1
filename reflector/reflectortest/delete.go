package reflectortest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func (c *call) delete() error {
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	rec, gone, err := c.server.deleteObject(c.resource, c.Namespace, c.Name, options, c.dryRun)
	if err != nil {
		return err
	}
	if !gone || c.resource.returnsDeleted {
		return c.answer(http.StatusOK, rec)
	}
	return c.answerStatus(&metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: c.Name, Group: c.Group, Kind: c.Resource, UID: types.UID(rec.uid),
	}})
}

func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	options, err := decodeDeleteOptions(c.http.Header.Get("Content-Type"), c.body, c.Query)
	if err != nil {
		return nil, err
	}
	c.dryRun = len(options.DryRun) > 0
	return options, validate(options)
}

// validate refuses options as an API server does.
func validate(options *metav1.DeleteOptions) error {
	if errs := metavalidation.ValidateDeleteOptions(options); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// deleteCollection deletes the objects that a list with the same query returns, and answers with
// that list.
func (c *call) deleteCollection() error {
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	listOptions, err := c.listOptions()
	if err != nil {
		return err
	}
	p, err := c.page(listOptions)
	if err != nil {
		return err
	}
	if err := c.deleteAll(p.records, options); err != nil {
		return err
	}
	return c.answerList(metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}, p.records)
}

// deleteAll deletes the objects of a list in one step.
func (c *call) deleteAll(records []*record, options *metav1.DeleteOptions) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, rec := range records {
		_, _, err := c.server.deleteLocked(c.resource, rec.namespace, rec.name, options.DeepCopy(), c.dryRun)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// deleteObject deletes one object, as deleteLocked does.
func (s *Server) deleteObject(res *resource, namespace, name string, options *metav1.DeleteOptions, dryRun bool) (rec *record, gone bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleteLocked(res, namespace, name, options, dryRun)
}

// deleteLocked deletes an object. If finalizers or a grace period hold the object, it only marks
// the object; gone reports which. It needs mu.
func (s *Server) deleteLocked(res *resource, namespace, name string, options *metav1.DeleteOptions, dryRun bool) (rec *record, gone bool, err error) {
	if err := checkDeletable(res, name); err != nil {
		return nil, false, err
	}
	if err := res.checkServed(); err != nil {
		return nil, false, err
	}
	prior, ok := res.history.current.Get(res.key(namespace, name))
	if !ok {
		return nil, false, apierrors.NewNotFound(res.gr(), name)
	}
	if err := checkPreconditions(prior, options.Preconditions); err != nil {
		return nil, false, err
	}
	obj := prior.in(res).object()
	graceful, pending := beginGrace(obj, options)
	if pending {
		return prior, false, nil
	}
	if len(res.admissions) > 0 {
		a := &admitted{operation: admissionv1.Delete, resource: res, namespace: namespace, name: name, dryRun: dryRun, old: prior.in(res).object()}
		if err := s.admitLocked(a); err != nil {
			return nil, false, err
		}
		if now, _ := res.history.current.Get(prior.key); now != prior {
			return s.deleteLocked(res, namespace, name, options, dryRun) // it changed meanwhile
		}
	}
	if ns, ok := obj.(*corev1.Namespace); ok {
		rec, held, err := s.terminateLocked(res, prior, ns, options, dryRun)
		if err != nil || held {
			return rec, false, err
		}
	}
	if res.definitions && obj.GetDeletionTimestamp() == nil {
		terminateDefinition(obj)
		rec, err := s.replaceLocked(res, prior, obj, writing{}.author(prior.author.tracked), dryRun)
		return rec, false, err
	}
	obj.SetFinalizers(res.finalizersFor(obj, options))
	held := len(obj.GetFinalizers()) > 0
	if !graceful && held {
		markDeleting(obj)
	}
	if graceful || held {
		if rec, err = s.replaceLocked(res, prior, obj, writing{}.author(prior.author.tracked), dryRun); err != nil {
			return nil, false, err
		}
		if held || deref(obj.GetDeletionGracePeriodSeconds(), 0) > 0 {
			return rec, false, nil
		}
		prior = rec
	}
	if dryRun {
		return prior, true, nil
	}
	rec, err = s.removeLocked(res, prior)
	return rec, true, err
}

func checkPreconditions(prior *record, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	// The real server also uses the kind in place of the resource.
	gr := schema.GroupResource{Group: prior.resource.Group, Resource: prior.resource.Kind}
	if p.UID != nil && string(*p.UID) != prior.uid {
		return apierrors.NewConflict(gr, prior.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, prior.uid))
	}
	version := strconv.FormatUint(prior.version, 10)
	if p.ResourceVersion != nil && *p.ResourceVersion != version {
		return apierrors.NewConflict(gr, prior.name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", *p.ResourceVersion, version))
	}
	return nil
}

// beginGrace marks a pod for deletion after its grace period; other kinds have none. pending means
// that the pod was marked before and stays unchanged.
func beginGrace(obj object, options *metav1.DeleteOptions) (graceful, pending bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false, false
	}
	wanted := options.GracePeriodSeconds
	if wanted != nil && *wanted < 0 {
		wanted = new(int64(1))
	}
	if pod.DeletionTimestamp != nil {
		left := deref(pod.DeletionGracePeriodSeconds, 0)
		if left == 0 {
			return false, false
		}
		if wanted == nil || *wanted >= left {
			return false, true
		}
		at := pod.DeletionTimestamp.Add(time.Duration(*wanted-left) * time.Second)
		if now := time.Now(); at.Before(now) {
			at = now.Truncate(time.Second)
			if *wanted > 0 {
				wanted = new(int64(1)) // 0 would not leave it to the kubelet
			}
		}
		pod.DeletionTimestamp = new(metav1.NewTime(at))
		pod.DeletionGracePeriodSeconds = wanted
		return true, false
	}
	period := deref(wanted, deref(pod.Spec.TerminationGracePeriodSeconds, 30))
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		period = 0 // no kubelet has to stop containers
	}
	pod.DeletionTimestamp = new(metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(period) * time.Second)))
	pod.DeletionGracePeriodSeconds = &period
	pod.Generation++
	return true, false
}

// markDeleting marks an object that only finalizers hold.
func markDeleting(obj object) {
	if obj.GetDeletionTimestamp() == nil {
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		obj.SetDeletionTimestamp(new(metav1.NewTime(time.Now().Truncate(time.Second))))
	}
	obj.SetDeletionGracePeriodSeconds(new(int64(0)))
}

// finalizersFor returns the finalizers of an object after its deletion, which adds and removes those
// of the garbage collector.
func (res *resource) finalizersFor(obj object, options *metav1.DeleteOptions) []string {
	old := obj.GetFinalizers()
	finalizers := slices.DeleteFunc(slices.Clone(old), isCollectors)
	if own := res.collectorsFinalizer(old, options); own != "" {
		finalizers = append(finalizers, own)
	}
	if sets.New(old...).Equal(sets.New(finalizers...)) {
		return old
	}
	return finalizers
}

func isCollectors(finalizer string) bool {
	return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
}

// collectorsFinalizer returns the finalizer of the garbage collector that an object gets at its
// deletion, or "". The policy of the request decides, then the object's own finalizers, then the kind.
func (res *resource) collectorsFinalizer(finalizers []string, options *metav1.DeleteOptions) string {
	policy := deref(options.PropagationPolicy, "")
	//lint:ignore SA1019 clients still send it
	if orphan := options.OrphanDependents; orphan != nil {
		policy = metav1.DeletePropagationBackground
		if *orphan {
			policy = metav1.DeletePropagationOrphan
		}
	}
	own := slices.IndexFunc(finalizers, isCollectors)
	switch {
	case res.uncollected, policy == metav1.DeletePropagationBackground:
		return ""
	case policy == metav1.DeletePropagationForeground:
		return metav1.FinalizerDeleteDependents
	case policy == metav1.DeletePropagationOrphan:
		return metav1.FinalizerOrphanDependents
	case own >= 0:
		return finalizers[own]
	case res.orphans:
		return metav1.FinalizerOrphanDependents
	}
	return ""
}

// deletable reports whether an update removed the last finalizer or grace period of an object that
// is marked for deletion.
func deletable(obj, old object) bool {
	if ns, ok := obj.(*corev1.Namespace); ok && len(ns.Spec.Finalizers) > 0 {
		return false
	}
	return old.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 &&
		deref(obj.GetDeletionGracePeriodSeconds(), 0) == 0
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
