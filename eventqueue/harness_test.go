package eventqueue

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/require"
)

// The regression tests reach the package through the functions of this file.

// opened returns a collection after an empty first list, so that nothing is Initial.
func opened(t *testing.T, opts ...Option) *Collection[*thing] {
	c := newThings(opts...)
	t.Cleanup(c.Close)
	require.NoError(t, c.Replace(nil, "1"))
	return c
}

func put(t *testing.T, c *Collection[*thing], o *thing)    { require.NoError(t, c.Add(o)) }
func remove(t *testing.T, c *Collection[*thing], o *thing) { require.NoError(t, c.Delete(o)) }

// recreated puts one object under the key of another in one commit.
func recreated(t *testing.T, c *Collection[*thing], old, o *thing) {
	batch, _ := decorate.Begin[*thing](c, false)
	require.NoError(t, batch.Write(store.Write[*thing]{Type: store.Deletion, Object: old, FinalStateKnown: true}))
	require.NoError(t, batch.Write(store.Write[*thing]{Type: store.Addition, Object: o}))
	require.NoError(t, batch.Commit(""))
}

// handOne handles the events of one queue with fn, as Process does, and ends then.
func handOne(t *testing.T, c *Collection[*thing], fn func(context.Context, *Queue[*thing]) error) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c.Process(ctx, 1, func(ctx context.Context, q *Queue[*thing]) error {
		defer stop()
		return fn(ctx, q)
	}, nil)
}

// next describes what comes next of an object after every back-off, and acknowledges it.
// It is nil if nothing comes.
func next(t *testing.T, c *Collection[*thing]) []string {
	t.Helper()
	releaseAll(c)
	q, err := tryTake(c)
	require.NoError(t, err)
	if q == nil {
		require.Zero(t, c.Len())
		return nil
	}
	defer q.Done()
	return words(collect(q))
}

// unlooked returns the number of undelivered events, and of all events.
func unlooked[T any](c *Collection[T]) (unmerged, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bufferSize - c.buffer.room(), bufferSize - c.buffer.room() + c.counters.Events
}
