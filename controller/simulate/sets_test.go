package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

var webLabels = map[string]string{"app": "web"}

func web(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: webLabels}, Template: template("a"),
	}}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: webLabels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

// settle plays until nothing changes, and returns the different states of the pods on the way: a pod is its
// ordinal or its node, and its image. "?" means that it has not started, "~" that it is being deleted, and "!"
// that it is not ready.
func settle(t *testing.T, s *reflectortest.Server, players ...Player) (states []string, again time.Duration) {
	t.Helper()
	state := func() string {
		pods, err := reflectortest.List[*corev1.Pod](s, "")
		require.NoError(t, err)
		var all []string
		for _, p := range pods {
			text := p.Labels[appsv1.PodIndexLabel]
			if text == "" {
				text = p.Spec.NodeName + ":"
			}
			text += p.Spec.Containers[0].Image
			switch {
			case p.DeletionTimestamp != nil:
				text += "~"
			case p.Status.Phase == corev1.PodPending:
				text += "?"
			case !podIs(p, corev1.PodReady):
				text += "!"
			}
			all = append(all, text)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	last := state()
	for n := 0; ; n++ {
		require.Less(t, n, 100, "the players do not settle: %q", states)
		before := s.ResourceVersion()
		again = 0
		for _, play := range players {
			next, err := play(s)
			require.NoError(t, err)
			again = sooner(again, next)
		}
		if now := state(); now != last {
			states, last = append(states, now), now
		}
		if s.ResourceVersion() == before {
			return states, again
		}
	}
}

type (
	server = *reflectortest.Server
	set    = *appsv1.StatefulSet
)

// image changes the template.
func image(name string) func(set) { return func(w set) { w.Spec.Template = template(name) } }

func scale(n int32) func(set) { return func(w set) { w.Spec.Replicas = &n } }

// pod returns a function that does something with a stored pod.
func pod(name string, do func(s server, p *corev1.Pod) error) func(server) error {
	return func(s server) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := s.Get(p); err != nil {
			return err
		}
		return do(s, p)
	}
}

func breakPod(s server, p *corev1.Pod) error {
	setPodCondition(p, corev1.PodReady, false, "Broken", metav1.Now())
	return s.Update(p)
}

func relabel(s server, p *corev1.Pod) error {
	p.Labels["app"] = "quarantined"
	return s.Update(p)
}

// controlled returns the pods of a set.
func controlled(s server, set metav1.Object) ([]*corev1.Pod, error) {
	pods, err := reflectortest.List[*corev1.Pod](s, set.GetNamespace())
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !metav1.IsControlledBy(p, set) }), err
}

