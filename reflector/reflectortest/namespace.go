package reflectortest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Namespace has a second list of finalizers, in its spec. The namespace controller removes the one
// called kubernetes when the namespace is empty, and the garbage collector here does the same.

var (
	namespacesGVR = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	podsGVR       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// undeletable are the namespaces that the real server does not delete.
var undeletable = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

func (res *resource) isNamespaces() bool { return res.gvr() == namespacesGVR }

// checkNamespaceLocked refuses a creation in a namespace that is being deleted. A namespace that
// does not exist is accepted, unlike on the real server. It needs mu.
func (s *Server) checkNamespaceLocked(res *resource, obj object) error {
	namespace := obj.GetNamespace()
	if namespace == "" {
		return nil
	}
	rec, ok := s.registry().byGVR[namespacesGVR].history.current.Get(namespace)
	if !ok || rec.links == nil || !rec.links.deleting {
		return nil
	}
	name := obj.GetName()
	if name == "" {
		name = obj.GetGenerateName()
	}
	err := apierrors.NewForbidden(res.gr(), name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
	}}
	return err
}

// addFinalizer gives a new namespace the finalizer of the namespace controller.
func addFinalizer(obj object) {
	if ns, ok := obj.(*corev1.Namespace); ok && !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// keepFinalizers undoes a change of the spec's finalizers by a client, who needs the subresource
// finalize for it. A test's own update, which is of the whole object, only does not lose them by naming none.
func keepFinalizers(obj, old object, w writing) {
	if ns, ok := obj.(*corev1.Namespace); ok && w.subresource != "finalize" && (w.parts == wholeButStatus || len(ns.Spec.Finalizers) == 0) {
		ns.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
	}
}

func checkDeletable(res *resource, name string) error {
	if res.isNamespaces() && slices.Contains(undeletable, name) {
		return apierrors.NewForbidden(res.gr(), name, fmt.Errorf("this namespace may not be deleted"))
	}
	return nil
}

// terminateLocked marks a namespace as terminating, and reports whether finalizers of its spec still
// hold it. It needs mu.
func (s *Server) terminateLocked(res *resource, prior *record, ns *corev1.Namespace, options *metav1.DeleteOptions, dryRun bool) (rec *record, held bool, err error) {
	if ns.DeletionTimestamp != nil {
		return prior, len(ns.Spec.Finalizers) > 0, nil
	}
	ns.DeletionTimestamp = new(metav1.NewTime(time.Now().Truncate(time.Second)))
	ns.Status.Phase = corev1.NamespaceTerminating
	ns.Finalizers = res.finalizersFor(ns, options)
	rec, err = s.replaceLocked(res, prior, ns, writing{}.author(prior.author.tracked), dryRun)
	return rec, true, err
}

// emptyNamespace deletes what is in a terminating namespace, its pods before all else, and takes the
// finalizer away when nothing is left. What a finalizer or a grace period holds is left for a later
// pass.
func (p *pass) emptyNamespace(ns *record) {
	pods := p.server.registry().byGVR[podsGVR]
	if p.deleteAllIn(ns.name, pods) > 0 {
		return
	}
	left := 0
	for _, r := range p.server.registry().ordered {
		if r.Namespaced && r != pods && !r.secondary {
			left += p.deleteAllIn(ns.name, r)
		}
	}
	if left > 0 {
		return
	}
	w := writing{parts: wholeButStatus, subresource: "finalize", manager: "kube-controller-manager"}
	_, _ = p.server.updateLocked(ns.resource, "", ns.name, w, func(prior *record) (object, error) {
		obj := prior.object().(*corev1.Namespace)
		if prior.uid != ns.uid {
			return nil, failure(http.StatusConflict, metav1.StatusReasonConflict, "another namespace has the name")
		}
		obj.Spec.Finalizers = slices.DeleteFunc(obj.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return obj, nil
	})
}

// deleteAllIn deletes the objects of a resource in a namespace, and returns how many remain.
func (p *pass) deleteAllIn(namespace string, res *resource) (left int) {
	s := p.server
	in := func() []*record {
		if res.history.current.Len() == 0 {
			return nil
		}
		return cut(res.history.current.Copy(), s.version, selection{namespace: namespace}, "", 0).records
	}
	for _, rec := range in() {
		options := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
		_, _, _ = s.deleteLocked(res, namespace, rec.name, options, false)
	}
	return len(in())
}
