package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
)

// StatefulSets plays the controller of StatefulSets, and the kubelet for their pods, as Pods does. It creates
// and deletes pods in the order of Kubernetes, one at a time unless spec.podManagementPolicy is Parallel,
// updates them from the highest ordinal down, and binds the PersistentVolumeClaims that it makes at once.
//
// A pod that a step of the user makes unready therefore stops scaling and updates, as it does in a cluster.
func StatefulSets(s *reflectortest.Server) (again time.Duration, err error) {
	if _, err = (kubelet{owner: "StatefulSet"}).play(s); err != nil {
		return 0, err
	}
	sets, err := reflectortest.List[*appsv1.StatefulSet](s, "")
	if err != nil {
		return 0, err
	}
	for _, set := range sets {
		if set.DeletionTimestamp != nil {
			continue
		}
		next, err := (&statefulSet{StatefulSet: set, server: s}).play()
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue // the set is deleted next
		}
		if err != nil {
			return 0, fmt.Errorf("StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
		}
		again = sooner(again, next)
	}
	return again, nil
}

// statefulSet is one set while it is played.
type statefulSet struct {
	*appsv1.StatefulSet
	server          *reflectortest.Server
	current, update *appsv1.ControllerRevision
}

func (set *statefulSet) play() (again time.Duration, err error) {
	pods, err := set.pods()
	if err != nil {
		return 0, err
	}
	collisions := deref(set.Status.CollisionCount)
	used := []string{set.Status.CurrentRevision, set.Status.UpdateRevision}
	for _, p := range pods {
		used = append(used, p.Labels[appsv1.ControllerRevisionHashLabelKey])
	}
	known, err := revise(set.server, set.StatefulSet, "StatefulSet", &set.Spec.Template, used, &collisions)
	if err != nil {
		return 0, err
	}
	set.update = known[len(known)-1]
	set.current = set.update
	if i := slices.IndexFunc(known, func(r *appsv1.ControllerRevision) bool { return r.Name == set.Status.CurrentRevision }); i >= 0 {
		set.current = known[i]
	}
	if err := set.act(pods); err != nil {
		return 0, err
	}
	if pods, err = set.pods(); err != nil {
		return 0, err
	}

	status := *set.Status.DeepCopy()
	status.ObservedGeneration, status.CollisionCount = set.Generation, &collisions
	status.CurrentRevision, status.UpdateRevision = set.current.Name, set.update.Name
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.CurrentReplicas, status.UpdatedReplicas = 0, 0, 0, 0, 0
	for _, p := range pods {
		status.Replicas++
		if left, ready := availability(p, set.Spec.MinReadySeconds); ready {
			status.ReadyReplicas++
			if left == 0 {
				status.AvailableReplicas++
			} else {
				again = sooner(again, left)
			}
		}
		if p.DeletionTimestamp == nil && set.isAt(p, set.current) {
			status.CurrentReplicas++
		}
		if p.DeletionTimestamp == nil && set.isAt(p, set.update) {
			status.UpdatedReplicas++
		}
	}
	// Kubernetes leaves the revisions apart for ever if the strategy is OnDelete, so that the final state would
	// depend on the templates that the set had for a moment.
	if n := set.replicas(); status.Replicas == n && status.ReadyReplicas == n && status.UpdatedReplicas == n {
		status.CurrentReplicas, status.CurrentRevision = n, status.UpdateRevision
	}
	if reflect.DeepEqual(status, set.Status) {
		return again, nil
	}
	set.Status = status
	return again, set.server.Update(set.StatefulSet)
}

