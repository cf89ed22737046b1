package simulate

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func newNode(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		n.Labels[label] = "yes"
	}
	return n
}

func cordon(n *corev1.Node) *corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

func taint(n *corev1.Node, effect corev1.TaintEffect) *corev1.Node {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "k", Value: "v", Effect: effect})
	return n
}

func TestPods(t *testing.T) {
	selectGPU := map[string]string{"gpu": "yes"}
	for _, pod := range []struct {
		name  string
		spec  corev1.PodSpec
		nodes []*corev1.Node
		do    func(s *reflectortest.Server, p *corev1.Pod) error // after the pod has started
		after time.Duration
		want  string
		again time.Duration
	}{
		{name: "without nodes", want: "Running ready on node"},
		{name: "the first node", nodes: []*corev1.Node{newNode("b"), newNode("a")}, want: "Running ready on a"},
		{name: "a node by labels", nodes: []*corev1.Node{newNode("a"), newNode("b", "gpu")}, spec: corev1.PodSpec{NodeSelector: selectGPU}, want: "Running ready on b"},
		{name: "a cordoned node", nodes: []*corev1.Node{cordon(newNode("a")), newNode("b")}, want: "Running ready on b"},
		{name: "a cordoned node is tolerated", nodes: []*corev1.Node{cordon(newNode("a"))}, want: "Running ready on a",
			spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}}},
		{name: "a tainted node", nodes: []*corev1.Node{taint(newNode("a"), corev1.TaintEffectNoExecute)}, want: " on ",
			spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "k", Value: "w"}, {Key: "l", Value: "v"}}}},
		{name: "a taint is tolerated", nodes: []*corev1.Node{taint(newNode("a"), corev1.TaintEffectNoSchedule)}, want: "Running ready on a",
			spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}}},
		{name: "a taint that only warns", nodes: []*corev1.Node{taint(newNode("a"), corev1.TaintEffectPreferNoSchedule)}, want: "Running ready on a"},
		{name: "no node fits", nodes: []*corev1.Node{newNode("a")}, spec: corev1.PodSpec{NodeSelector: selectGPU}, want: " on "},
		{name: "a given node", nodes: []*corev1.Node{newNode("a")}, spec: corev1.PodSpec{NodeName: "b"}, want: "Running ready on b"},
		{name: "a scheduling gate", spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/g"}}}, want: " on "},
		{name: "a readiness gate", spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/g"}}}, want: "Running on node"},
		{name: "an open readiness gate", spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/g"}}}, want: "Running ready on node",
			do: func(s *reflectortest.Server, p *corev1.Pod) error {
				setPodCondition(p, "example.com/g", true, "", metav1.Now())
				return s.Update(p)
			}},
		{name: "broken by the user", want: "Running on node", do: func(s *reflectortest.Server, p *corev1.Pod) error {
			setPodCondition(p, corev1.PodReady, false, "Broken", metav1.Now())
			return s.Update(p)
		}},
		{name: "runs on", after: time.Hour, want: "Running ready on node"},
		{name: "has not ended", spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, after: 20 * time.Second, want: "Running ready on node", again: 40 * time.Second},
		{name: "succeeds", spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, after: time.Minute, want: "Succeeded on node"},
		{name: "bad", spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure}, after: time.Minute, want: "Failed on node"},
		{name: "deleted", do: evict, want: "gone"},
		{name: "held by a finalizer", want: "Succeeded on node, deleting", do: func(s *reflectortest.Server, p *corev1.Pod) error {
			p.Finalizers = []string{"example.com/x"}
			if err := s.Update(p); err != nil {
				return err
			}
			return evict(s, p)
		}},
	} {
		t.Run(pod.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := reflectortest.Start(t)
				for _, n := range pod.nodes {
					require.NoError(t, s.Create(n))
				}
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.ReplaceAll(pod.name, " ", "-")}, Spec: pod.spec}
				p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
				require.NoError(t, s.Create(p))
				play := Pods(time.Minute, func(p *corev1.Pod) bool { return p.Name == "bad" })
				again, err := play(s)
				require.NoError(t, err)
				if ends := p.Spec.RestartPolicy != ""; ends {
					assert.Equal(t, time.Minute, again)
				}
				require.NoError(t, s.Get(p))
				if pod.do != nil {
					require.NoError(t, pod.do(s, p))
				}
				<-time.After(pod.after)
				again, err = play(s)
				require.NoError(t, err)
				assert.Equal(t, pod.again, again)
				still := s.ResourceVersion()
				_, err = play(s)
				require.NoError(t, err)
				assert.Equal(t, still, s.ResourceVersion(), "nothing is left to do")

				got := "gone"
				if err := s.Get(p); err == nil {
					got = string(p.Status.Phase)
					if podIs(p, corev1.PodReady) {
						got += " ready"
						require.Len(t, p.Status.ContainerStatuses, 1)
						assert.True(t, p.Status.ContainerStatuses[0].Ready)
						assert.NotEmpty(t, p.Status.PodIP)
					}
					got += " on " + p.Spec.NodeName
					if p.DeletionTimestamp != nil {
						got += ", deleting"
					}
				}
				assert.Equal(t, pod.want, got)
			})
		})
	}
}

