package prometheus

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counts counts the changes of a cache, and measures their lag.
type counts[T any] struct {
	of   *prom.CounterVec
	lag  prom.Observer
	name string
	// known caches the counters, so that a change needs no lookup by labels.
	known map[kind]prom.Counter
}

// kind groups changes for counting.
type kind struct {
	change store.ChangeType
	origin store.Origin
}

func newCounts[T any](m *Metrics, name string) *counts[T] {
	return &counts[T]{of: m.events, lag: m.lag.WithLabelValues(name), name: name, known: map[kind]prom.Counter{}}
}

// Start implements [store.Follower].
func (c *counts[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (c *counts[T]) Commit(commit *store.Commit[T]) {
	for i := range commit.Changes {
		change := &commit.Changes[i]
		k := kind{change.Type, commit.Origin}
		counter := c.known[k]
		if counter == nil {
			counter = c.of.WithLabelValues(c.name, k.change.String(), k.origin.String())
			c.known[k] = counter
		}
		counter.Inc()
		if commit.Origin == store.Watch && change.Type != store.Deletion {
			if written := writtenAt(change.Object); !written.IsZero() {
				c.lag.Observe(max(time.Since(written), 0).Seconds())
			}
		}
	}
}

// writtenAt returns the time of the last write of an object, from its managed fields, in whole
// seconds of the server's clock. A pending deletion has no managed field; writtenAt derives its
// time from the deletion timestamp. It skips objects without Go fields for their metadata: that
// would take too long while the cache is written.
func writtenAt(object any) (last time.Time) {
	accessor, ok := object.(metav1.ObjectMetaAccessor)
	if !ok {
		return last
	}
	meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return last
	}
	for i := range meta.ManagedFields {
		if at := meta.ManagedFields[i].Time; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if at := meta.DeletionTimestamp; at != nil && !last.IsZero() {
		var grace int64
		if meta.DeletionGracePeriodSeconds != nil {
			grace = *meta.DeletionGracePeriodSeconds
		}
		if asked := at.Add(-time.Duration(grace) * time.Second); asked.After(last) {
			last = asked
		}
	}
	return last
}