// act does what is due now.
func (set *statefulSet) act(pods []*corev1.Pod) error {
	inOrder := set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	wait := func(p *corev1.Pod) bool {
		return inOrder && (p.DeletionTimestamp != nil || !available(p, set.Spec.MinReadySeconds))
	}
	replicas := map[int]*corev1.Pod{}
	var condemned []*corev1.Pod
	for _, p := range pods {
		if n := set.ordinal(p.Name); n >= set.start() && n < set.end() {
			replicas[n] = p
		} else {
			condemned = append([]*corev1.Pod{p}, condemned...) // pods are in the order of ordinals
		}
	}
	for n := set.start(); n < set.end(); n++ {
		p := replicas[n]
		switch {
		case p == nil:
			if stale, err := set.hasStaleClaim(n); err != nil || stale {
				return err
			}
			if err := set.create(n); err != nil {
				return err
			}
			if inOrder {
				return nil
			}
			continue
		case terminated(p):
			if p.DeletionTimestamp == nil {
				if err := evict(set.server, p); err != nil {
					return err
				}
			}
			if inOrder {
				return nil
			}
			delete(replicas, n)
			continue
		case wait(p):
			return nil
		}
		if err := set.ownClaims(p, false); err != nil {
			return err
		}
	}
	for _, p := range condemned {
		if err := set.ownClaims(p, true); err != nil {
			return err
		}
	}
	for i, p := range condemned {
		lowest := !slices.ContainsFunc(condemned[i+1:], func(lower *corev1.Pod) bool { return wait(lower) })
		switch {
		case p.DeletionTimestamp != nil && inOrder, wait(p) && !lowest:
			return nil // the lowest of the pods that are not available goes first, and blocks the others
		case p.DeletionTimestamp != nil:
			continue
		}
		if err := evict(set.server, p); err != nil || inOrder {
			return err
		}
	}
	if set.onDelete() {
		return nil
	}
	for n := set.end() - 1; n >= set.start()+set.partition(); n-- {
		p := replicas[n]
		switch {
		case p == nil:
			return nil // it was created now, and is not yet available
		case p.DeletionTimestamp == nil && !set.isAt(p, set.update):
			return evict(set.server, p)
		case p.DeletionTimestamp != nil, !available(p, set.Spec.MinReadySeconds):
			return nil
		}
	}
	return nil
}

// create creates a pod and its claims. While somebody else's pod has the name, nothing happens.
func (set *statefulSet) create(n int) error {
	revision := set.update
	if !set.onDelete() && n < set.start()+set.partition() {
		revision = set.current
	}
	p, err := newPod(set.StatefulSet, "StatefulSet", revision)
	if err != nil {
		return err
	}
	p.Name = fmt.Sprintf("%s-%d", set.Name, n)
	p.Labels[appsv1.StatefulSetPodNameLabel], p.Labels[appsv1.PodIndexLabel] = p.Name, strconv.Itoa(n)
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = revision.Name
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, set.Spec.ServiceName
	var volumes []corev1.Volume
	for i := range set.Spec.VolumeClaimTemplates {
		claim := set.claim(i, n)
		volumes = append(volumes, corev1.Volume{Name: set.Spec.VolumeClaimTemplates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
		if err := set.server.Create(claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, v := range p.Spec.Volumes {
		if !slices.ContainsFunc(volumes, func(own corev1.Volume) bool { return own.Name == v.Name }) {
			volumes = append(volumes, v)
		}
	}
	p.Spec.Volumes = volumes
	if err := set.server.Create(p); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// claim returns what a claim template makes for a pod.
func (set *statefulSet) claim(template, n int) *corev1.PersistentVolumeClaim {
	t := set.Spec.VolumeClaimTemplates[template].DeepCopy()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Labels: t.Labels, Annotations: t.Annotations}, Spec: t.Spec}
	c.Name = fmt.Sprintf("%s-%s-%d", t.Name, set.Name, n)
	if set.Spec.Selector != nil {
		c.Labels = merge(c.Labels, set.Spec.Selector.MatchLabels)
	}
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: t.Spec.AccessModes, Capacity: t.Spec.Resources.Requests}
	return c
}

// ownClaims gives the claims of a pod the owners that spec.persistentVolumeClaimRetentionPolicy wants, which
// decide whether the garbage collector deletes them.
func (set *statefulSet) ownClaims(p *corev1.Pod, condemned bool) error {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil {
		return nil
	}
	scaled, deleted := policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType, policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	var refs []metav1.OwnerReference
	switch {
	case scaled && condemned:
		refs = append(refs, *metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod")))
	case deleted:
		refs = append(refs, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
	}
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.claim(i, set.ordinal(p.Name))
		if err := set.server.Get(c); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(c.OwnerReferences), func(r metav1.OwnerReference) bool {
			return r.Kind == "StatefulSet" && r.Name == set.Name || r.Kind == "Pod" && r.Name == p.Name
		})
		want := append(others, refs...)
		if slices.EqualFunc(want, c.OwnerReferences, func(a, b metav1.OwnerReference) bool { return reflect.DeepEqual(a, b) }) {
			continue
		}
		c.OwnerReferences = want
		if err := set.server.Update(c); err != nil {
			return err
		}
	}
	return nil
}

// hasStaleClaim reports whether a claim of a pod that does not exist belongs to an earlier pod of that name, so
// that the garbage collector will delete it.
func (set *statefulSet) hasStaleClaim(n int) (bool, error) {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || policy.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		return false, nil
	}
	pod := fmt.Sprintf("%s-%d", set.Name, n)
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.claim(i, n)
		if err := set.server.Get(c); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return false, err
		}
		if slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "Pod" && r.Name == pod }) {
			return true, nil
		}
	}
	return false, nil
}

