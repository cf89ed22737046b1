package apiserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/binaries"
)

// connect returns a client whose connections end with the test.
func connect(t *testing.T, s *Server) kubernetes.Interface {
	t.Helper()
	http, err := rest.HTTPClientFor(s.Config())
	require.NoError(t, err)
	t.Cleanup(http.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(s.Config(), http)
	require.NoError(t, err)
	return client
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "value"}}
}

func TestAServerKeepsWhatItIsGiven(t *testing.T) {
	server := shared.Server(t)
	configMaps := connect(t, server).CoreV1().ConfigMaps(server.Namespace(t))

	made, err := configMaps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	got, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, made.UID, got.UID)
	require.Equal(t, map[string]string{"key": "value"}, got.Data)

	all, err := configMaps.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, all.Items, 1, "nobody else puts anything into a test's namespace")
}

func TestAServerIsTheVersionThatTheModuleOfTheControlPlaneRequires(t *testing.T) {
	found, err := binaries.Find(t.Context())
	require.NoError(t, err)
	if found.Version == "" {
		t.Skip("KUBEBUILDER_ASSETS is set: it may be any version")
	}
	version, err := connect(t, shared.Server(t)).Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, found.Version, version.GitVersion)
	require.True(t, strings.HasPrefix(found.Version, "v"+version.Major+"."+version.Minor+"."), "%+v", version)
}

func TestEachTestHasItsOwnNamespace(t *testing.T) {
	server := shared.Server(t)
	require.NotEqual(t, server.Namespace(t), server.Namespace(t))
}

func TestAConfigIsTheCallersOwnAndIsNotThrottled(t *testing.T) {
	server := shared.Server(t)
	require.Negative(t, server.Config().QPS)
	server.Config().Host = "changed"
	require.NotEqual(t, "changed", server.Config().Host)
}

func TestFlagsReachTheServer(t *testing.T) {
	folder := t.TempDir()
	policy, log := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	require.NoError(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))

	server := Start(t, Options{APIServerFlags: map[string][]string{
		"audit-policy-file": {policy},
		"audit-log-path":    {log},
	}})
	namespace := server.Namespace(t)
	_, err := connect(t, server).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, server.Stop(), "the log is complete when the server has ended")
	require.NoError(t, server.Stop(), "a second Stop does nothing")
	require.NoDirExists(t, server.folder)

	audit, err := os.ReadFile(log)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(audit), namespace), "the audit log has %d bytes, but not the request", len(audit)) // Contains would print them
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := New(t.Context(), Options{APIServerFlags: map[string][]string{"no-such-flag": {"1"}}})
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
	require.ErrorContains(t, err, "The end of the log of etcd")
}

func TestStartingEndsWithItsContextAndItsCause(t *testing.T) {
	errNoTime := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNoTime)
	_, err := New(ctx, Options{})
	require.ErrorIs(t, err, errNoTime)
	require.ErrorContains(t, err, "attempts: 1")
}
