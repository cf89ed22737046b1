package prometheus_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/shard"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
)

func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		hold := func(ctx context.Context, _ shard.Shard) error { <-ctx.Done(); return nil }
		member, err := shard.New(clientset.CoordinationV1(), shard.Group{Namespace: "default", Name: "sites", Shards: 3}, "one", hold)
		require.NoError(t, err)
		metrics := prometheus.NewShards(member)
		problems, err := testutil.CollectAndLint(metrics)
		require.NoError(t, err)
		assert.Empty(t, problems)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- member.Run(ctx) }()
		require.NoError(t, member.WaitForSync(ctx))
		synctest.Wait()
		require.Len(t, member.Owned(), 3)
		assert.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP kubereflector_shards Shards that there are, as far as the member knows.
# TYPE kubereflector_shards gauge
kubereflector_shards{group="sites"} 3
# HELP kubereflector_shards_held Shards whose work goes on in this process.
# TYPE kubereflector_shards_held gauge
kubereflector_shards_held{group="sites"} 3
# HELP kubereflector_shards_free Shards that no member holds.
# TYPE kubereflector_shards_free gauge
kubereflector_shards_free{group="sites"} 0
# HELP kubereflector_shard_members Members that there are, this one included.
# TYPE kubereflector_shard_members gauge
kubereflector_shard_members{group="sites"} 1
`), "kubereflector_shards", "kubereflector_shards_held", "kubereflector_shards_free", "kubereflector_shard_members"))
		cancel()
		require.NoError(t, <-ended)
	})
}
