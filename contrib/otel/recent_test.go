package otel

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace/noop"
)

func TestRecentForgetsWhatIsOldest(t *testing.T) {
	var r recent[int, string]
	set := func(key int, value string) { r.change(key, func(string) string { return value }) }
	for key := range maxRecent {
		set(key, "first")
	}
	set(0, "again") // it keeps its place
	was, ok := r.take(1)
	assert.True(t, ok)
	assert.Equal(t, "first", was)
	set(1, "anew") // in the place of 0
	set(maxRecent, "new")
	_, ok = r.get(0)
	assert.False(t, ok)
	got, ok := r.get(1)
	assert.True(t, ok)
	assert.Equal(t, "anew", got)
	for key := range 10 * maxRecent {
		set(key, "many")
		if key%3 == 0 {
			r.take(key)
		}
	}
	assert.LessOrEqual(t, len(r.all), maxRecent)
	assert.Len(t, r.slots, maxRecent)
	_, ok = r.get(10*maxRecent - 2)
	assert.True(t, ok)

	r.clear()
	assert.Empty(t, r.all)
	assert.Empty(t, r.slots)
	set(1, "after")
	got, _ = r.get(1)
	assert.Equal(t, "after", got)
}

func TestChangesThatAreNotChosenCostNoMemory(t *testing.T) {
	f := &follower[int]{tracer: noop.NewTracerProvider().Tracer(""), name: "things", every: 1 << 40, to: &chains{}}
	commit := &store.Commit[int]{Origin: store.Watch}
	for i := range 100 {
		commit.Changes = append(commit.Changes, store.Change[int]{Type: store.Addition, Key: store.Key{Name: strconv.Itoa(i)}, Version: store.Version{ResourceVersion: "1"}})
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { f.Commit(commit) }))
	assert.Empty(t, f.to.recent.all)
}

// A protobuf string may have any bytes, and exporters drop a whole batch for one text that is not UTF-8.
func TestNamesOfObjectsAreTextsThatCanBeSent(t *testing.T) {
	assert.Equal(t, []attribute.KeyValue{
		attribute.String("kubereflector.object.name", "a\uFFFD"),
		attribute.String("k8s.namespace.name", "n\uFFFD"),
		attribute.String("k8s.cluster.name", "c\uFFFD"),
	}, keyAttributes(store.Key{Cluster: "c\xff", Namespace: "n\xff", Name: "a\xff"}))
}

// A handler that meets the begin of another subscription of its name must not undo it.
func TestTheTimeOfASubscriptionStays(t *testing.T) {
	for range 2000 {
		var c calls
		var both sync.WaitGroup
		both.Go(func() { c.of("handler") })
		both.Go(func() { c.begin("handler") })
		both.Wait()
		require.False(t, c.of("handler").since.IsZero())
	}
}

// A program makes informers of ever new names, as one for each tenant.
func TestInformersThatAreGoneLeaveNothing(t *testing.T) {
	tracing := New(noop.NewTracerProvider())
	kept := tracing.Options("kept")
	for i := range 100 {
		tracing.Options(fmt.Sprint("informer ", i))
	}
	runtime.GC()
	tracing.Options("new")
	assert.Len(t, tracing.chains, 2)
	assert.Contains(t, tracing.chains, "kept")
	runtime.KeepAlive(kept)
}
