package reconcile

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
)

// kills is how often the API server is killed.
const kills = 2

// quiet is how long a controller is looked at that has nothing to do any more.
const quiet = 3 * time.Second

// many returns how many Foos there are.
func many() int {
	if os.Getenv("KUBEREFLECTOR_STORM") == "full" {
		return 5_000
	}
	return 400
}

// createMany creates Foos, and insists on it. The server may take one and not live to say so.
func (s *sample) createMany(count int) error {
	var group errgroup.Group
	group.SetLimit(4)
	for n := range count {
		group.Go(func() error {
			return wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
				_, err := s.foos.Create(ctx, newFoo(name(n), n%3), metav1.CreateOptions{})
				return err == nil || apierrors.IsAlreadyExists(err), nil
			})
		})
	}
	return group.Wait()
}

// check requires that each Foo has its Deployment as it was created, and its status as it was first written.
func (s *sample) check(count int) {
	deployments, err := s.deployments.List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	assert.Len(s, deployments.Items, count)
	replicas := map[string]int32{}
	for _, d := range deployments.Items {
		replicas[d.Name] = *d.Spec.Replicas
		assert.Equal(s, int64(1), d.Generation, d.Name)
	}
	foos, err := s.foos.List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	assert.Len(s, foos.Items, count)
	for n := range count {
		assert.Equal(s, int32(n%3), replicas[name(n)], name(n))
	}
}

// reported reports whether each Foo has a status.
func (s *sample) reported() bool {
	foos, err := s.foos.List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return false
	}
	for i := range foos.Items {
		if statusOf(&foos.Items[i]) == "0 conditions" {
			return false
		}
	}
	return true
}

func TestEveryFooConvergesWhileTheServerRestarts(t *testing.T) {
	audit := newAuditLog(t)
	server := apiserver.Start(t, audit.options)
	s := newSample(t, newClients(t, server), server.Namespace(t))
	count := many()
	begin := time.Now()
	took := func(what string) { t.Logf("%8v: %s", time.Since(begin).Round(time.Millisecond), what) }

	deployments := informer.New(s.deployments)
	watching, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- deployments.Run(watching) }()
	defer func() {
		stop()
		assert.NoError(t, <-ended)
	}()
	controller := startSample(t, server.Kubeconfig(t))
	created := make(chan error, 1)
	go func() { created <- s.createMany(count) }()
	took("the controller is there")
	for k := range kills {
		part := count * (2*k + 1) / (2 * kills)
		eventually(t, fmt.Sprintf("%d Deployments", part), func() bool { return deployments.Cache().Len() >= part })
		took(fmt.Sprintf("%d Deployments, and the server is killed", deployments.Cache().Len()))
		require.NoError(t, server.KillAPIServer())
		require.NoError(t, server.StartAPIServer())
		took("it is back")
	}
	require.NoError(t, <-created)
	took(fmt.Sprintf("%d Foos", count))
	eventually(t, "all Deployments", func() bool { return deployments.Cache().Len() == count })
	eventually(t, "the status of all Foos", s.reported)
	took("all have what they want")
	<-time.After(quiet)
	controller.kill()
	s.check(count)

	written, refused := audit.writes(t, "samplecontroller")
	least := map[string]int{}
	missing := 0
	for n := range count {
		for _, write := range []string{"create deployments ", "patch foos/status "} {
			if written[write+name(n)] == 0 {
				missing++ // the server was killed before it noted it: that it was done is known
				continue
			}
			least[write+name(n)] = 1
		}
	}
	assert.Equal(t, least, written, "no write is made twice, or without a change")
	assert.LessOrEqual(t, missing, 5*kills, "the server notes a write soon after it has answered")
	t.Logf("%d writes for %d Foos; %d were refused, %d lost their answers", len(written)+missing, count, refused, missing)
}

// sample is what users of the sample controller do in a namespace, and what they see there.
type sample struct {
	*testing.T
	clients
	namespace   string
	foos        dynamic.ResourceInterface
	deployments typedappsv1.DeploymentInterface
}