// An operator sees a pod in deletion before it is gone.
func TestAUserDeletesAPodWithItsGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		typed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		named := &unstructured.Unstructured{}
		named.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		named.SetNamespace("default")
		named.SetName("a")
		for _, object := range []metav1.Object{typed, named} {
			p := typed.DeepCopy()
			p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
			p.Finalizers = []string{metav1.FinalizerDeleteDependents} // kubectl asks for another policy
			require.NoError(t, s.Create(p))
			play := Pods(0, nil)
			_, err := play(s)
			require.NoError(t, err)
			require.NoError(t, Delete(object).Do(s))
			require.NoError(t, s.Get(p), "until the kubelet has ended it")
			require.NotNil(t, p.DeletionTimestamp)
			assert.EqualValues(t, 30, *p.DeletionGracePeriodSeconds)
			assert.Empty(t, p.Finalizers)
			_, err = play(s)
			require.NoError(t, err)
			require.True(t, apierrors.IsNotFound(s.Get(p)))
			assert.True(t, apierrors.IsNotFound(Delete(object).Do(s)))
		}

		p := typed.DeepCopy()
		require.NoError(t, s.Create(p))
		s.Inject(reflectortest.Refuse().On("delete", "pods"))
		assert.ErrorIs(t, evict(s, p), errRefused)
		assert.ErrorIs(t, Delete(p).Do(s), errRefused)
	})
}

func TestPodsHaveTheSameAddressInEachRunButNoneTwice(t *testing.T) {
	var runs [][]string
	for range 2 {
		s := reflectortest.Start(t)
		for range 3 {
			require.NoError(t, s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "p-"}}))
		}
		_, err := Pods(0, nil)(s)
		require.NoError(t, err)
		pods, err := reflectortest.List[*corev1.Pod](s, "")
		require.NoError(t, err)
		var all []string
		for _, p := range pods {
			all = append(all, p.Status.PodIP)
		}
		slices.Sort(all)
		assert.Len(t, slices.Compact(slices.Clone(all)), 3)
		runs = append(runs, all)
	}
	assert.Equal(t, runs[0], runs[1])
}

func TestAPodThatSomebodyElseHasStartedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		require.NoError(t, s.Create(p))
		play := Pods(time.Minute, nil)
		again, err := play(s)
		require.NoError(t, err)
		<-time.After(again)
		_, err = play(s)
		require.NoError(t, err)
		require.NoError(t, s.Get(p))
		assert.Equal(t, corev1.PodSucceeded, p.Status.Phase)
	})
}
