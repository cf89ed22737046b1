package eventqueue

import (
	"context"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is an object with a key, a UID and a version, and nothing else.
type thing struct {
	name    string
	uid     types.UID
	version string
}

func (t *thing) GetName() string            { return t.name }
func (t *thing) GetNamespace() string       { return "" }
func (t *thing) GetUID() types.UID          { return t.uid }
func (t *thing) GetResourceVersion() string { return t.version }

// at returns a thing that is named by its version: at("a", "u1", 3).
func at(name, uid string, version int) *thing {
	return &thing{name, types.UID(uid), fmt.Sprint(version)}
}

// newThings returns a collection that keeps all events, in one order, unless opts say otherwise.
func newThings(opts ...Option) *Collection[*thing] {
	return New(store.ObjectKey[*thing], append([]Option{WithCompaction(KeepAll), WithPriority(false)}, opts...)...)
}

func key(name string) store.Key { return store.Key{Name: name} }

// words describes events briefly: "+3" an addition of version 3, "3>4" a
// modification, "-4" a deletion; "-4(3)" one whose prior was acknowledged at 3.
func words(events []Event[*thing]) []string {
	all := []string{}
	for _, e := range events {
		var w string
		switch {
		case e.Type == Addition:
			w = "+" + e.Object.version
		case e.Type == Modification:
			w = e.Prior.version + ">" + e.Object.version
		case e.PriorKnown:
			w = "-" + e.Object.version + "(" + e.Prior.version + ")"
		default:
			w = "-" + e.Object.version
		}
		all = append(all, w)
	}
	return all
}

// oldest returns the first event of a queue.
func oldest[T any](q *Queue[T]) Event[T] {
	for event := range q.Events() {
		return event
	}
	panic("a queue is never empty")
}

func collect(q *Queue[*thing]) []Event[*thing] {
	var all []Event[*thing]
	for e := range q.Events() {
		all = append(all, e)
	}
	return all
}

// tryTake takes a queue, or returns nil if none is ready.
func tryTake[T any](c *Collection[T]) (*Queue[T], error) {
	c.lockAndQueue()
	defer c.mu.Unlock()
	if c.IsClosed() {
		return nil, ErrClosed
	}
	k := c.nextLocked()
	if k == nil {
		return nil, nil
	}
	q := new(Queue[T])
	c.handOutLocked(k, q)
	return q, nil
}

// take takes a queue that must be there at once.
func take(t *testing.T, c *Collection[*thing]) *Queue[*thing] {
	t.Helper()
	q, err := tryTake(c)
	if !assert.NoError(t, err) || !assert.NotNil(t, q, "no queue is ready") {
		t.FailNow()
	}
	return q
}

func nothingReady(t *testing.T, c *Collection[*thing]) {
	t.Helper()
	q, err := tryTake(c)
	assert.NoError(t, err)
	assert.Nil(t, q)
}

// releaseAll ends every back-off.
func releaseAll[T any](c *Collection[T]) {
	c.lockAndQueue()
	for _, l := range c.delayed {
		l.due, l.backoffEnd = now(), now()
	}
	c.mu.Unlock()
	c.readyDue()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

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
	batch, _ := decorate.BeginWatch[*thing](c)
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
