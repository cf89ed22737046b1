package reconcile

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

// kills is how often the API server is killed.
const kills = 2

// quiet is how long a controller is looked at that has nothing to do any more.
const quiet = 3 * time.Second

// many returns how many Foos there are.
func many() int {
	if os.Getenv("KUBEREFLECTOR_STORM") == "full" {
		return 5_000
	}
	return 400
}

// createMany creates Foos, and insists on it. The server may take one and not live to say so.
func (s *sample) createMany(count int) error {
	var group errgroup.Group
	group.SetLimit(4)
	for n := range count {
		group.Go(func() error {
			return wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
				_, err := s.foos.Create(ctx, newFoo(name(n), n%3), metav1.CreateOptions{})
				return err == nil || apierrors.IsAlreadyExists(err), nil
			})
		})
	}
	return group.Wait()
}

// check requires that each Foo has its Deployment as it was created, and its status as it was first written.
func (s *sample) check(count int) {
	deployments, err := s.deployments.List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	assert.Len(s, deployments.Items, count)
	replicas := map[string]int32{}
	for _, d := range deployments.Items {
		replicas[d.Name] = *d.Spec.Replicas
		assert.Equal(s, int64(1), d.Generation, d.Name)
	}
	foos, err := s.foos.List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	assert.Len(s, foos.Items, count)
	for n := range count {
		assert.Equal(s, int32(n%3), replicas[name(n)], name(n))
	}
}

// reported reports whether each Foo has a status.
func (s *sample) reported() bool {
	foos, err := s.foos.List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return false
	}
	for i := range foos.Items {
		if statusOf(&foos.Items[i]) == "0 conditions" {
			return false
		}
	}
	return true
}

func TestEveryFooConvergesWhileTheServerRestarts(t *testing.T) {
	audit := newAuditLog(t)
	server := apiserver.Start(t, audit.options)
	s := newSample(t, newClients(t, server), server.Namespace(t))
	count := many()
	begin := time.Now()
	took := func(what string) { t.Logf("%8v: %s", time.Since(begin).Round(time.Millisecond), what) }

	deployments := informer.New(s.deployments)
	watching, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- deployments.Run(watching) }()
	defer func() {
		stop()
		assert.NoError(t, <-ended)
	}()
	controller := startSample(t, server.Kubeconfig(t))
	created := make(chan error, 1)
	go func() { created <- s.createMany(count) }()
	took("the controller is there")
	for k := range kills {
		part := count * (2*k + 1) / (2 * kills)
		eventually(t, fmt.Sprintf("%d Deployments", part), func() bool { return deployments.Cache().Len() >= part })
		took(fmt.Sprintf("%d Deployments, and the server is killed", deployments.Cache().Len()))
		require.NoError(t, server.KillAPIServer())
		require.NoError(t, server.StartAPIServer())
		took("it is back")
	}
	require.NoError(t, <-created)
	took(fmt.Sprintf("%d Foos", count))
	eventually(t, "all Deployments", func() bool { return deployments.Cache().Len() == count })
	eventually(t, "the status of all Foos", s.reported)
	took("all have what they want")
	<-time.After(quiet)
	controller.kill()
	s.check(count)

	written, refused := audit.writes(t, "samplecontroller")
	least := map[string]int{}
	missing := 0
	for n := range count {
		for _, write := range []string{"create deployments ", "patch foos/status "} {
			if written[write+name(n)] == 0 {
				missing++ // the server was killed before it noted it: that it was done is known
				continue
			}
			least[write+name(n)] = 1
		}
	}
	assert.Equal(t, least, written, "no write is made twice, or without a change")
	assert.LessOrEqual(t, missing, 5*kills, "the server notes a write soon after it has answered")
	t.Logf("%d writes for %d Foos; %d were refused, %d lost their answers", len(written)+missing, count, refused, missing)
}