// pods returns the pods of the set in the order of their ordinals.
func (set *statefulSet) pods() ([]*corev1.Pod, error) {
	own, err := claimPods(set.server, set.StatefulSet, "StatefulSet", set.Spec.Selector, &set.Spec.Template, func(p *corev1.Pod) bool { return set.ordinal(p.Name) >= 0 })
	slices.SortFunc(own, func(a, b *corev1.Pod) int { return cmp.Compare(set.ordinal(a.Name), set.ordinal(b.Name)) })
	return own, err
}

// ordinal returns the ordinal in the name of a pod, or -1 if the name is none of the set.
func (set *statefulSet) ordinal(name string) int {
	digits, ok := strings.CutPrefix(name, set.Name+"-")
	if n, err := strconv.Atoi(digits); ok && err == nil && strconv.Itoa(n) == digits {
		return n
	}
	return -1
}

func (set *statefulSet) isAt(p *corev1.Pod, r *appsv1.ControllerRevision) bool {
	return p.Labels[appsv1.ControllerRevisionHashLabelKey] == r.Name
}

func (set *statefulSet) replicas() int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

func (set *statefulSet) start() int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

func (set *statefulSet) end() int { return set.start() + int(set.replicas()) }

func (set *statefulSet) onDelete() bool {
	return set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
}

func (set *statefulSet) partition() int {
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil {
		return int(deref(u.Partition))
	}
	return 0
}

// DaemonSets plays the controller of DaemonSets, and the kubelet for their pods, as Pods does. Each Node that
// has the labels of the pods' nodeSelector gets a pod; without Node objects, there is one node, which always
// gets one. Taints, affinities and maxSurge have no effect, and maxUnavailable is at least 1.
func DaemonSets(s *reflectortest.Server) (again time.Duration, err error) {
	if _, err = (kubelet{owner: "DaemonSet"}).play(s); err != nil {
		return 0, err
	}
	sets, err := reflectortest.List[*appsv1.DaemonSet](s, "")
	if err != nil {
		return 0, err
	}
	nodes, err := reflectortest.List[*corev1.Node](s, "")
	if err != nil {
		return 0, err
	}
	for _, set := range sets {
		if set.DeletionTimestamp != nil {
			continue
		}
		next, err := (&daemonSet{DaemonSet: set, server: s}).play(nodes)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
		again = sooner(again, next)
	}
	return again, nil
}

// daemonSet is one set while it is played.
type daemonSet struct {
	*appsv1.DaemonSet
	server *reflectortest.Server
	update *appsv1.ControllerRevision
}

