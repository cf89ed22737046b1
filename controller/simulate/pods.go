package simulate

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pods returns a player of the scheduler and the kubelets. A pod without spec.schedulingGates is placed on
// a node, runs and is Ready at once; a pod that a client deletes has ended and is gone at once. With a
// restartPolicy other than Always, and if runs is not 0, a pod ends after that time: it has succeeded, or
// failed if fails is not nil and returns true.
//
// The player never repairs a pod that runs, so a step of the user can take its condition Ready away and
// give it back later, unless the pod has readiness gates, which decide then. Without Node objects, there is one
// node with the name "node" on which every pod fits. Otherwise a pod gets the first node by name that its
// nodeSelector and its tolerations allow and that is not cordoned. Affinities have no effect, and pods run on when
// their Node is deleted or gets a taint.
func Pods(runs time.Duration, fails func(*corev1.Pod) bool) Player {
	return func(s *reflectortest.Server) (time.Duration, error) {
		return kubelet{runs: runs, fails: fails}.play(s)
	}
}

// theNode is the node of a cluster without Node objects.
const theNode = "node"

// kubelet plays the pods whose controller has the kind owner, or all pods.
type kubelet struct {
	owner string
	runs  time.Duration
	fails func(*corev1.Pod) bool
}

func (k kubelet) play(s *reflectortest.Server) (again time.Duration, err error) {
	pods, err := reflectortest.List[*corev1.Pod](s, "")
	if err != nil {
		return 0, err
	}
	nodes, err := reflectortest.List[*corev1.Node](s, "")
	if err != nil {
		return 0, err
	}
	taken := map[string]bool{}
	for _, p := range pods {
		taken[p.Status.PodIP] = true
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, p := range pods {
		if c := metav1.GetControllerOf(p); k.owner != "" && (c == nil || c.Kind != k.owner) {
			continue
		}
		was := p.DeepCopy()
		if running(p) && p.Status.StartTime == nil {
			p.Status.StartTime = &now // somebody else has started it
		}
		ends := p.Spec.RestartPolicy == corev1.RestartPolicyNever || p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
		switch {
		case p.DeletionTimestamp != nil:
			if running(p) {
				end(p, corev1.PodSucceeded, now)
			}
		case p.Status.Phase == "", p.Status.Phase == corev1.PodPending:
			node, fits := place(p, nodes)
			if len(p.Spec.SchedulingGates) > 0 || !fits {
				continue
			}
			p.Spec.NodeName = node
			ip := address(p)
			for taken[ip.String()] {
				ip = ip.Next()
			}
			taken[ip.String()] = true
			start(p, ip.String(), now)
		case running(p) && ends && k.runs > 0:
			if left := k.runs - time.Since(p.Status.StartTime.Time); left > 0 {
				again = sooner(again, left)
				break
			}
			phase := corev1.PodSucceeded
			if k.fails != nil && k.fails(p) {
				phase = corev1.PodFailed
			}
			end(p, phase, now)
		}
		if running(p) && len(p.Spec.ReadinessGates) > 0 {
			setPodCondition(p, corev1.PodReady, gatesOpen(p) && podIs(p, corev1.ContainersReady), "ReadinessGatesNotReady", now)
		}
		if ends && running(p) && !running(was) && k.runs > 0 {
			again = sooner(again, k.runs)
		}
		if !reflect.DeepEqual(was, p) {
			if err := s.Update(p); err != nil {
				return 0, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		if p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds > 0 {
			if err := s.Delete(p); err != nil {
				return 0, err
			}
		}
	}
	return again, nil
}

// place returns the node of a pod: the first one by name that takes it.
func place(p *corev1.Pod, nodes []*corev1.Node) (name string, ok bool) {
	switch {
	case p.Spec.NodeName != "":
		return p.Spec.NodeName, true
	case len(nodes) == 0:
		return theNode, true
	}
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return selects(p.Spec.NodeSelector, n) && open(n, p.Spec.Tolerations) })
	if i < 0 {
		return "", false
	}
	return nodes[i].Name, true
}

// open reports whether a node takes new pods with these tolerations.
func open(n *corev1.Node, tolerations []corev1.Toleration) bool {
	taints := slices.Clone(n.Spec.Taints)
	if n.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == "" || t.Key == taint.Key) &&
				(t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
		})
	})
}

