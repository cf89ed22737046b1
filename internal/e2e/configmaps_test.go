package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestEveryLayerEndsWithTheStateOfTheServer lets a reflector, a controller and an informer run
// while 1,000 ConfigMaps in 10 namespaces are created, updated, deleted and created again. In the
// end each cache holds what the server lists, object by object, and each handler has heard of a
// legal sequence of events for each key that leads there.
func TestEveryLayerEndsWithTheStateOfTheServer(t *testing.T) {
	server := shared.Server(t)
	clientset := newClientset(t, server)
	all := clientset.CoreV1().ConfigMaps(metav1.NamespaceAll)
	const fence = "fence"

	var errs errorList
	cache := store.New(store.ObjectKey[*corev1.ConfigMap])
	fenced := followFence(cache, fence)
	alone := reflector.New(all, cache, reflector.WithPageSize(7), reflector.WithErrorHandler(errs.note))
	stopReflector := background(t, alone.Run)

	controlled := newHistory(fence)
	queues := eventqueue.New(store.ObjectKey[*corev1.ConfigMap], eventqueue.WithCompaction(eventqueue.KeepAll))
	control := controller.New(reflector.New(all, queues, reflector.WithErrorHandler(errs.note)).Run, queues,
		controller.Each(func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error { controlled.note(e); return nil }),
		controller.WithWorkers(4))
	stopController := background(t, control.Run)

	quick, slow, late := newHistory(fence), newHistory(fence), newHistory(fence)
	informed := informer.New(all, informer.WithErrorHandler(errs.note))
	informed.Handle(handler(quick, 0))
	informed.Handle(handler(slow, time.Millisecond))
	stopInformer := background(t, informed.Run)

	await(t, "the reflector", alone.Synced())
	await(t, "the controller", control.Synced())
	await(t, "the informer", informed.Synced())

	storm(t, server.Namespace, clientset, func() { informed.Handle(handler(late, 0)) })
	create(t, clientset, server.Namespace(t), fence)
	await(t, "the reflector to see the last object", fenced)
	for name, h := range map[string]*history{"controller": controlled, "quick": quick, "slow": slow, "late": late} {
		await(t, "the fence at "+name, h.sawFence)
	}
	require.NoError(t, stopReflector())
	require.NoError(t, stopController())
	require.NoError(t, stopInformer())
	assert.Empty(t, errs.all(), "nothing went wrong on the way")

	want := listed(t, clientset)
	require.Greater(t, len(want), 500)
	for name, reader := range map[string]store.Reader[*corev1.ConfigMap]{
		"reflector": cache, "controller": queues.Cache(), "informer": informed.Cache(),
	} {
		assertEqualObjects(t, name, want, maps.Collect(reader.All()))
	}
	for name, h := range map[string]*history{"controller": controlled, "quick": quick, "slow": slow, "late": late} {
		assert.Empty(t, h.illegal, name)
		assertEqualObjects(t, name, want, h.state)
		t.Logf("%s heard of %v", name, h.counts)
	}
	assert.Greater(t, controlled.counts[eventqueue.Modification], 1000, "the controller hears of every single change")
	assert.Greater(t, controlled.counts[eventqueue.Deletion], 100)
}

// handler returns a handler that notes what it hears, at its own pace.
func handler(h *history, pace time.Duration) informer.Handler[*corev1.ConfigMap] {
	return informer.HandlerFunc[*corev1.ConfigMap](func(ctx context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
		if pace > 0 {
			<-time.After(pace)
		}
		h.note(e)
		return nil
	})
}

// storm creates, updates and deletes 1,000 ConfigMaps in 10 namespaces; halfway calls a function
// halfway through.
func storm(t *testing.T, namespace func(testing.TB) string, clientset kubernetes.Interface, halfway func()) {
	t.Helper()
	var namespaces []string
	for range 10 {
		namespaces = append(namespaces, namespace(t))
	}
	for half := range 2 {
		var changes errgroup.Group
		changes.SetLimit(8)
		for i := range 500 {
			client := clientset.CoreV1().ConfigMaps(namespaces[i%10])
			name := fmt.Sprintf("%d-%d", half, i)
			dice := rand.New(rand.NewPCG(uint64(half), uint64(i)))
			changes.Go(func() error {
				object, err := client.Create(t.Context(), named(name), metav1.CreateOptions{})
				for round := 0; err == nil && round < 1+dice.IntN(3); round++ {
					object.Data = map[string]string{"round": fmt.Sprint(round)}
					object, err = client.Update(t.Context(), object, metav1.UpdateOptions{})
				}
				if fate := dice.IntN(10); err == nil && fate < 3 {
					err = client.Delete(t.Context(), name, metav1.DeleteOptions{})
					if err == nil && fate == 0 {
						_, err = client.Create(t.Context(), named(name), metav1.CreateOptions{})
					}
				}
				return err
			})
		}
		require.NoError(t, changes.Wait())
		if half == 0 {
			halfway()
		}
	}
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name}}
}