func TestStatefulSets(t *testing.T) {
	parallel := func(w set) { w.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
	onDelete := func(w set) { w.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }
	partition := func(w set) {
		w.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
	}
	for _, one := range []struct {
		name   string
		begin  func(set) // changes the set of three pods at first
		change func(set)
		do     func(server) error
		states []string // after change and do
		// status is replicas, ready, available, current and updated replicas, and whether the update is complete.
		status string
	}{
		{name: "scale up", change: scale(5), states: []string{"0a 1a 2a 3a?", "0a 1a 2a 3a 4a?", "0a 1a 2a 3a 4a"}, status: "5 5 5 5 5 true"},
		{name: "scale down", change: scale(1), states: []string{"0a 1a 2a~", "0a 1a~", "0a"}, status: "1 1 1 1 1 true"},
		{name: "scale to none", change: scale(0), states: []string{"0a 1a 2a~", "0a 1a~", "0a~", ""}, status: "0 0 0 0 0 true"},
		{name: "another template", change: image("b"), status: "3 3 3 3 3 true",
			states: []string{"0a 1a 2a~", "0a 1a 2b?", "0a 1a~ 2b", "0a 1b? 2b", "0a~ 1b 2b", "0b? 1b 2b", "0b 1b 2b"}},
		{name: "another template, and fewer pods", change: func(w set) { image("b")(w); scale(2)(w) }, status: "2 2 2 2 2 true",
			states: []string{"0a 1a 2a~", "0a 1a~", "0a 1b?", "0a~ 1b", "0b? 1b", "0b 1b"}},
		{name: "a partition", begin: partition, change: image("b"), states: []string{"0a 1a 2a~", "0a 1a 2b?", "0a 1a 2b"}, status: "3 3 3 2 1 false"},
		{name: "a partition, and a pod below is deleted", begin: partition, change: image("b"), do: pod("web-1", evict), status: "3 3 3 2 1 false",
			states: []string{"0a 1a? 2a", "0a 1a 2a~", "0a 1a 2b?", "0a 1a 2b"}},
		{name: "a deletion decides", begin: onDelete, change: image("b"), do: pod("web-1", evict), states: []string{"0a 1b? 2a", "0a 1b 2a"}, status: "3 3 3 2 1 false"},
		{name: "in parallel", begin: parallel, change: scale(6), states: []string{"0a 1a 2a 3a? 4a? 5a?", "0a 1a 2a 3a 4a 5a"}, status: "6 6 6 6 6 true"},
		{name: "down in parallel", begin: parallel, change: scale(1), states: []string{"0a 1a~ 2a~", "0a"}, status: "1 1 1 1 1 true"},
		{name: "a pod is deleted", do: pod("web-0", evict), states: []string{"0a? 1a 2a", "0a 1a 2a"}, status: "3 3 3 3 3 true"},
		{name: "a pod has failed", do: pod("web-0", func(s server, p *corev1.Pod) error { end(p, corev1.PodFailed, metav1.Now()); return s.Update(p) }),
			states: []string{"1a 2a", "0a? 1a 2a", "0a 1a 2a"}, status: "3 3 3 3 3 true"},
		{name: "in parallel, a pod has failed before an update", begin: parallel, change: image("b"), status: "3 3 3 3 3 true",
			do:     pod("web-2", func(s server, p *corev1.Pod) error { end(p, corev1.PodFailed, metav1.Now()); return s.Update(p) }),
			states: []string{"0a 1a", "0a 1a 2b?", "0a 1a~ 2b", "0a 1b? 2b", "0a~ 1b 2b", "0b? 1b 2b", "0b 1b 2b"}},
		{name: "a broken pod blocks more pods", change: scale(4), do: pod("web-1", breakPod), status: "3 2 2 3 3 true"},
		{name: "a broken pod blocks an update", change: image("b"), do: pod("web-1", breakPod), status: "3 2 2 3 0 false"},
		{name: "the last pod is broken", change: scale(1), do: pod("web-2", breakPod), states: []string{"0a 1a 2a~", "0a 1a~", "0a"}, status: "1 1 1 1 1 true"},
		{name: "a broken pod goes after the others", change: scale(1), do: pod("web-1", breakPod), states: []string{"0a 1a! 2a~", "0a 1a~", "0a"}, status: "1 1 1 1 1 true"},
		{name: "two broken pods", change: scale(1), do: func(s server) error { return errors.Join(pod("web-1", breakPod)(s), pod("web-2", breakPod)(s)) },
			status: "3 1 1 3 3 true"}, // the higher one waits for the lower one
		{name: "an orphan", status: "3 3 3 3 3 true", do: pod("web-1", func(s server, p *corev1.Pod) error {
			p.OwnerReferences = nil
			return s.Update(p)
		})},
		{name: "a pod with other labels is released", status: "2 2 2 2 2 true", do: pod("web-1", relabel)},
		{name: "first ordinal", begin: func(w set) { w.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 7} }, change: scale(2), states: []string{"7a 8a 9a~", "7a 8a"}, status: "2 2 2 2 2 true"},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := reflectortest.Start(t)
				w := web(3)
				if one.begin != nil {
					one.begin(w)
				}
				require.NoError(t, s.Create(w))
				begin, _ := settle(t, s, StatefulSets)
				require.NotEmpty(t, begin)
				require.NoError(t, s.Get(w))
				if one.change != nil {
					one.change(w)
					require.NoError(t, s.Update(w))
				}
				if one.do != nil {
					require.NoError(t, one.do(s))
				}
				states, _ := settle(t, s, StatefulSets)
				assert.Equal(t, one.states, states)
				require.NoError(t, s.Get(w))
				st := w.Status
				assert.Equal(t, one.status, fmt.Sprint(st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.CurrentReplicas, st.UpdatedReplicas, st.CurrentRevision == st.UpdateRevision))
				assert.Equal(t, w.Generation, st.ObservedGeneration)
				pods, err := controlled(s, w)
				require.NoError(t, err)
				assert.EqualValues(t, st.Replicas, len(pods), "the set is the owner of its pods")
				revisions, err := reflectortest.List[*appsv1.ControllerRevision](s, "")
				require.NoError(t, err)
				names := []string{st.CurrentRevision, st.UpdateRevision}
				slices.Sort(names)
				var got []string
				newest := int64(0)
				for _, r := range revisions {
					got = append(got, r.Name)
					newest = max(newest, r.Revision)
				}
				assert.EqualValues(t, len(got), newest, "the revisions are numbered again")
				assert.Equal(t, slices.Compact(names), got)
			})
		})
	}
}

