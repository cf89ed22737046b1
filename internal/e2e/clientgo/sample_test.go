package clientgo

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubereflector/kubereflector/store"
)

// TestControllerForClientGoRunsOnOurInformers starts with one Foo, changes what it wants, what it has, and takes its deployment away.
func TestControllerForClientGoRunsOnOurInformers(t *testing.T) {
	w := newWorld(t)
	foo := w.createFoo("early", "early-pods", 1)
	c, err := newController(w.kubernetes, w.foos, w.factory.Apps().V1().Deployments(), fooInformer{w.fooInformer})
	require.NoError(t, err)
	stopFoos := w.start(w.fooInformer.RunWithContext)
	stopFactory := w.start(func(ctx context.Context) {
		w.factory.StartWithContext(ctx)
		<-ctx.Done()
		w.factory.Shutdown()
	})
	stop := w.start(func(ctx context.Context) { c.run(ctx, 2) })

	deployments := w.kubernetes.AppsV1().Deployments(w.namespace)
	wanted := func(name string, replicas int32) {
		w.eventually("deployment "+name, func(ctx context.Context) bool {
			deployment, err := deployments.Get(ctx, name, metav1.GetOptions{})
			return err == nil && *deployment.Spec.Replicas == replicas
		})
	}
	wanted("early-pods", 1)
	w.createFoo("late", "late-pods", 2)
	wanted("late-pods", 2)
	w.scaleFoo(foo, 3)
	wanted("early-pods", 3)

	// Nobody else makes pods here.
	deployment, err := deployments.Get(t.Context(), "early-pods", metav1.GetOptions{})
	require.NoError(t, err)
	deployment.Status.Replicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 3, 3, 3
	_, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
	require.NoError(t, err)
	// Code that has moved over reads the same cache, with types.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key := store.Key{Namespace: w.namespace, Name: "early"}
	for state := range w.fooInformer.Informer().Cache().WatchKey(ctx, key) {
		if current, ok := state.Get(key); ok && current.Status.AvailableReplicas == 3 {
			break
		}
	}
	require.NoError(t, ctx.Err(), "the status of the Foo is not brought up to date")

	require.NoError(t, deployments.Delete(t.Context(), "late-pods", metav1.DeleteOptions{}))
	wanted("late-pods", 2) // it comes back
	require.NoError(t, w.foos.Delete(t.Context(), "late", metav1.DeleteOptions{}))
	w.eventually("the Foo to be gone from the cache", func(context.Context) bool {
		_, err := c.fooLister.Foos(w.namespace).Get("late")
		return apierrors.IsNotFound(err)
	})
	list, err := c.fooLister.Foos(w.namespace).List(everything)
	require.NoError(t, err)
	assert.Len(t, list, 1)

	stop()
	stopFoos()
	stopFactory()
	assert.True(t, w.fooInformer.IsStopped())
	assert.True(t, w.deployments.IsStopped())
}
