package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// statefulSets are scenarios of one StatefulSet whose pods have the image a at first. A line is a command:
//
//	create 3 SETTINGS  the set with three replicas, and with: parallel, ondelete, partition, claims or retain (claims, with a policy that deletes them)
//	scale 2            changes its replicas
//	image b            changes its template
//	delete 1           deletes a pod, with its grace period
//	fail 1             lets a pod fail
//	break 1, mend 1    takes the condition Ready from a pod, and gives it back
//	orphan 1           takes the owner from a pod
var statefulSets = map[string]string{
	"two pods":                     "create 2",
	"scaled":                       "create 2; scale 4; scale 1; scale 0; scale 2",
	"scaled in parallel":           "create 2 parallel; scale 5; scale 1",
	"another template":             "create 3; image b",
	"an earlier template":          "create 2; image b; image c; image a",
	"a partition":                  "create 3 partition; image b; delete 0; scale 4",
	"a pod is deleted":             "create 3; delete 1; delete 2",
	"a pod has failed":             "create 3; fail 1",
	"an orphan":                    "create 2; orphan 1; image b",
	"a broken pod":                 "create 3; break 1; image b; scale 4; mend 1",
	"a broken pod that is to go":   "create 4; break 2; scale 1",
	"two broken pods":              "create 4; break 1; break 3; scale 1; mend 3",
	"a deletion decides":           "create 3 ondelete; image b; delete 1",
	"all are deleted":              "create 2 ondelete; image b; delete 0; delete 1",
	"claims":                       "create 2 claims; scale 1; scale 2",
	"claims that a policy deletes": "create 2 retain; scale 1",
}

// statefulSetDiffers is the scenario in which the player differs from Kubernetes, what the player shows, and what Kubernetes does.
var statefulSetDiffers = map[string]struct{ here, there string }{
	"all are deleted": {`current 2 of "b"`, `current 0 of "a"`},
}

// TestStatefulSets compares what Kubernetes' own controller of StatefulSets does on a kube-apiserver with what the player of package simulate does on
// reflectortest: the order in which pods come and go, and after each line the pods, claims and numbers.
func TestStatefulSets(t *testing.T) {
	skipUnderRace(t)
	program := buildController(t, "statefulsets")

	server := apiserver.Start(t, apiserver.Options{})
	startController(t, program, server.Config())
	playKubelet(t, server.Config())
	t.Run("scenarios", func(t *testing.T) {
		for name, script := range statefulSets {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := reflectortest.Start(t)
				player := newReplicated(t, own.Config())
				var states [][]string
				player.run(script, func(string) {
					for before := uint64(0); before != own.ResourceVersion(); {
						before = own.ResourceVersion()
						_, err := simulate.StatefulSets(own)
						require.NoError(t, err)
					}
					states = append(states, player.state())
				})
				theirs := newReplicated(t, server.Config())
				differs := statefulSetDiffers[name]
				if last := states[len(states)-1]; differs.here != "" {
					require.Contains(t, last[0], differs.here)
					last[0] = strings.Replace(last[0], differs.here, differs.there, 1)
				}
				n := 0
				theirs.run(script, func(line string) {
					assert.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, states[n], theirs.state(), "%s: %s", script, line) }, time.Minute, 50*time.Millisecond)
					n++
				})
				if strings.Contains(script, "parallel") {
					assert.ElementsMatch(t, theirs.ends(), player.ends())
				} else {
					assert.Equal(t, theirs.ends(), player.ends())
				}
			})
		}
	})
}

// replicated is one scenario on one server.
type replicated struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
	pods      watch.Interface
}