// A set that has nothing to wait for does not end the wait of one before it.
func TestEachSetIsPlayedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		for i, name := range []string{"a", "b", "c"} {
			labels := map[string]string{"app": name}
			meta := metav1.ObjectMeta{Namespace: "default", Name: name}
			selector, template := &metav1.LabelSelector{MatchLabels: labels}, template("a")
			template.Labels = labels
			waits := []int32{0, 20, 0}[i]
			require.NoError(t, s.Create(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, MinReadySeconds: waits}}))
			require.NoError(t, s.Create(&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template, MinReadySeconds: waits}}))
		}
		for _, player := range []Player{StatefulSets, DaemonSets} {
			_, again := settle(t, s, player)
			assert.Equal(t, 20*time.Second, again)
		}
	})
}

func TestASetWhoseSelectorNoClusterWouldAcceptIsAnError(t *testing.T) {
	const refused = "Set default/a: the API server of a cluster refuses it"
	for _, selector := range []*metav1.LabelSelector{{MatchLabels: map[string]string{"app": "other"}}, {}} {
		meta := metav1.ObjectMeta{Namespace: "default", Name: "a"}
		s := reflectortest.Start(t)
		require.NoError(t, s.Create(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template("a")}}))
		require.NoError(t, s.Create(&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template("a")}}))
		for _, play := range []Player{StatefulSets, DaemonSets} {
			_, err := play(s)
			require.ErrorContains(t, err, refused)
		}
		pods, err := reflectortest.List[*corev1.Pod](s, "")
		require.NoError(t, err)
		assert.Empty(t, pods)
	}
}

func TestPodsOfAStatefulSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		w := web(2)
		w.Spec.MinReadySeconds = 20
		w.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "scratch"}, {Name: "data"}} // the claim replaces the second one
		w.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
		w.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
		require.NoError(t, s.Create(w))
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "other"}}
		other.Spec.Containers = template("x").Spec.Containers
		other.Labels = map[string]string{appsv1.PodIndexLabel: "other"}
		require.NoError(t, s.Create(other))
		states, again := settle(t, s, StatefulSets)
		assert.Equal(t, []string{"0a? otherx!", "0a otherx!"}, states, "a pod of somebody else is left alone")
		assert.Equal(t, 20*time.Second, again, "the second pod waits until the first one is available")
		require.NoError(t, s.Get(w))
		assert.EqualValues(t, 1, w.Status.ReadyReplicas)
		assert.Zero(t, w.Status.AvailableReplicas)
		for range 2 {
			<-time.After(20 * time.Second)
			settle(t, s, StatefulSets)
		}

		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}
		require.NoError(t, s.Get(p))
		require.NoError(t, s.Get(w))
		assert.Equal(t, []metav1.OwnerReference{*metav1.NewControllerRef(w, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}, p.OwnerReferences)
		assert.Equal(t, map[string]string{
			"app": "web", "statefulset.kubernetes.io/pod-name": "web-1", "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": w.Status.UpdateRevision,
		}, p.Labels)
		assert.Equal(t, "web-1 web", p.Spec.Hostname+" "+p.Spec.Subdomain)
		require.Len(t, p.Spec.Volumes, 2)
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-1"}}
		assert.Equal(t, c.Name, p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
		require.NoError(t, s.Get(c))
		assert.Equal(t, corev1.ClaimBound, c.Status.Phase)
		assert.Equal(t, webLabels, c.Labels)
		assert.True(t, metav1.IsControlledBy(c, w))

		scale(1)(w)
		require.NoError(t, s.Update(w))
		settle(t, s, StatefulSets)
		s.CollectGarbage()
		assert.True(t, apierrors.IsNotFound(s.Get(c)), "the policy deletes the claim of a pod that is too many")
		c.Name = "data-web-0"
		require.NoError(t, s.Get(c))
		require.NoError(t, s.Get(w))
		require.NoError(t, s.Delete(w))
		for s.CollectGarbage() {
		}
		assert.True(t, apierrors.IsNotFound(s.Get(c)), "the policy deletes the other claims with the set")
	})
}

func TestAPodWaitsUntilTheClaimOfTheOneBeforeItIsGone(t *testing.T) {
	s := reflectortest.Start(t)
	w := web(2)
	w.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	w.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	require.NoError(t, s.Create(w))
	change := func(do func(set)) []string {
		require.NoError(t, s.Get(w))
		do(w)
		require.NoError(t, s.Update(w))
		states, _ := settle(t, s, StatefulSets)
		return states
	}
	settle(t, s, StatefulSets)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-1"}}
	require.NoError(t, s.Get(claim))
	first := claim.UID
	assert.Equal(t, []string{"0a 1a~", "0a"}, change(scale(1)))
	assert.Empty(t, change(scale(2)), "the claim is still that of the pod before")
	require.True(t, s.CollectGarbage())
	states, _ := settle(t, s, StatefulSets)
	assert.Equal(t, []string{"0a 1a?", "0a 1a"}, states)
	require.NoError(t, s.Get(claim))
	assert.NotEqual(t, first, claim.UID, "its data is gone, as in Kubernetes")

	change(func(w set) {
		w.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	})
	first = claim.UID
	change(scale(1))
	assert.Equal(t, []string{"0a 1a?", "0a 1a"}, change(scale(2)))
	require.NoError(t, s.Get(claim))
	assert.Equal(t, first, claim.UID)
}

func TestAStatefulSetThatIsCreatedAgainWaitsForTheGarbageCollector(t *testing.T) {
	s := reflectortest.Start(t)
	require.NoError(t, s.Create(web(1)))
	settle(t, s, StatefulSets)
	w := web(1)
	require.NoError(t, s.Delete(w))
	require.NoError(t, s.Create(w))
	settle(t, s, StatefulSets)
	require.NoError(t, s.Get(w))
	assert.Zero(t, w.Status.Replicas, "the pod is that of the earlier set")
	for s.CollectGarbage() {
		settle(t, s, Pods(0, nil), StatefulSets)
	}
	require.NoError(t, s.Get(w))
	assert.EqualValues(t, 1, w.Status.ReadyReplicas)
	assert.Zero(t, *w.Status.CollisionCount, "the earlier set had the same template")
}