// pods returns the pods of the set, the oldest one first: of two on a node, it stays.
func (set *daemonSet) pods() ([]*corev1.Pod, error) {
	own, err := claimPods(set.server, set.DaemonSet, "DaemonSet", set.Spec.Selector, &set.Spec.Template, func(*corev1.Pod) bool { return true })
	slices.SortStableFunc(own, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return own, err
}

func (set *daemonSet) play(nodes []*corev1.Node) (again time.Duration, err error) {
	pods, err := set.pods()
	if err != nil {
		return 0, err
	}
	collisions := deref(set.Status.CollisionCount)
	var used []string
	for _, p := range pods {
		used = append(used, set.Name+"-"+p.Labels[appsv1.ControllerRevisionHashLabelKey])
	}
	known, err := revise(set.server, set.DaemonSet, "DaemonSet", &set.Spec.Template, used, &collisions)
	if err != nil {
		return 0, err
	}
	set.update = known[len(known)-1]
	var wanted []string
	for _, n := range nodes {
		if selects(set.Spec.Template.Spec.NodeSelector, n) {
			wanted = append(wanted, n.Name)
		}
	}
	if len(nodes) == 0 {
		wanted = []string{theNode}
	}
	if err := set.act(pods, wanted); err != nil {
		return 0, err
	}
	if pods, err = set.pods(); err != nil {
		return 0, err
	}

	status := *set.Status.DeepCopy()
	status.ObservedGeneration, status.DesiredNumberScheduled = set.Generation, int32(len(wanted))
	status.CurrentNumberScheduled, status.NumberMisscheduled, status.NumberReady, status.NumberAvailable, status.UpdatedNumberScheduled = 0, 0, 0, 0, 0
	if collisions > 0 {
		status.CollisionCount = &collisions
	}
	seen := map[string]bool{}
	for _, p := range pods {
		exists := len(nodes) == 0 || slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.NodeName })
		if !exists || seen[p.Spec.NodeName] {
			continue
		}
		seen[p.Spec.NodeName] = true
		if !slices.Contains(wanted, p.Spec.NodeName) {
			status.NumberMisscheduled++
			continue
		}
		status.CurrentNumberScheduled++
		if left, ready := availability(p, set.Spec.MinReadySeconds); ready {
			status.NumberReady++
			if left == 0 {
				status.NumberAvailable++
			} else {
				again = sooner(again, left)
			}
		}
		if set.isUpdated(p) {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	if reflect.DeepEqual(status, set.Status) {
		return again, nil
	}
	set.Status = status
	return again, set.server.Update(set.DaemonSet)
}

// act does what is due now.
func (set *daemonSet) act(pods []*corev1.Pod, wanted []string) error {
	on, taken := map[string]*corev1.Pod{}, map[string]bool{} // by node
	var gone []*corev1.Pod
	for _, p := range pods {
		node := p.Spec.NodeName
		taken[node] = true
		switch {
		case p.DeletionTimestamp != nil:
		case terminated(p), !slices.Contains(wanted, node), on[node] != nil:
			gone = append(gone, p)
		default:
			on[node] = p
		}
	}
	unavailable := 0
	var old []*corev1.Pod
	for _, node := range wanted {
		p := on[node]
		usable := p != nil && available(p, set.Spec.MinReadySeconds)
		if !usable {
			unavailable++
		}
		switch {
		case !taken[node]:
			if err := set.create(node); err != nil {
				return err
			}
		case p == nil, set.isUpdated(p), set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
		case usable:
			old = append(old, p)
		default:
			gone = append(gone, p) // an update makes nothing worse there
		}
	}
	most := 1
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, len(wanted), true)
		if err != nil {
			return err
		}
		most = max(most, n)
	}
	gone = append(gone, old[:min(len(old), max(0, most-unavailable))]...)
	for _, p := range gone {
		if err := evict(set.server, p); err != nil {
			return err
		}
	}
	return nil
}

// create creates the pod of a node. Its name has a part that differs each time, as that of Kubernetes, but
// depends on nothing but the state of the server.
func (set *daemonSet) create(node string) error {
	p, err := newPod(set.DaemonSet, "DaemonSet", set.update)
	if err != nil {
		return err
	}
	p.GenerateName, p.Spec.NodeName = set.Name+"-", node
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = set.update.Labels[revisionHash]
	for n := sum(node, fmt.Sprint(set.server.ResourceVersion())); ; n++ {
		p.Name = p.GenerateName + rand.SafeEncodeString(fmt.Sprintf("%05d", n%100_000))
		if err := set.server.Create(p); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func (set *daemonSet) isUpdated(p *corev1.Pod) bool {
	return p.Labels[appsv1.ControllerRevisionHashLabelKey] == set.update.Labels[revisionHash]
}

// revisionHash is the label of a ControllerRevision that has the hash in its name.
const revisionHash = "controller.kubernetes.io/hash"

// revise returns the ControllerRevisions of a set, the one of its template last, which it creates if there is
// none. It keeps only this one and those that are used, and numbers them again, so that the final state does
// not depend on the templates that the set had for a moment. The generateName, which Kubernetes does not set,
// lets all runs share the name, although the hash in it may be that of an object's UID.
func revise(s *reflectortest.Server, set metav1.Object, kind string, template *corev1.PodTemplateSpec, used []string, collisions *int32) ([]*appsv1.ControllerRevision, error) {
	data, err := revisionData(template)
	if err != nil {
		return nil, err
	}
	all, err := reflectortest.List[*appsv1.ControllerRevision](s, set.GetNamespace())
	if err != nil {
		return nil, err
	}
	var known []*appsv1.ControllerRevision
	var update *appsv1.ControllerRevision
	newest := int64(0)
	for _, r := range all {
		switch {
		case !metav1.IsControlledBy(r, set):
		case bytes.Equal(r.Data.Raw, data):
			update = r
		case slices.Contains(used, r.Name):
			known = append(known, r)
			newest = max(newest, r.Revision)
		default:
			if err := s.Delete(r); err != nil {
				return nil, err
			}
		}
	}
	if update == nil {
		update = &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}, Revision: newest + 1}
		update.Namespace, update.GenerateName = set.GetNamespace(), set.GetName()+"-"
		update.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind(kind))}
		for ; ; *collisions++ {
			hash := templateHash(data, *collisions)
			update.Name = update.GenerateName + hash
			update.Labels = merge(template.Labels, map[string]string{revisionHash: hash})
			err := s.Create(update)
			if err == nil {
				break
			}
			same := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: update.Namespace, Name: update.Name}}
			if !apierrors.IsAlreadyExists(err) || s.Get(same) != nil {
				return nil, err
			}
			if bytes.Equal(same.Data.Raw, data) {
				break // it is that of an earlier set with this name, until the garbage collector comes
			}
		}
	} else if update.Revision != newest+1 {
		update.Revision = newest + 1
		if err := s.Update(update); err != nil {
			return nil, err
		}
	}
	return append(known, update), nil
}