func newReplicated(t *testing.T, config *rest.Config) *replicated {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	r := &replicated{t: t, client: client, namespace: "statefulsets-" + utilrand.String(8)}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	list, err := client.CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	r.pods, err = client.CoreV1().Pods(r.namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	return r
}

// run runs a scenario, and calls rest after each line.
func (r *replicated) run(script string, rest func(line string)) {
	r.t.Helper()
	ctx := r.t.Context()
	sets, pods := r.client.AppsV1().StatefulSets(r.namespace), r.client.CoreV1().Pods(r.namespace)
	for line := range strings.SplitSeq(script, ";") {
		words := strings.Fields(line)
		number, _ := strconv.Atoi(words[1])
		pod := "web-" + words[1]
		var err error
		switch words[0] {
		case "create":
			_, err = sets.Create(ctx, newStatefulSet(int32(number), words[2:]), metav1.CreateOptions{})
		case "scale":
			_, err = sets.Patch(ctx, "web", "application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, number), metav1.PatchOptions{})
		case "image":
			_, err = sets.Patch(ctx, "web", "application/json-patch+json", fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, words[1]), metav1.PatchOptions{})
		case "delete":
			err = pods.Delete(ctx, pod, metav1.DeleteOptions{})
		case "fail":
			_, err = pods.Patch(ctx, pod, "application/merge-patch+json", []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
		case "break", "mend":
			_, err = pods.Patch(ctx, pod, "application/strategic-merge-patch+json", fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`,
				map[string]string{"break": "False", "mend": "True"}[words[0]]), metav1.PatchOptions{}, "status")
		case "orphan":
			_, err = pods.Patch(ctx, pod, "application/merge-patch+json", []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
		}
		require.NoError(r.t, err, "%s: %s", script, line)
		rest(line)
	}
}

func newStatefulSet(replicas int32, settings []string) *appsv1.StatefulSet {
	app := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: app},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app, Annotations: map[string]string{"example.com/note": "n"}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "a"}}, Volumes: []corev1.Volume{{Name: "scratch"}},
		}},
	}}
	for _, setting := range settings {
		switch setting {
		case "parallel":
			set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		case "ondelete":
			set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		case "partition":
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
		case "retain":
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			}
			fallthrough
		case "claims":
			set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"of": "web"}}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}}}
		}
	}
	return set
}

// state shows what the controller writes. A revision is shown as the image that it has.
func (r *replicated) state() []string {
	r.t.Helper()
	ctx := r.t.Context()
	revisions, err := r.client.AppsV1().ControllerRevisions(r.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(r.t, err)
	images := map[string]string{}
	for _, one := range revisions.Items {
		var patch struct{ Spec appsv1.StatefulSetSpec }
		require.NoError(r.t, json.Unmarshal(one.Data.Raw, &patch))
		images[one.Name] = patch.Spec.Template.Spec.Containers[0].Image
	}
	set, err := r.client.AppsV1().StatefulSets(r.namespace).Get(ctx, "web", metav1.GetOptions{})
	require.NoError(r.t, err)
	st, collisions := set.Status, int32(0)
	if st.CollisionCount != nil {
		collisions = *st.CollisionCount
	}
	all := []string{fmt.Sprintf("observed %t, replicas %d, ready %d, available %d, current %d of %q, updated %d of %q, collisions %d", st.ObservedGeneration == set.Generation,
		st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.CurrentReplicas, images[st.CurrentRevision], st.UpdatedReplicas, images[st.UpdateRevision], collisions)}
	pods, err := r.client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(r.t, err)
	for _, p := range pods.Items {
		labels := maps.Clone(p.Labels)
		labels["controller-revision-hash"] = images[labels["controller-revision-hash"]]
		text := fmt.Sprintf("Pod %s of %s, labels %v, annotations %v, image %s, host %s.%s, phase %s, deleting %t, volumes", p.Name, owners(&p), labels, p.Annotations,
			p.Spec.Containers[0].Image, p.Spec.Hostname, p.Spec.Subdomain, p.Status.Phase, p.DeletionTimestamp != nil)
		for _, v := range p.Spec.Volumes {
			text += " " + v.Name
			if v.PersistentVolumeClaim != nil {
				text += "=" + v.PersistentVolumeClaim.ClaimName
			}
		}
		all = append(all, text)
	}
	claims, err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(r.t, err)
	for _, c := range claims.Items {
		all = append(all, fmt.Sprintf("PersistentVolumeClaim %s of %s, labels %v", c.Name, owners(&c), c.Labels))
	}
	return all
}

func owners(o metav1.Object) string {
	var all []string
	for _, ref := range o.GetOwnerReferences() {
		all = append(all, fmt.Sprintf("%s %s %s controller=%t blocked=%t", ref.APIVersion, ref.Kind, ref.Name, *ref.Controller, *ref.BlockOwnerDeletion))
	}
	return strings.Join(all, ", ")
}

// ends shows in which order pods were created, marked for deletion and gone.
func (r *replicated) ends() []string {
	r.t.Helper()
	end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "end"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := r.client.CoreV1().Pods(r.namespace).Create(r.t.Context(), end, metav1.CreateOptions{})
	require.NoError(r.t, err)
	var all []string
	marked := map[string]bool{}
	for event := range r.pods.ResultChan() {
		p, ok := event.Object.(*corev1.Pod)
		require.True(r.t, ok, "%v", event.Object)
		switch {
		case p.Name == end.Name:
			r.pods.Stop()
			return all
		case event.Type == watch.Added:
			all = append(all, "create "+p.Name)
		case event.Type == watch.Deleted:
			all = append(all, "gone "+p.Name)
		case p.DeletionTimestamp != nil && !marked[string(p.UID)]:
			marked[string(p.UID)] = true
			all = append(all, "delete "+p.Name)
		}
	}
	require.Fail(r.t, "the watch has ended")
	return nil
}

// playKubelet lets the pods of a kube-apiserver run and go, as the players do.
func playKubelet(t *testing.T, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for i := range pods.Items {
				if err := playPod(ctx, client, &pods.Items[i]); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Errorf("the kubelet: %v", err)
				}
			}
		}
	}()
}

func playPod(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	pods := client.CoreV1().Pods(p.Namespace)
	switch {
	case p.Name == "end":
	case p.DeletionTimestamp != nil:
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	case p.Spec.NodeName == "":
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}, metav1.CreateOptions{})
	case p.Status.Phase == corev1.PodPending:
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		_, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	}
	return nil
}
