package eventqueuetest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
)

// Source is a source of events: an [*eventqueue.Collection], or a subscription of an informer.
type Source[T any] interface {
	Consume(ctx context.Context) iter.Seq[eventqueue.Event[T]]
}

// Recorder consumes the events of a source and compares them with what a test expects.
// Get one from [Record].
type Recorder[T any] struct {
	t      testing.TB
	source Source[T]
	events map[store.Key][]eventqueue.Event[T] // that came and were not expected yet
}

// Record returns a recorder of a source. Nothing else may take events from that source. Use the
// recorder inside a bubble of [testing/synctest].
func Record[T any](t testing.TB, source Source[T]) *Recorder[T] {
	return &Recorder[T]{t: t, source: source, events: make(map[store.Key][]eventqueue.Event[T])}
}

// Expect expects the given events as the next ones of a key, in this order, and no further events
// of that key. Without wants, it expects that the key has no events.
func (r *Recorder[T]) Expect(key store.Key, wants ...Want[T]) {
	r.t.Helper()
	r.collect()
	came := r.events[key]
	delete(r.events, key)
	met := len(came) == len(wants)
	for i := 0; met && i < len(wants); i++ {
		met = wants[i].met(came[i])
	}
	if !met {
		r.t.Errorf("events of %q:\nexpected:%s\ncame:%s", key, lines(wants), lines(describe(came)))
	}
}

// ExpectNothing expects that no key has events beyond the expected ones.
func (r *Recorder[T]) ExpectNothing() {
	r.t.Helper()
	r.collect()
	for _, key := range slices.SortedFunc(maps.Keys(r.events), store.Key.Compare) {
		r.t.Errorf("events of %q:\nexpected:%s\ncame:%s", key, lines[string](nil), lines(describe(r.events[key])))
	}
	clear(r.events)
}

// collect takes all events that are ready.
func (r *Recorder[T]) collect() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range r.source.Consume(ctx) {
			r.events[e.Key] = append(r.events[e.Key], e)
		}
	}()
	// When Wait returns, the goroutine above and all others wait.
	synctest.Wait()
	stop()
	<-ended
}

// describe returns events in the words of a [Want].
func describe[T any](events []eventqueue.Event[T]) []string {
	var words []string
	for _, e := range events {
		var w string
		switch e.Type {
		case eventqueue.Addition:
			w = Added(e.Object).words
		case eventqueue.Modification:
			w = Modified(e.Prior, e.Object).words
		default:
			w = Deleted(e.Object).words
		}
		words = append(words, fmt.Sprintf("%s (%v)", w, e.Origin))
	}
	return words
}

func lines[S any](all []S) string {
	if len(all) == 0 {
		return "\n\tnothing"
	}
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "\n\t%v", s)
	}
	return b.String()
}
