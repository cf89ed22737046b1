package reflectortest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// left returns the names in all namespaces.
func left(s *reflectortest.Server) (all []string) {
	for _, o := range s.Objects() {
		all = append(all, o.GVK.Kind+" "+o.Namespace+"/"+o.Name)
	}
	return all
}

func collect(s *reflectortest.Server) {
	for s.CollectGarbage() {
	}
}

// TestNamespaceGoesWithItsContent deletes a namespace. Its pods go first, so that what they need
// stays until they are gone.
func TestNamespaceGoesWithItsContent(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithResource(books))
	held := keyed("held", "1")
	held.SetFinalizers([]string{"example.com/x"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	for _, obj := range []metav1.Object{
		namespace("ns"), namespace("other"), held, pod, keyed("free", "1"),
		&book{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "ns"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "stays"}},
	} {
		require.NoError(t, s.Create(obj))
	}
	collect(s)
	assert.Len(t, s.Objects(), 8)

	require.NoError(t, s.Delete(namespace("ns")))
	require.Len(t, s.Objects(), 8, "it is only marked")
	assert.True(t, apierrors.HasStatusCause(s.Create(keyed("new", "1")), corev1.NamespaceTerminatingCause))
	collect(s)
	require.Len(t, s.Objects(), 8, "the pod's kubelet has not ended it")

	require.NoError(t, s.Delete(pod)) // with grace period 0, as a kubelet does
	collect(s)
	assert.Equal(t, []string{"ConfigMap ns/held", "ConfigMap other/stays", "Namespace /ns", "Namespace /other"}, left(s))
	held.SetFinalizers(nil)
	held.SetResourceVersion("")
	require.NoError(t, s.Update(held))
	collect(s)
	assert.Equal(t, []string{"ConfigMap other/stays", "Namespace /other"}, left(s))
	require.NoError(t, s.Create(keyed("new", "1")), "a namespace need not exist")
}

func TestNamespaceGoesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t, reflectortest.WithGarbageCollection(time.Second))
		require.NoError(t, s.Create(namespace("ns")))
		require.NoError(t, s.Create(keyed("a", "1")))
		require.NoError(t, s.Delete(namespace("ns")))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		assert.NoError(t, s.WaitFor(ctx, func() bool { return len(s.Objects()) == 0 }))
	})
}

// TestNamespaceWaitsForAHook lets a hook deny the deletion of what is in the namespace.
func TestNamespaceWaitsForAHook(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
		if a.Operation == admissionv1.Delete {
			return errors.New("no")
		}
		return nil
	}))
	require.NoError(t, s.Create(namespace("ns")))
	require.NoError(t, s.Create(keyed("a", "1")))
	require.NoError(t, s.Delete(namespace("ns")))
	collect(s)
	assert.Equal(t, []string{"ConfigMap ns/a", "Namespace /ns"}, left(s))
}

func TestUpdateOfANamespaceByATestKeepsWhatHoldsIt(t *testing.T) {
	server := reflectortest.Start(t)
	require.NoError(t, server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	require.NoError(t, server.Update(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}))
	stored := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	require.NoError(t, server.Get(stored))
	assert.Equal(t, "a", stored.Labels["team"])
	assert.Equal(t, []corev1.FinalizerName{corev1.FinalizerKubernetes}, stored.Spec.Finalizers)
}

func TestNamespacesAreNotAnnouncedForDeletionAsACollection(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(reflectortest.Start(t).Config())
	require.NoError(t, err)
	list, err := client.ServerResourcesForGroupVersion("v1")
	require.NoError(t, err)
	for _, r := range list.APIResources {
		if r.Name == "namespaces" {
			assert.Equal(t, metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}, r.Verbs)
		}
	}
}
