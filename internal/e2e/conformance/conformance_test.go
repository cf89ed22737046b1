package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector/reflectortest/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTablesWithShards holds the same against a server that knows shard selectors.
func TestTablesWithShards(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{APIServerFlags: map[string][]string{
		"feature-gates":  {"ShardedListAndWatch=true"},
		"runtime-config": {"api/all=true"},
	}})
	client, err := rest.HTTPClientFor(server.Config())
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	conformance.Run(t, func(*testing.T) *rest.Config { return server.Config() }, conformance.Options{Sharding: true})
}

// TestTables holds against the real server what reflectortest promises to do as it does.
func TestTables(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{APIServerFlags: map[string][]string{
		"runtime-config": {"api/all=true"}, // the tables of discovery name resources that are off by default
	}})
	config := func(*testing.T) *rest.Config { return server.Config() }
	// client-go keeps one transport for equal configurations: closing its connections closes those of all clients of the tables.
	client, err := rest.HTTPClientFor(config(t))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)

	conformance.InstallWidgets(t, config(t))
	conformance.Run(t, config, conformance.Options{
		Widgets:     true,
		Definitions: true,
		// All, and not only what is before the version; and not only in etcd, as kube-apiserver would serve a watch from its own memory.
		Compact: func(t *testing.T, _ string) { require.NoError(t, server.Forget(t.Context())) },
	})
}