func create(t *testing.T, clientset kubernetes.Interface, namespace, name string) {
	t.Helper()
	_, err := clientset.CoreV1().ConfigMaps(namespace).Create(t.Context(), named(name), metav1.CreateOptions{})
	require.NoError(t, err)
}

// listed returns what the server holds now.
func listed(t *testing.T, clientset kubernetes.Interface) map[store.Key]*corev1.ConfigMap {
	t.Helper()
	list, err := clientset.CoreV1().ConfigMaps(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	all := map[store.Key]*corev1.ConfigMap{}
	for i := range list.Items {
		object := &list.Items[i]
		all[store.Key{Namespace: object.Namespace, Name: object.Name}] = object
	}
	return all
}

// assertEqualObjects compares object by object, so that a failure names them.
func assertEqualObjects(t *testing.T, name string, want, got map[store.Key]*corev1.ConfigMap) {
	t.Helper()
	assert.Len(t, got, len(want), name)
	for key, object := range want {
		if !assert.Equal(t, object, got[key], "%s: %s", name, key) {
			return // one is enough to read
		}
	}
}

// followFence returns a channel that is closed when a cache holds an object of the given name.
func followFence(cache *store.Cache[*corev1.ConfigMap], name string) <-chan struct{} {
	f := fenceFollower{name, make(chan struct{})}
	cache.Follow(f)
	return f.seen
}

type fenceFollower struct {
	name string
	seen chan struct{}
}

func (f fenceFollower) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (f fenceFollower) Commit(commit *store.Commit[*corev1.ConfigMap]) {
	for _, change := range commit.Changes {
		if change.Key.Name == f.name && change.Type == store.Addition {
			close(f.seen)
		}
	}
}

// TestFirstControllerOnARealCluster follows docs/start/first-controller.md: it starts the operator
// before its resource exists, and applies the manifests.
func TestFirstControllerOnARealCluster(t *testing.T) {
	server := shared.Server(t)
	config := server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	resources, err := dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	folder := filepath.Join("..", "..", "docs", "start", "app")
	program := filepath.Join(t.TempDir(), "app")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	operator := exec.Command(program)
	operator.Env = append(os.Environ(), "KUBECONFIG="+server.Kubeconfig(t))
	var problems bytes.Buffer
	operator.Stderr = &problems
	require.NoError(t, operator.Start())
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = operator.Process.Kill() // the test has failed already
			_ = operator.Wait()
			t.Log(problems.String())
		}
	})

	apps := resources.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "apps"}).Namespace("default")
	deployments := resources.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	definitions := resources.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err = definitions.Create(t.Context(), manifest(t, folder, "crd.yaml"), metav1.CreateOptions{})
	require.NoError(t, err)
	var app, deployment *unstructured.Unstructured
	until(t, func() bool {
		app, err = apps.Create(t.Context(), manifest(t, folder, "shop.yaml"), metav1.CreateOptions{})
		return err == nil
	})
	until(t, func() bool {
		deployment, err = deployments.Get(t.Context(), "shop", metav1.GetOptions{})
		return err == nil
	})
	assert.True(t, metav1.IsControlledBy(deployment, app))

	// The test replaces the controller of Deployments.
	status := []byte(`{"status":{"replicas":2,"readyReplicas":2}}`)
	_, err = deployments.Patch(t.Context(), "shop", "application/merge-patch+json", status, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	until(t, func() bool {
		app, err = apps.Get(t.Context(), "shop", metav1.GetOptions{})
		require.NoError(t, err)
		ready, _, _ := unstructured.NestedInt64(app.Object, "status", "readyReplicas")
		return ready == 2
	})
	require.NoError(t, operator.Process.Signal(os.Interrupt))
	assert.NoError(t, operator.Wait(), problems.String())
	ended = true
}

// manifest returns the object of a file.
func manifest(t *testing.T, folder, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "manifests", name))
	require.NoError(t, err)
	var object unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal(text, &object.Object))
	return &object
}

// until waits until a condition holds, or the test ends.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended before the condition held")
		}
	}
}