// templateHash is a hash of a template that is the same in all runs: without times and UIDs. Templates that
// differ only there collide, and are told apart by the number of collisions.
func templateHash(data []byte, collisions int32) string {
	text := someUID.ReplaceAllString(someTime.ReplaceAllString(string(data), "TIME"), "UID")
	return rand.SafeEncodeString(fmt.Sprint(sum(text, fmt.Sprint(collisions))))
}

// revisionData is a template as a ControllerRevision holds it: a patch of the set.
func revisionData(template *corev1.PodTemplateSpec) ([]byte, error) {
	var fields map[string]any
	b, err := json.Marshal(template)
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// newPod returns a pod of the template that a revision holds.
func newPod(set metav1.Object, kind string, revision *appsv1.ControllerRevision) (*corev1.Pod, error) {
	var patch struct {
		Spec struct{ Template *corev1.PodTemplateSpec }
	}
	if err := json.Unmarshal(revision.Data.Raw, &patch); err != nil {
		return nil, err
	}
	t := patch.Spec.Template
	if t == nil {
		return nil, errors.New("ControllerRevision " + revision.Name + " has no template")
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.GetNamespace(), Labels: merge(t.Labels), Annotations: t.Annotations, Finalizers: t.Finalizers,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind(kind))},
	}, Spec: t.Spec}
	p.Status.Phase = corev1.PodPending
	return p, nil
}

// claimPods returns the pods that a set controls, in the order of their names. It adopts those without a
// controller that the selector matches and that may be of the set, and releases those that it matches no more. A
// selector that Kubernetes would refuse is an error, or the set would at once release what it makes.
func claimPods(s *reflectortest.Server, set metav1.Object, kind string, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, may func(*corev1.Pod) bool) (own []*corev1.Pod, err error) {
	matching, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	if selector != nil && (matching.Empty() || !matching.Matches(labels.Set(template.Labels))) {
		return nil, errors.New("the API server of a cluster refuses it, because spec.selector is empty or does not match the labels of spec.template: correct them")
	}
	all, err := reflectortest.List[*corev1.Pod](s, set.GetNamespace())
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		controlled, matches := metav1.IsControlledBy(p, set), matching.Matches(labels.Set(p.Labels))
		switch {
		case !may(p):
			continue
		case controlled && (matches || selector == nil): // Kubernetes would refuse a set without a selector
			own = append(own, p)
			continue
		case controlled:
			p.OwnerReferences = slices.DeleteFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == set.GetUID() })
		case matches && metav1.GetControllerOf(p) == nil && p.DeletionTimestamp == nil:
			p.OwnerReferences = append(p.OwnerReferences, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind(kind)))
			own = append(own, p)
		default:
			continue
		}
		if err := s.Update(p); err != nil {
			return nil, err
		}
	}
	return own, nil
}

func merge(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}
