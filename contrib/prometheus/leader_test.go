package prometheus_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leads is a member that works until its context ends.
type leads struct{ begun chan struct{} }

func (l leads) Run(ctx context.Context) error {
	close(l.begun)
	<-ctx.Done()
	return nil
}

func TestLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		lock := &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "sites"}, Client: clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
		}
		member := leads{make(chan struct{})}
		elector := leader.New(lock, member)
		gauge := prometheus.NewLeader("sites", elector)
		problems, err := testutil.CollectAndLint(gauge)
		require.NoError(t, err)
		assert.Empty(t, problems)
		assert.Zero(t, testutil.ToFloat64(gauge))

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elector.Run(ctx) }()
		<-member.begun
		assert.EqualValues(t, 1, testutil.ToFloat64(gauge))
		cancel()
		require.NoError(t, <-ended)
		assert.Zero(t, testutil.ToFloat64(gauge))
	})
}