func TestHashesAndNamesAreTheSameInEachRun(t *testing.T) {
	var runs [][]string
	for _, minute := range []int{1, 2} {
		s := reflectortest.Start(t)
		at := func(second int) map[string]string {
			return map[string]string{"example.com/restarted": fmt.Sprintf("2026-01-01T00:%02d:%02dZ", minute, second)}
		}
		d := newDaemons()
		var names []string
		for i := range 3 {
			d.Spec.Template.Annotations = at(i)
			if i == 0 {
				require.NoError(t, s.Create(d))
			} else {
				require.NoError(t, s.Update(d))
			}
			settle(t, s, DaemonSets)
			require.NoError(t, s.Get(d))
			pods, err := controlled(s, d)
			require.NoError(t, err)
			require.Len(t, pods, 1)
			assert.Equal(t, at(i), pods[0].Annotations, "each template is another one")
			names = append(names, pods[0].Labels[appsv1.ControllerRevisionHashLabelKey], pods[0].Name)
			revisions, err := reflectortest.List[*appsv1.ControllerRevision](s, "")
			require.NoError(t, err)
			require.Len(t, revisions, 1)
			assert.Equal(t, "agent-", revisions[0].GenerateName, "the names of revisions are not compared")
		}
		runs = append(runs, names)
	}
	assert.Equal(t, runs[0], runs[1], "although the times in the templates differ")
}

func newDaemons() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: webLabels}, Template: template("a"),
	}}
}

