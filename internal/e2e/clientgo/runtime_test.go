package clientgo

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/store"
)

var _ crcache.Informer = (*clientgo.SharedIndexInformer[*Foo])(nil)

// observer is a reconciler that notes what it finds for each request: the replicas that a Foo wants, or -1 for none.
type observer struct {
	foos *clientgo.SharedIndexInformer[*Foo]

	mu   sync.Mutex
	seen map[string][]int32
}

func (o *observer) Reconcile(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
	wanted := int32(-1)
	if foo, ok := o.foos.Informer().Cache().Get(store.Key{Namespace: request.Namespace, Name: request.Name}); ok {
		wanted = *foo.Spec.Replicas
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[request.Name] = append(o.seen[request.Name], wanted)
	return reconcile.Result{}, nil
}

// last returns what was found last for a name, and how often it was asked for.
func (o *observer) last(name string) (wanted int32, times int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.seen[name]
	if len(seen) == 0 {
		return 0, 0
	}
	return seen[len(seen)-1], len(seen)
}

// TestControllerRuntimeTakesOurInformers has one of its controllers reconcile Foos, and the Foos of deployments.
func TestControllerRuntimeTakesOurInformers(t *testing.T) {
	w := newWorld(t)
	early := w.createFoo("early", "early-pods", 1)
	seen := &observer{foos: w.fooInformer, seen: map[string][]int32{}}
	skip := true
	c, err := crcontroller.NewUnmanaged("foos", crcontroller.Options{Reconciler: seen, SkipNameValidation: &skip})
	require.NoError(t, err)
	require.NoError(t, c.Watch(&source.Informer{
		Informer:   w.fooInformer,
		Handler:    &handler.EnqueueRequestForObject{},
		Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
	}))
	require.NoError(t, c.Watch(&source.Informer{
		Informer: w.deployments,
		Handler: handler.EnqueueRequestsFromMapFunc(func(_ context.Context, deployment client.Object) []reconcile.Request {
			owner := metav1.GetControllerOf(deployment)
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: deployment.GetNamespace(), Name: owner.Name}}}
		}),
	}))
	stopFoos := w.start(w.fooInformer.RunWithContext)
	stopDeployments := w.start(w.deployments.RunWithContext)
	stop := w.start(func(ctx context.Context) { assert.NoError(t, c.Start(ctx)) })

	found := func(name string, replicas int32, atLeast int) {
		w.eventually("reconciliation of "+name, func(context.Context) bool {
			wanted, times := seen.last(name)
			return wanted == replicas && times >= atLeast
		})
	}
	found("early", 1, 1)
	w.createFoo("late", "late-pods", 2)
	found("late", 2, 1)
	w.scaleFoo(early, 3)
	found("early", 3, 2)

	deployments := w.kubernetes.AppsV1().Deployments(w.namespace)
	_, times := seen.last("early")
	var created *appsv1.Deployment
	created, err = deployments.Create(t.Context(), deploymentOf(early), metav1.CreateOptions{})
	require.NoError(t, err)
	found("early", 3, times+1)
	require.NoError(t, deployments.Delete(t.Context(), created.Name, metav1.DeleteOptions{}))
	found("early", 3, times+2)
	require.NoError(t, w.foos.Delete(t.Context(), "late", metav1.DeleteOptions{}))
	found("late", -1, 2)

	// A change of the status alone does not pass the predicate, which compares the old object with the new one.
	_, times = seen.last("early")
	require.NoError(t, (&controller{foos: w.foos}).report(t.Context(), "early", 1))
	w.eventually("the status in the cache", func(context.Context) bool {
		foo, ok := w.fooInformer.Informer().Cache().Get(store.Key{Namespace: w.namespace, Name: "early"})
		return ok && foo.Status.AvailableReplicas == 1
	})
	w.scaleFoo(early, 4)
	found("early", 4, times+1)
	_, after := seen.last("early")
	assert.Equal(t, times+1, after)

	stop()
	stopFoos()
	stopDeployments()
}
