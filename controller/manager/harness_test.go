package manager

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// watchingSecrets returns a manager with a reconciler "painter" of ConfigMaps that watches
// Secrets, whose informer "secrets" is no member of the manager.
func watchingSecrets(t *testing.T, opts ...Option) (m *Manager, secrets informer.Member, calls *journal) {
	server := reflectortest.Start(t)
	require.NoError(t, server.Create(configMap("ns", "a")))
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	made := informer.New(clientset.CoreV1().Secrets(""), informer.WithName("secrets"))
	m = New(server.Config(), opts...)
	configMaps, err := Informer[*corev1.ConfigMap](m, Source{})
	require.NoError(t, err)
	calls = &journal{}
	Reconcile(m, "painter", configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		calls.addf("%s", key)
		return reconcile.Result{}, nil
	}, reconcile.Watch(made, func(*corev1.Secret) []store.Key { return nil }))
	return m, made, calls
}

// nest returns a manager of members.
func nest(members ...informer.Member) *Manager {
	m := New(nil)
	for _, one := range members {
		m.Add(one)
	}
	return m
}
