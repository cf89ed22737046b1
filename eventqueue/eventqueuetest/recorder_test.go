package eventqueuetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page is an object that is not one of Kubernetes.
type page struct{ Title, Text string }

func newPages(opts ...eventqueue.Option) *eventqueue.Collection[page] {
	return eventqueue.New(func(p page) (store.Key, error) { return store.Key{Name: p.Title}, nil },
		append([]eventqueue.Option{eventqueue.WithCompaction(eventqueue.KeepAll)}, opts...)...)
}

func key(name string) store.Key { return store.Key{Name: name} }

// failing is a test that writes down how it fails.
type failing struct {
	testing.TB
	errors []string
}

func (f *failing) Helper() {}

func (f *failing) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func TestExpectedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := newPages()
		r := Record(t, pages)
		r.ExpectNothing()
		require.NoError(t, pages.Add(page{"a", "1"}))
		require.NoError(t, pages.Add(page{"b", "1"}))
		require.NoError(t, pages.Update(page{"a", "2"}))
		require.NoError(t, pages.Delete(page{"a", "3"}))
		r.Expect(key("b"), Added(page{"b", "1"}))
		r.Expect(key("a"), Added(page{"a", "1"}), Modified(page{"a", "1"}, page{"a", "2"}), Deleted(page{"a", "3"}))
		r.Expect(key("c"))
		require.NoError(t, pages.Update(page{"b", "2"}))
		require.NoError(t, pages.Delete(page{"b", "2"}))
		r.Expect(key("b"), OfType[page](eventqueue.Modification),
			Where("a deletion with its final state", func(e eventqueue.Event[page]) bool { return e.FinalStateKnown }))
		r.ExpectNothing()
		assert.Zero(t, pages.Len(), "what was expected is acknowledged")
	})
}

func TestExpectationsWaitForOtherGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := newPages()
		r := Record(t, pages)
		start := make(chan struct{})
		go func() {
			<-start
			_ = pages.Add(page{"a", "1"})
			<-time.After(time.Second)
			_ = pages.Add(page{"b", "1"})
		}()
		r.ExpectNothing()
		close(start)
		r.Expect(key("a"), OfType[page](eventqueue.Addition))
		r.ExpectNothing()
		<-time.After(time.Second)
		r.Expect(key("b"), OfType[page](eventqueue.Addition))
	})
}

func TestExpectationsFail(t *testing.T) {
	none := func(*Recorder[page]) {}
	for name, row := range map[string]struct {
		first, expect func(*Recorder[page])
		errors        []string
	}{
		"nothing came": {none, func(r *Recorder[page]) { r.Expect(key("x"), Added(page{"x", "1"})) },
			[]string{"events of \"x\":\nexpected:\n\taddition of {Title:x Text:1}\ncame:\n\tnothing"}},
		"another object": {none, func(r *Recorder[page]) {
			r.Expect(key("a"), Added(page{"a", "9"}), OfType[page](eventqueue.Modification))
		},
			[]string{"events of \"a\":\nexpected:\n\taddition of {Title:a Text:9}\n\tany Modification\ncame:\n\taddition of {Title:a Text:1} (Watch)\n\tmodification of {Title:a Text:1} to {Title:a Text:2} (Watch)"}},
		"another prior": {none, func(r *Recorder[page]) {
			r.Expect(key("a"), Added(page{"a", "1"}), Modified(page{"a", "9"}, page{"a", "2"}))
		}, make([]string, 1)},
		"too few": {none, func(r *Recorder[page]) {
			r.Expect(key("a"), Added(page{"a", "1"}), OfType[page](eventqueue.Modification), OfType[page](eventqueue.Deletion))
		}, make([]string, 1)},
		"too many":     {none, func(r *Recorder[page]) { r.Expect(key("a"), Added(page{"a", "1"})) }, make([]string, 1)},
		"another type": {none, func(r *Recorder[page]) { r.Expect(key("b"), OfType[page](eventqueue.Deletion)) }, make([]string, 1)},
		"deleted":      {none, func(r *Recorder[page]) { r.Expect(key("b"), Deleted(page{"b", "1"})) }, make([]string, 1)},
		"modified":     {none, func(r *Recorder[page]) { r.Expect(key("b"), Modified(page{}, page{"b", "1"})) }, make([]string, 1)},
		"by a function": {none, func(r *Recorder[page]) {
			r.Expect(key("b"), Where("x", func(eventqueue.Event[page]) bool { return false }))
		}, make([]string, 1)},
		"something came":        {none, func(r *Recorder[page]) { r.Expect(key("b")) }, make([]string, 1)},
		"something is left":     {func(r *Recorder[page]) { r.Expect(key("b"), OfType[page](eventqueue.Addition)) }, func(r *Recorder[page]) { r.ExpectNothing() }, make([]string, 1)},
		"two things are left":   {none, func(r *Recorder[page]) { r.ExpectNothing() }, make([]string, 2)},
		"it is reported once":   {func(r *Recorder[page]) { r.ExpectNothing() }, func(r *Recorder[page]) { r.ExpectNothing() }, make([]string, 2)},
		"also for a single key": {func(r *Recorder[page]) { r.Expect(key("a")); r.Expect(key("b")) }, func(r *Recorder[page]) { r.ExpectNothing() }, make([]string, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pages := newPages()
				require.NoError(t, pages.Add(page{"a", "1"}))
				require.NoError(t, pages.Update(page{"a", "2"}))
				require.NoError(t, pages.Add(page{"b", "1"}))
				f := &failing{TB: t}
				r := Record(f, pages)
				row.first(r)
				row.expect(r)
				require.Len(t, f.errors, len(row.errors))
				if row.errors[0] != "" {
					assert.Equal(t, row.errors, f.errors)
				}
			})
		})
	}
}

func TestExpectationsOfAHandlersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := newPages(), newPages()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go in.Process(ctx, 1, func(_ context.Context, q *eventqueue.Queue[page]) error {
			return out.Add(page{q.Key().Name, q.Newest().Object.Text + "!"})
		}, nil)
		r := Record(t, out)
		require.NoError(t, in.Add(page{"a", "1"}))
		r.Expect(key("a"), Added(page{"a", "1!"}))
	})
}
