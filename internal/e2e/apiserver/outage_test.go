package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Both outages in one test: a server of its own takes a few seconds to start.
func TestWhatAServerKeepsSurvivesTheEndOfItsPrograms(t *testing.T) {
	server := Start(t, Options{})
	before := server.Config()
	configMaps := connect(t, server).CoreV1().ConfigMaps(server.Namespace(t))
	made, err := configMaps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	requireKept := func() {
		t.Helper()
		got, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, made.UID, got.UID)
		require.Equal(t, made.ResourceVersion, got.ResourceVersion)
	}

	require.NoError(t, server.KillAPIServer())
	_, err = configMaps.Get(t.Context(), "a", metav1.GetOptions{})
	require.Error(t, err)
	require.Error(t, server.KillAPIServer(), "there is none to kill")
	require.NoError(t, server.StartAPIServer())
	requireKept()

	require.NoError(t, server.KillEtcd())
	require.NoError(t, server.StartEtcd())
	requireKept()
	require.Equal(t, before, server.Config())
}

func TestAServerWhoseProgramsAreDeadCanBeStopped(t *testing.T) {
	server := Start(t, Options{})
	require.NoError(t, server.KillAPIServer())
	require.NoError(t, server.KillEtcd())
	require.NoError(t, server.Stop())
	require.NoDirExists(t, server.folder)
}