func TestDaemonSets(t *testing.T) {
	type daemons = *appsv1.DaemonSet
	another := func(d daemons) { d.Spec.Template = template("b") }
	three := []*corev1.Node{newNode("x"), newNode("y", "gpu"), newNode("z")}
	onlyGPU := func(d daemons) { d.Spec.Template.Spec.NodeSelector = map[string]string{"gpu": "yes"} }
	first := func(do func(server, *corev1.Pod) error) func(server) error {
		return func(s server) error {
			pods, err := reflectortest.List[*corev1.Pod](s, "")
			if err != nil {
				return err
			}
			return do(s, slices.MinFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) }))
		}
	}
	for _, one := range []struct {
		name   string
		nodes  []*corev1.Node
		begin  func(daemons)
		change func(daemons)
		do     func(server) error
		states []string // since the beginning
		// status is desired, current, ready, available, unavailable, misscheduled and updated.
		status string
		again  time.Duration
	}{
		{name: "not yet available", begin: func(d daemons) { d.Spec.MinReadySeconds = 20 }, states: []string{"node:a?", "node:a"}, status: "1 1 1 0 1 0 1", again: 20 * time.Second},
		{name: "two on a node", do: first(func(s server, p *corev1.Pod) error {
			p.Name, p.ResourceVersion = "zzz", ""
			return s.Create(p)
		}), states: []string{"node:a?", "node:a", "node:a node:a~", "node:a"}, status: "1 1 1 1 0 0 1"},
		{name: "an older one on a node", do: first(func(s server, p *corev1.Pod) error {
			<-time.After(time.Second)
			p.Name, p.ResourceVersion, p.Spec.Containers[0].Image = "aaa", "", "b"
			return s.Create(p)
		}), states: []string{"node:a?", "node:a", "node:a node:b~", "node:a"}, status: "1 1 1 1 0 0 1"},
		{name: "an orphan", states: []string{"node:a?", "node:a"}, status: "1 1 1 1 0 0 1", do: first(func(s server, p *corev1.Pod) error {
			p.OwnerReferences = nil
			return s.Update(p)
		})},
		{name: "a pod with other labels is replaced", states: []string{"node:a?", "node:a", "node:a node:a?", "node:a node:a"}, status: "1 1 1 1 0 0 1", do: first(relabel)},
		{name: "without nodes", states: []string{"node:a?", "node:a"}, status: "1 1 1 1 0 0 1"},
		{name: "one for each node", nodes: three, states: []string{"x:a? y:a? z:a?", "x:a y:a z:a"}, status: "3 3 3 3 0 0 3"},
		{name: "no node fits", nodes: three[:1], begin: onlyGPU, status: "0 0 0 0 0 0 0"},
		{name: "some nodes fit", nodes: three, begin: onlyGPU, states: []string{"y:a?", "y:a"}, status: "1 1 1 1 0 0 1"},
		{name: "nodes fit no more", nodes: three, change: onlyGPU, status: "1 1 1 1 0 0 1",
			states: []string{"x:a? y:a? z:a?", "x:a y:a z:a", "x:a~ y:a~ z:a~", "y:a?", "y:a"}},
		{name: "a new node", nodes: three[:1], do: func(s server) error { return s.Create(newNode("n")) },
			states: []string{"x:a?", "x:a", "n:a? x:a", "n:a x:a"}, status: "2 2 2 2 0 0 2"},
		{name: "a node is gone", nodes: three[:2], do: func(s server) error { return s.Delete(newNode("x")) },
			states: []string{"x:a? y:a?", "x:a y:a", "x:a~ y:a", "y:a"}, status: "1 1 1 1 0 0 1"},
		{name: "another template", nodes: three[:2], change: another, status: "2 2 2 2 0 0 2",
			states: []string{"x:a? y:a?", "x:a y:a", "x:a~ y:a", "x:b? y:a", "x:b y:a~", "x:b y:b?", "x:b y:b"}},
		{name: "all at once", nodes: three[:2], begin: func(d daemons) {
			d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))}
		}, change: another, states: []string{"x:a? y:a?", "x:a y:a", "x:a~ y:a~", "x:b? y:b?", "x:b y:b"}, status: "2 2 2 2 0 0 2"},
		{name: "a broken pod is updated first", nodes: three[:2], change: another, do: first(breakPod), status: "2 2 2 2 0 0 2",
			states: []string{"x:a? y:a?", "x:a y:a", "x:a~ y:a", "x:b? y:a", "x:b y:a~", "x:b y:b?", "x:b y:b"}},
		{name: "a deletion decides", nodes: three[:2], begin: func(d daemons) { d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType },
			change: another, do: first(evict), states: []string{"x:a? y:a?", "x:a y:a", "x:b? y:a", "x:b y:a"}, status: "2 2 2 2 0 0 1"},
		{name: "a pod has failed", do: first(func(s server, p *corev1.Pod) error { end(p, corev1.PodFailed, metav1.Now()); return s.Update(p) }),
			states: []string{"node:a?", "node:a", "", "node:a?", "node:a"}, status: "1 1 1 1 0 0 1"},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := reflectortest.Start(t)
				for _, n := range one.nodes {
					require.NoError(t, s.Create(n.DeepCopy()))
				}
				d := newDaemons()
				if one.begin != nil {
					one.begin(d)
				}
				require.NoError(t, s.Create(d))
				states, _ := settle(t, s, DaemonSets)
				require.NoError(t, s.Get(d))
				if one.change != nil {
					one.change(d)
					require.NoError(t, s.Update(d))
				}
				if one.do != nil {
					require.NoError(t, one.do(s))
				}
				more, again := settle(t, s, DaemonSets)
				assert.Equal(t, one.again, again)
				assert.Equal(t, one.states, append(states, more...))
				require.NoError(t, s.Get(d))
				st := d.Status
				assert.Equal(t, one.status, fmt.Sprint(st.DesiredNumberScheduled, st.CurrentNumberScheduled, st.NumberReady, st.NumberAvailable, st.NumberUnavailable, st.NumberMisscheduled, st.UpdatedNumberScheduled))
				assert.Equal(t, d.Generation, st.ObservedGeneration)
			})
		})
	}
}