func selects(selector map[string]string, n *corev1.Node) bool {
	for key, value := range selector {
		if have, ok := n.Labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// address derives the address of a pod from its name, so that it is the same in all runs. A generated name
// is not the same.
func address(p *corev1.Pod) netip.Addr {
	name := p.Name
	if p.GenerateName != "" {
		name = p.GenerateName
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], sum(p.Namespace, name, p.Spec.NodeName))
	b[0] = 10
	return netip.AddrFrom4(b)
}

// sum is a hash of texts.
func sum(texts ...string) uint32 {
	h := fnv.New32a()
	for _, text := range texts {
		_, _ = h.Write(append([]byte(text), 0))
	}
	return h.Sum32()
}

// start lets the containers of a pod run.
func start(p *corev1.Pod, ip string, now metav1.Time) {
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
	p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = nil, nil
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	for _, c := range p.Spec.InitContainers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: new(false), State: ended(corev1.PodSucceeded, now, now)}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			status.Started, status.State = new(true), runs
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, status)
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: new(true), State: runs})
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		setPodCondition(p, c, true, "", now)
	}
}

// end lets the containers of a pod end.
func end(p *corev1.Pod, phase corev1.PodPhase, now metav1.Time) {
	p.Status.Phase = phase
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range all {
			if c := &all[i]; c.State.Running != nil {
				c.Ready, c.Started, c.State = false, new(false), ended(phase, c.State.Running.StartedAt, now)
			}
		}
	}
	setPodCondition(p, corev1.PodReady, false, "Pod"+reason(phase), now)
	setPodCondition(p, corev1.ContainersReady, false, "Pod"+reason(phase), now)
}

func ended(phase corev1.PodPhase, from, to metav1.Time) corev1.ContainerState {
	t := &corev1.ContainerStateTerminated{Reason: reason(phase), StartedAt: from, FinishedAt: to}
	if phase == corev1.PodFailed {
		t.Reason, t.ExitCode = "Error", 1
	}
	return corev1.ContainerState{Terminated: t}
}

func reason(phase corev1.PodPhase) string {
	if phase == corev1.PodFailed {
		return "Failed"
	}
	return "Completed"
}

// gatesOpen reports whether all conditions are true that others have to set before the pod is Ready.
func gatesOpen(p *corev1.Pod) bool {
	return !slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return !podIs(p, g.ConditionType) })
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func terminated(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func podIs(p *corev1.Pod, what corev1.PodConditionType) bool {
	c := podCondition(p, what)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(p *corev1.Pod, what corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == what })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// setPodCondition sets a condition, with a reason if it is false.
func setPodCondition(p *corev1.Pod, what corev1.PodConditionType, yes bool, reason string, now metav1.Time) {
	c := podCondition(p, what)
	if c == nil {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: what})
		c = &p.Status.Conditions[len(p.Status.Conditions)-1]
	}
	status := corev1.ConditionFalse
	if yes {
		status, reason = corev1.ConditionTrue, ""
	}
	if c.Status != status {
		c.LastTransitionTime = now
	}
	c.Status, c.Reason = status, reason
}

// availability returns how many seconds a pod still has to be Ready until it counts as available. ready is
// false if it is not Ready at all.
func availability(p *corev1.Pod, minReadySeconds int32) (left time.Duration, ready bool) {
	if !running(p) || !podIs(p, corev1.PodReady) {
		return 0, false
	}
	since := podCondition(p, corev1.PodReady).LastTransitionTime.Time
	return max(0, time.Duration(minReadySeconds)*time.Second-time.Since(since)), true
}

// available reports whether a pod has been Ready for long enough.
func available(p *corev1.Pod, minReadySeconds int32) bool {
	left, ready := availability(p, minReadySeconds)
	return ready && left == 0
}

// evict deletes a pod of a controller. If an admission denies it, the next call tries again.
func evict(s *reflectortest.Server, p *corev1.Pod) error {
	if err := deletePod(s, p, ""); !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// deletePod deletes a pod as a client does, so with its grace period: Server.Delete allows none.
func deletePod(s *reflectortest.Server, p metav1.Object, policy metav1.DeletionPropagation) error {
	query := ""
	if policy != "" {
		query = "?propagationPolicy=" + string(policy)
	}
	path := "/api/v1/namespaces/" + url.PathEscape(p.GetNamespace()) + "/pods/" + url.PathEscape(p.GetName())
	answer := httptest.NewRecorder()
	if serve(s, answer, httptest.NewRequest(http.MethodDelete, path+query, nil)) {
		return fmt.Errorf("cannot delete pod %s/%s: %w", p.GetNamespace(), p.GetName(), errRefused)
	}
	if answer.Code < http.StatusBadRequest {
		return nil
	}
	err := &apierrors.StatusError{}
	if json.Unmarshal(answer.Body.Bytes(), &err.ErrStatus) != nil {
		return fmt.Errorf("cannot delete pod %s/%s: %d %s", p.GetNamespace(), p.GetName(), answer.Code, http.StatusText(answer.Code))
	}
	return err
}

// isPod reports whether a step names a pod.
func isPod(object metav1.Object) bool {
	if u, ok := object.(runtime.Unstructured); ok {
		return u.GetObjectKind().GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Pod")
	}
	_, ok := object.(*corev1.Pod)
	return ok
}