func newSample(t *testing.T, c clients, namespace string) *sample {
	c.installFoos(t)
	return &sample{
		T: t, clients: c, namespace: namespace,
		foos: c.dynamic.Resource(foos).Namespace(namespace), deployments: c.AppsV1().Deployments(namespace),
	}
}

// newFoo returns a Foo that wants a Deployment of its own name.
func newFoo(name string, replicas int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": foos.GroupVersion().String(), "kind": "Foo", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"deploymentName": name, "replicas": int64(replicas)},
	}}
}

func (s *sample) create(name string, replicas int) {
	s.Helper()
	_, err := s.foos.Create(s.Context(), newFoo(name, replicas), metav1.CreateOptions{})
	require.NoError(s, err)
}

func (s *sample) patch(name, patch string) {
	s.Helper()
	_, err := s.foos.Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s, err)
}

// status returns what the status of a Foo says, in short.
func (s *sample) status(name string) string {
	foo, err := s.foos.Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return statusOf(foo)
}

func statusOf(foo *unstructured.Unstructured) string {
	available, _, _ := unstructured.NestedInt64(foo.Object, "status", "availableReplicas")
	conditions, _, _ := unstructured.NestedSlice(foo.Object, "status", "conditions")
	if len(conditions) != 1 {
		return fmt.Sprintf("%d conditions", len(conditions))
	}
	ready := conditions[0].(map[string]any)
	return fmt.Sprintf("%d available, generation %v, %v", available, ready["observedGeneration"], ready["reason"])
}

// deployment returns a Deployment, or nil.
func (s *sample) deployment(name string) *appsv1.Deployment {
	s.Helper()
	d, err := s.deployments.Get(s.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s, err)
	return d
}

// is waits until the status of a Foo is as it should be.
func (s *sample) is(name, status string) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("Foo %s: %s", name, status), func() bool { return s.status(name) == status })
}

// has waits until there is a Deployment as it should be.
func (s *sample) has(name string, replicas int32) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("Deployment %s with %d replicas", name, replicas), func() bool {
		d := s.deployment(name)
		return d != nil && *d.Spec.Replicas == replicas && d.Spec.Template.Spec.Containers[0].Image == "nginx:1.29"
	})
}

// hasNot waits until there is no Deployment.
func (s *sample) hasNot(name string) {
	s.Helper()
	eventually(s.T, "Deployment "+name+" to be gone", func() bool { return s.deployment(name) == nil })
}

// reasons returns how often which Event was recorded.
func (s *sample) reasons(ctx context.Context) map[string]int32 {
	list, err := s.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(s, err)
	reasons := map[string]int32{}
	for _, e := range list.Items {
		reasons[e.InvolvedObject.Name+" "+e.Reason] += e.Count
	}
	return reasons
}

func TestSampleControllerOnARealCluster(t *testing.T) {
	server := shared.Server(t)
	s := newSample(t, newClients(t, server), server.Namespace(t))
	controller := startSample(t, server.Kubeconfig(t))

	s.create("web", 2)
	s.has("web", 2)
	s.is("web", "0 available, generation 1, Progressing")

	web := s.deployment("web")
	web.Status.Replicas, web.Status.AvailableReplicas, web.Status.ReadyReplicas, web.Status.UpdatedReplicas = 2, 2, 2, 2
	web.Status.ObservedGeneration = web.Generation
	_, err := s.deployments.UpdateStatus(t.Context(), web, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.is("web", "2 available, generation 1, Available")

	s.patch("web", `{"spec":{"replicas":3}}`)
	s.has("web", 3)
	s.is("web", "2 available, generation 2, Progressing")

	_, err = s.deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.has("web", 3)

	before := s.deployment("web").UID
	require.NoError(t, s.deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.has("web", 3)
	assert.NotEqual(t, before, s.deployment("web").UID)

	s.patch("web", `{"spec":{"deploymentName":"site"}}`)
	s.has("site", 3)
	s.hasNot("web")

	require.NoError(t, s.foos.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.hasNot("site")
	eventually(t, "the Events", func() bool {
		return assert.ObjectsAreEqual(map[string]int32{"web Created": 3, "web Repaired": 2}, s.reasons(t.Context()))
	})
	controller.interrupt()
}