// roll keeps a StatefulSet for a ConfigMap, and replaces its pods by itself. The mark of which image they have
// is the bug: after a crash it is not there, and all pods are deleted once more.
func roll(marked bool) act {
	return func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		sets, pods := c.AppsV1().StatefulSets("default"), c.CoreV1().Pods("default")
		held, err := sets.Get(ctx, "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) && p.DeletionTimestamp == nil {
			fresh := web(2)
			fresh.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
			fresh.Spec.Template = template(p.Data["image"])
			fresh.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			_, err = sets.Create(ctx, fresh, metav1.CreateOptions{})
			return err
		}
		if err != nil || !metav1.IsControlledBy(held, p) {
			return err
		}
		if held.Spec.Template.Spec.Containers[0].Image != p.Data["image"] {
			held.Spec.Template = template(p.Data["image"])
			_, err = sets.Update(ctx, held, metav1.UpdateOptions{})
			return err
		}
		if held.Status.ObservedGeneration != held.Generation || held.Status.ReadyReplicas != 2 {
			return nil // not all are ready
		}
		all, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		for _, one := range all.Items {
			old := one.Labels[appsv1.ControllerRevisionHashLabelKey] != held.Status.UpdateRevision
			if marked {
				old = p.Data["rolled"] != p.Data["image"]
			}
			if old {
				if err := pods.Delete(ctx, one.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(one.UID))}); err != nil || !marked {
					return err // one at a time
				}
			}
		}
		if p.Data["rolled"] == p.Data["image"] {
			return nil
		}
		p.Data["rolled"] = p.Data["image"]
		_, err = c.CoreV1().ConfigMaps("default").Update(ctx, p, metav1.UpdateOptions{})
		return err
	}
}

func TestAnOperatorOfAStatefulSet(t *testing.T) {
	s := Scenario{
		Operator: polling(roll(false)),
		Players:  []Player{StatefulSets},
		Quiet:    2 * time.Minute, // longer than the operator's pauses
		Most:     25,
		Steps: []Step{
			Create(parent("image", "a")),
			Change(parent(), func(p *corev1.ConfigMap) { p.Data["image"] = "b" }),
			Delete(parent()),
		},
	}
	Explore(t, s)
	trace, failures := Play(t, s, "")
	assert.Empty(t, failures)
	assert.Contains(t, trace, "p0 delete pods default/web-0#1", "it replaces the pods")

	s.Operator = polling(roll(true))
	_, failures = Play(t, s, "lose delete pods default/web-1#1")
	assert.Equal(t, []string{"pods default/web-0 was deleted 3 times, undisturbed 2 times"}, failures)
}

func TestTheNamespaceOfAStatefulSetTerminates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		require.NoError(t, s.Create(namespace))
		w := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Template: template("a")}}
		require.NoError(t, s.Create(w))
		settle(t, s, StatefulSets)
		require.NoError(t, s.Delete(namespace))
		for range 20 {
			_, err := StatefulSets(s)
			require.NoError(t, err, "its pods are gone, and no others can be made")
			s.CollectGarbage()
		}
		assert.Error(t, s.Get(namespace), "it is gone, with all that was in it")
	})
}

func TestTheAddressOfAPodWithAGeneratedNameIsNotCompared(t *testing.T) {
	one := tree{"kind": "Pod", "metadata": map[string]any{"generateName": "a-"}, "status": map[string]any{"podIP": "10.0.0.1", "podIPs": []any{}, "phase": "Running"}}
	one.normalize()
	assert.Equal(t, map[string]any{"phase": "Running"}, one["status"])
	s := reflectortest.Start(t)
	require.NoError(t, s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "a-"}}))
	assert.Equal(t, "Pod", decode(s.Objects()[0].JSON())["kind"])
}

func TestHowOftenATemplateHasChangedIsNotCompared(t *testing.T) {
	one := tree{"metadata": map[string]any{"annotations": map[string]any{appsv1.DeprecatedTemplateGeneration: "2"}}}
	one.normalize()
	assert.Equal(t, tree{"metadata": map[string]any{}}, one)
}
