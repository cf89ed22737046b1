package clientgo

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

// The test runs itself with the variable of client-go's mutation detector, which ends the process.
func TestMutationDetectorOfClientGo(t *testing.T) {
	mutate := func(object any) { object.(*configMap).Labels = map[string]string{"changed": "yes"} }
	for name, test := range map[string]struct {
		by  func(t *testing.T, s *shared, end func())
		say string // empty if the process goes on
	}{
		"by a test that filled the cache": {func(t *testing.T, _ *shared, _ func()) {
			s := NewTyped(configMaps(t, reflectortest.Start(t)))
			mine := named("mine")
			require.NoError(t, s.GetIndexer().Add(mine))
			mutate(mine)
			mine.ResourceVersion = "2"
			require.NoError(t, s.GetIndexer().Update(mine))
			require.NoError(t, s.GetIndexer().Replace([]any{mine}, ""))
			mine.Labels = nil
			require.NoError(t, s.GetIndexer().Delete(mine))
		}, ""},
		"by a handler": {func(t *testing.T, s *shared, _ func()) {
			_, err := s.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: mutate})
			require.NoError(t, err)
			<-t.Context().Done()
		}, `changed: metadata.labels was absent, is {"changed":"yes"}; subscriber #1 had it in hand`},
		"by a reader": {func(t *testing.T, s *shared, end func()) {
			require.True(t, cache.WaitFor(t.Context(), "", s.HasSyncedChecker()))
			mutate(s.GetStore().List()[0])
			end()
		}, `changed: metadata.labels was absent, is {"changed":"yes"}; no subscriber had it in hand`},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("TEST_CHILD") != "" {
				server := reflectortest.Start(t)
				create(t, server, named("a"))
				s := NewTyped(configMaps(t, server))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.RunWithContext(ctx) }()
				test.by(t, s, func() { cancel(); <-ended })
				return
			}
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
			command.Env = append(os.Environ(), "KUBE_CACHE_MUTATION_DETECTOR=1", "TEST_CHILD=1")
			output, err := command.CombinedOutput()
			if test.say == "" {
				require.NoError(t, err, "%s", output)
				return
			}
			require.Error(t, err)
			assert.Contains(t, string(output), "panic: ")
			assert.Contains(t, string(output), test.say)
		})
	}
}
