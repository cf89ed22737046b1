package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/rest"
)

func TestOutput(t *testing.T) {
	assert.Equal(t, `Order book: Job "book", paid: false
Order book: Job "book", paid: true
`, clustertest.Output(t, cluster.With(control, demo), custom))
}

// scenario is what happens to the operator with one way to create Jobs.
func scenario(charge charging) simulate.Scenario {
	return simulate.Scenario{
		Server: []reflectortest.Option{custom},
		Operator: func(ctx context.Context, config *rest.Config) error {
			return run(ctx, config, charge, manager.WithLogger(slog.New(slog.DiscardHandler)))
		},
		Steps:   []simulate.Step{simulate.Create(newOrder("book")), simulate.Delete(newOrder("book"))},
		Players: []simulate.Player{simulate.Jobs(time.Minute, nil)},
	}
}

func TestEachOrderIsChargedOnce(t *testing.T) {
	simulate.Explore(t, scenario(named))
}

func TestOrderInDeletionIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, order := reflectortest.Start(t, custom), newOrder("book")
		order.Finalizers = []string{"example.com/kept"}
		require.NoError(t, server.Create(order))
		require.NoError(t, server.Delete(order))
		go run(t.Context(), server.Config(), named)
		<-time.After(time.Hour)
		jobs, err := reflectortest.List[*batchv1.Job](server, "")
		require.NoError(t, err)
		assert.Empty(t, jobs)
	})
}

// The simulation finds the bug that named does not have.
func TestGeneratedNamesChargeTwice(t *testing.T) {
	found := simulate.Find(t, scenario(generated))
	require.Len(t, found, 1)
	assert.Equal(t, "lose create jobs default/book-*#1", found[0].Line)
	assert.Contains(t, found[0].Failures[0], "there are 2 of Job default/book-*, undisturbed 1")
	assert.Contains(t, found[0].Others, "crash after create jobs default/book-*#1")
	assert.False(t, found[0].Unstable)

	// docs/start/simulation.md explains the lines: p0 is the first process, and ** marks what was disturbed.
	trace, _ := simulate.Play(t, scenario(generated), found[0].Line)
	assert.Contains(t, strings.Join(trace, "\n"), `
p0 event ADDED orders default/book
p0 create jobs default/book-*#1
  ** lose create jobs default/book-*#1
p0 event ADDED jobs default/book-*1
p0 create jobs default/book-*#2
p0 event ADDED jobs default/book-*2
p0 patch orders/status default/book#1
`)
}
