package store

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// applied makes a batch of writes and returns its changes, as a follower receives them.
func applied[T any](c *Cache[T], batch *writes[T]) ([]Change[T], error) {
	var told collector[T]
	stop := c.Follow(&told)
	defer stop()
	err := batch.to(c)
	return told.changes, err
}

// collector is a follower that keeps all changes.
type collector[T any] struct{ changes []Change[T] }

func (*collector[T]) Start(*Snapshot[T])         {}
func (f *collector[T]) Commit(commit *Commit[T]) { f.changes = append(f.changes, commit.Changes...) }
