package clientgo

import (
	"context"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// patience is how long anything may take before a test fails.
const patience = 3 * time.Minute

// world is a namespace of a server that knows Foos, and the informers that the tests are about: all ours.
type world struct {
	*testing.T
	namespace   string
	kubernetes  kubernetes.Interface
	foos        dynamic.ResourceInterface
	fooInformer *clientgo.SharedIndexInformer[*Foo]
	deployments *clientgo.SharedIndexInformer[*appsv1.Deployment]
	factory     informers.SharedInformerFactory // hands out deployments
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := shared.Server(t)
	w := &world{T: t, namespace: server.Namespace(t)}
	config := server.Config()
	resource, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(resource.CloseIdleConnections)
	w.kubernetes, err = kubernetes.NewForConfigAndClient(config, resource)
	require.NoError(t, err)
	resources, err := dynamic.NewForConfigAndClient(config, resource)
	require.NoError(t, err)
	w.foos = resources.Resource(foos).Namespace(w.namespace)
	w.installFoos(resources)

	typed, err := client.ForResource[*Foo](config, foos, w.namespace)
	require.NoError(t, err)
	w.fooInformer = clientgo.NewTyped(typed)
	w.factory = informers.NewSharedInformerFactory(w.kubernetes, time.Hour)
	w.factory.InformerFor(&appsv1.Deployment{}, func(resource kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		w.deployments = clientgo.NewTyped(resource.AppsV1().Deployments(w.namespace), clientgo.WithResync(resync))
		return w.deployments
	})
	return w
}

// installFoos makes the server serve Foos, if it does not yet.
func (w *world) installFoos(resources dynamic.Interface) {
	w.Helper()
	definitions := resources.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := definitions.Create(w.Context(), fooDefinition(), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(w, err)
	}
	w.eventually("Foos to be served", func(ctx context.Context) bool {
		_, err := w.foos.List(ctx, metav1.ListOptions{})
		return err == nil
	})
}

// eventually waits until something is so.
func (w *world) eventually(what string, so func(context.Context) bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) { return so(ctx), nil })
	require.NoError(w, err, "waiting for %s", what)
}

// start runs something until the end of the test, or until the returned function is called, which waits for its end.
func (w *world) start(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	stop = func() { cancel(); <-done }
	w.Cleanup(stop)
	return stop
}

// createFoo creates a Foo on the server.
func (w *world) createFoo(name, deployment string, replicas int32) *Foo {
	w.Helper()
	foo := &Foo{
		TypeMeta:   metav1.TypeMeta{APIVersion: foos.GroupVersion().String(), Kind: "Foo"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       FooSpec{DeploymentName: deployment, Replicas: &replicas},
	}
	created, err := w.foos.Create(w.Context(), unstructuredFoo(w, foo), metav1.CreateOptions{})
	require.NoError(w, err)
	require.NoError(w, runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, foo))
	return foo
}

// scaleFoo changes how many replicas a Foo asks for.
func (w *world) scaleFoo(foo *Foo, replicas int32) {
	w.Helper()
	current, err := w.foos.Get(w.Context(), foo.Name, metav1.GetOptions{})
	require.NoError(w, err)
	require.NoError(w, unstructured.SetNestedField(current.Object, int64(replicas), "spec", "replicas"))
	_, err = w.foos.Update(w.Context(), current, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func unstructuredFoo(t require.TestingT, foo *Foo) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(foo)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: content}
}
