package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOwnersShareAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		<-time.After(settle)
		_, one := w.want(widget)
		_, two := w.want(widget)
		assert.Same(t, one.Informer, two.Informer)
		_, other := w.want(someWidget)
		assert.NotSame(t, one.Informer, other.Informer, "another version")
		selected, err := Want[*object](w.fleet.NewOwner(t.Context(), "selected"), widget, Selection{Labels: labels.SelectorFromSet(labels.Set{"a": "b"})})
		require.NoError(t, err)
		assert.NotSame(t, one.Informer, selected.Informer)
		<-time.After(settle)
		assert.Equal(t, 3, w.requests("widgets"), "one watch-list for each informer")
	})
}

// net/http opens a connection for each request that finds none, and a transport without connections of its own
// has none until it answers.
func TestKindsThatBeginTogetherShareConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting, most atomic.Int32
		slow := func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				most.Store(max(most.Load(), waiting.Add(1)))
				<-time.After(100 * time.Millisecond)
				waiting.Add(-1)
				return next.RoundTrip(r)
			})
		}
		w := newWorldOf(t, reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions()), slow)
		owner := w.fleet.NewOwner(t.Context(), "test")
		for n := range 20 {
			kind := fmt.Sprintf("Kind%d", n)
			require.NoError(t, w.server.Create(definitionOf(kind, "Namespaced", "v1")))
			_, err := Want[*object](owner, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}, Selection{})
			require.NoError(t, err)
		}
		require.NoError(t, owner.WaitForSync(t.Context()))
		assert.LessOrEqual(t, most.Load(), int32(4))
	})
}

func TestInformerStopsAfterItsLastOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		one, wanted := w.want(widget)
		ctx, cancel := context.WithCancel(t.Context())
		two := w.fleet.NewOwner(ctx, "two")
		shared, err := Want[*object](two, widget, Selection{})
		require.NoError(t, err)
		mine, theirs := &record{}, &record{}
		wanted.Handle(mine)
		s := shared.Handle(theirs)
		require.NoError(t, two.WaitForSync(t.Context()))

		cancel() // two leaves
		<-s.Done()
		w.create("db")
		<-time.After(time.Hour)
		assert.Equal(t, "[+web +db]", mine.take())
		assert.Equal(t, "[+web]", theirs.take())
		_, err = Want[*object](two, widget, Selection{})
		require.ErrorIs(t, err, ErrLeft)

		one.Leave()
		<-time.After(DefaultLag / 2)
		assert.False(t, lifecycle.IsClosed(wanted.Stopped()), "somebody may want it again")
		w.server.ForgetRequests()
		_, again := w.want(widget)
		<-time.After(time.Minute)
		assert.Same(t, wanted.Informer, again.Informer)
		assert.Empty(t, w.server.Requests(reflectortest.ForResource("widgets"), reflectortest.Param("sendInitialEvents", "true")), "nothing is listed again")
		again.Leave()
		<-time.After(DefaultLag + time.Second)
		assert.True(t, lifecycle.IsClosed(wanted.Stopped()))
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Zero(t, w.requests("widgets"))

		_, later := w.want(widget)
		assert.NotSame(t, wanted.Informer, later.Informer)
	})
}

func TestSubscriptionOfAnOwnerThatLeftIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		owner, wanted := w.want(widget)
		one := wanted.Subscribe()
		owner.Leave()
		<-one.Done()
		<-wanted.Handle(&record{}).Done()
		owner.Leave()
		for range 100 { // those that were closed are forgotten
			_, other := w.want(widget)
			s := other.Subscribe()
			s.Close()
			assert.LessOrEqual(t, cap(other.want.subscriptions), 4)
		}
	})
}

func TestHandlerGetsNothingAfterAnOwnerLeftWhileItSubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		w.follow(widget)
		const tries = 100
		var late atomic.Int64
		for range tries {
			owner, wanted := w.want(widget)
			left := make(chan struct{})
			others := func() {
				for range 1000 {
					runtime.Gosched()
				}
			}
			leave := sync.OnceFunc(func() {
				go func() {
					owner.Leave()
					close(left)
					wanted.want.mu.Lock()
					defer wanted.want.mu.Unlock()
					others() // before the subscription is closed, if it is not yet
				}()
			})
			keep := func(*object) bool { // the subscription begins
				leave()
				others()
				return true
			}
			<-wanted.HandleFiltered(keep, informer.HandlerFunc[*object](func(context.Context, eventqueue.Event[*object]) error {
				if lifecycle.IsClosed(left) {
					late.Add(1)
				}
				return nil
			})).Done()
		}
		// Leave does not wait for an event that is being handed over, which is rare.
		assert.Less(t, late.Load(), int64(tries/10))
	})
}

func TestHandlerMayWantAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		done := make(chan error, 1)
		wanted.Handle(informer.HandlerFunc[*object](func(context.Context, eventqueue.Event[*object]) error {
			_, err := Want[*object](owner, widget, Selection{}) // the same informer
			if err == nil {
				_, err = Want[*corev1.Pod](owner, podKind, Selection{})
			}
			owner.Leave()
			done <- err
			return nil
		}))
		require.NoError(t, <-done)
		<-time.After(time.Minute)
		assert.Empty(t, w.fleet.all())
	})
}

func TestEndRoundLeavesWhatIsNoLongerWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		owner := w.fleet.NewOwner(t.Context(), "rule")
		want := func(kinds ...string) {
			for _, kind := range kinds {
				_, err := Want[*object](owner, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}, Selection{})
				require.NoError(t, err)
			}
		}
		want("A", "B")
		owner.EndRound(nil)
		assert.Equal(t, []string{"A.v1.example.com", "B.v1.example.com"}, owner.Kinds())
		want("B", "C")
		owner.EndRound(errors.New("the call failed")) // the call failed: perhaps it did not get to A
		assert.Equal(t, []string{"A.v1.example.com", "B.v1.example.com", "C.v1.example.com"}, owner.Kinds())
		want("B")
		owner.EndRound(nil)
		assert.Equal(t, []string{"B.v1.example.com"}, owner.Kinds())
		owner.EndRound(nil)
		assert.Empty(t, owner.Kinds())
	})
}

func TestRunMayBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		w := &world{T: t, server: server}
		f, err := New(server.Config())
		require.NoError(t, err)
		w.fleet = f
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		seen := &record{}
		wanted.Handle(seen)
		for _, want := range []string{"[+web]", "[+db]"} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- f.Run(ctx) }()
			require.NoError(t, f.WaitForSync(t.Context()))
			require.NoError(t, f.Ready(), "this Run follows the definitions, too")
			require.NoError(t, owner.WaitForSync(t.Context()))
			<-time.After(settle)
			assert.Equal(t, want, seen.take())
			assert.ErrorIs(t, f.Run(ctx), reflector.ErrRunning)
			cancel()
			require.NoError(t, <-ended)
			if want == "[+web]" {
				w.create("db") // while nothing runs
			}
		}
	})
}

func TestBadWants(t *testing.T) {
	f, err := New(reflectortest.Start(t).Config())
	require.NoError(t, err)
	owner := f.NewOwner(t.Context(), "rule")
	_, err = Want[*object](owner, schema.GroupVersionKind{Group: "example.com"}, Selection{})
	assert.ErrorIs(t, err, ErrKind)
	_, err = Want[strange](owner, podKind, Selection{})
	assert.ErrorIs(t, err, client.ErrNoStruct)
	_, err = New(nil)
	assert.ErrorContains(t, err, "config")
	_, _, err = Get[*object](f, podKind, store.Key{Name: "a"})
	assert.ErrorIs(t, err, ErrNotWanted)
	assert.Empty(t, f.all())
}

// strange is no pointer to a struct.
type strange struct{ *object }

func TestReadsByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner := w.fleet.NewOwner(t.Context(), "rule")
		_, err := Want[*object](owner, someWidget, Selection{Namespace: "a"})
		require.NoError(t, err)
		require.NoError(t, owner.WaitForSync(t.Context()))
		for _, kind := range []schema.GroupVersionKind{someWidget, widget} {
			got, found, err := Get[*object](w.fleet, kind, store.Key{Namespace: "a", Name: "web"})
			require.NoError(t, err)
			require.True(t, found)
			assert.Equal(t, "web", got.GetName())
			all, err := List[*object](w.fleet, kind, "a")
			require.NoError(t, err)
			assert.Len(t, all, 1)
		}
		_, err = List[*object](w.fleet, someWidget, "")
		assert.ErrorIs(t, err, ErrNotWanted, "the cache has one namespace")
		_, err = List[*partial](w.fleet, someWidget, "a")
		assert.ErrorIs(t, err, ErrNotWanted, "another form")
		_, err = List[*object](w.fleet, betaWidget, "a")
		assert.ErrorIs(t, err, ErrNotWanted, "another version")

		w.serve("v1", false)
		<-time.After(settle)
		for _, kind := range []schema.GroupVersionKind{someWidget, widget} {
			_, found, err := Get[*object](w.fleet, kind, store.Key{Namespace: "a", Name: "web"})
			assert.ErrorIs(t, err, reflector.ErrNotServed)
			assert.True(t, found, "the last known object")
		}
	})
}

func TestReadsDoNotWaitForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		_, wanted := w.want(widget)
		release := make(chan struct{})
		wanted.Handle(informer.HandlerFunc[*object](func(context.Context, eventqueue.Event[*object]) error { <-release; return nil }))
		defer close(release)
		<-time.After(settle)
		require.Error(t, wanted.Ready())
		_, found, err := Get[*object](w.fleet, widget, store.Key{Namespace: "a", Name: "web"})
		require.NoError(t, err)
		assert.True(t, found)
		all, err := List[*object](w.fleet, widget, "")
		require.NoError(t, err)
		assert.Len(t, all, 1)
	})
}

func TestReadsPreferAnInformerThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1", "v1beta1")
		w.create("web")
		w.want(betaWidget)
		w.want(widget)
		<-time.After(settle)
		read := func(kind schema.GroupVersionKind) (version string, err error) {
			got, found, err := Get[*object](w.fleet, kind, store.Key{Namespace: "a", Name: "web"})
			require.True(t, found)
			return got.GetAPIVersion(), err
		}
		for range 20 {
			version, err := read(someWidget)
			require.NoError(t, err)
			require.Equal(t, "example.com/v1", version, "the newer one")
		}
		w.serve("v1", false)
		<-time.After(settle)
		for range 20 {
			version, err := read(someWidget)
			require.NoError(t, err)
			require.Equal(t, "example.com/v1beta1", version)
			_, err = read(widget)
			require.ErrorIs(t, err, reflector.ErrNotServed)
		}
	})
}

func TestReadsPreferANamespaceThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner := w.fleet.NewOwner(t.Context(), "a")
		_, err := Want[*object](owner, widget, Selection{Namespace: "a"})
		require.NoError(t, err)
		require.NoError(t, owner.WaitForSync(t.Context()))
		for _, verb := range []string{"list", "watch"} {
			w.server.Inject(reflectortest.Answer(403).On(verb, "widgets"))
		}
		w.want(widget)
		<-time.After(settle)
		_, found, err := Get[*object](w.fleet, widget, store.Key{Namespace: "a", Name: "web"})
		require.NoError(t, err)
		assert.True(t, found)
		_, err = List[*object](w.fleet, widget, "")
		assert.ErrorContains(t, err, "forbidden")
	})
}

func TestSelectorThatSelectsNothingIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		owner := w.fleet.NewOwner(t.Context(), "rule")
		nothing, err := Want[*object](owner, widget, Selection{Labels: labels.Nothing()})
		require.NoError(t, err)
		_, all := w.want(widget)
		assert.NotSame(t, nothing.Informer, all.Informer)
		<-time.After(settle)
		assert.ErrorIs(t, nothing.WaitForSync(t.Context()), reflector.ErrNothingSelected)
	})
}

// A reconciler must not act on objects that may be outdated, and must clean up when a deleted definition took its objects.
func TestReconcilerPausesWhileItsKindIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1", "v1beta1")
		w.create("web")
		_, wanted := w.want(betaWidget)
		calls := make(chan string, 100)
		r := reconcile.New("widgets", wanted.Informer, func(_ context.Context, key store.Key, o *object) (reconcile.Result, error) {
			if o == nil {
				calls <- "-" + key.Name
				return reconcile.Result{}, nil
			}
			calls <- key.Name
			return reconcile.Result{RequeueAfter: time.Minute}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		assert.Equal(t, "web", <-calls)
		w.serve("v1beta1", false)
		<-time.After(time.Hour)
		assert.Empty(t, calls, "it is due every minute")
		assert.ErrorIs(t, r.Ready(), reflector.ErrNotServed)
		w.serve("v1beta1", true)
		<-time.After(settle)
		assert.Equal(t, "web", <-calls)
		w.serve("v1beta1", false)
		<-time.After(time.Hour)
		w.undefine()
		<-time.After(settle)
		require.NotEmpty(t, calls)
		assert.Equal(t, "-web", <-calls)

		<-time.After(time.Hour)
		for len(calls) > 0 {
			assert.Equal(t, "-web", <-calls, "the call that was due")
		}
		w.define("Namespaced", "v1beta1")
		require.NoError(t, w.server.Create(bare(betaWidget, "a", "web")))
		assert.Equal(t, "web", <-calls)
		w.serve("v1beta1", false)
		<-time.After(time.Hour)
		began := time.Now()
		cancel()
		var left *eventqueue.DrainError
		require.ErrorAs(t, <-ended, &left, "the key is named")
		assert.Zero(t, time.Since(began), "nothing waits for a kind that may never be served")
	})
}

func TestManyWantsAndLeavesKeepNothing(t *testing.T) {
	f, err := New(reflectortest.Start(t).Config(), WithLag(0))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	use := func(n int) {
		owner := f.NewOwner(ctx, "rule")
		for k := range 10 {
			wanted, err := Want[*object](owner, schema.GroupVersionKind{Group: "example.com", Kind: fmt.Sprint("Kind", n%7*10+k)}, Selection{})
			require.NoError(t, err)
			wanted.Handle(&record{})
		}
		owner.Leave()
	}
	use(0)
	goroutines := runtime.NumGoroutine()
	for n := range 1000 {
		use(n)
	}
	for len(f.all()) > 0 || runtime.NumGoroutine() > goroutines+50 {
		runtime.Gosched()
	}
	cancel()
	require.NoError(t, <-ended)
}

func TestOwnerDoesNotWaitForHandlersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		slow, shared := w.want(widget)
		release := make(chan struct{})
		shared.Handle(informer.HandlerFunc[*object](func(context.Context, eventqueue.Event[*object]) error { <-release; return nil }))
		quick, wanted := w.want(widget)
		seen := &record{}
		wanted.Handle(seen)
		require.NoError(t, quick.WaitForSync(t.Context()))
		assert.Equal(t, "[+web]", seen.take())
		ctx, cancel := context.WithTimeout(t.Context(), settle)
		defer cancel()
		assert.Error(t, slow.WaitForSync(ctx))
		close(release)
		require.NoError(t, slow.WaitForSync(t.Context()))
	})
}

// As informer.WaitForSync does, it leaves the pace of a subscriber that pulls to that subscriber.
func TestWaitForSyncDoesNotWaitForSubscribersThatPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		wanted.Subscribe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, owner.WaitForSync(ctx))
		assert.NoError(t, ctx.Err())
	})
}

func TestWaitForSyncEndsWhenTheOwnerLeaves(t *testing.T) {
	for name, handles := range map[string]bool{"for the kind": false, "for a handler": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				kind := widget
				if handles {
					w.define("Namespaced", "v1")
					w.create("web")
				}
				owner, wanted := w.want(kind)
				release := make(chan struct{})
				defer close(release)
				wanted.Handle(informer.HandlerFunc[*object](func(context.Context, eventqueue.Event[*object]) error { <-release; return nil }))
				ended := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				go func() { ended <- owner.WaitForSync(ctx) }()
				<-time.After(settle)
				assert.Empty(t, ended)
				owner.Leave()
				require.ErrorIs(t, <-ended, ErrLeft)
			})
		})
	}
	t.Run("one kind alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			owner, wanted := w.want(widget)
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			go func() { ended <- owner.WaitForSync(ctx) }()
			<-time.After(settle)
			wanted.Leave()
			require.NoError(t, <-ended, "the owner wants nothing else")
		})
	})
	t.Run("a kind that is wanted again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			owner, wanted := w.want(widget)
			// Without another kind, the wait would end if it looked between Leave and Want.
			_, err := Want[*object](owner, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, Selection{})
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() { ended <- owner.WaitForSync(t.Context()) }()
			<-time.After(settle)
			wanted.Leave()
			again, err := Want[*object](owner, widget, Selection{})
			require.NoError(t, err)
			require.NoError(t, w.server.Create(definitionOf("Gadget", "Namespaced", "v1")))
			<-time.After(settle)
			assert.Empty(t, ended)
			w.define("Namespaced", "v1")
			require.NoError(t, <-ended)
			require.NoError(t, again.Ready())
		})
	})
}

// A timer that fires while the next owner comes must not count for the end of that owner.
func TestEarlierLagDoesNotStopAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		owner, wanted := w.want(widget)
		owner.Leave()
		<-time.After(DefaultLag / 2)
		again, _ := w.want(widget)
		again.Leave()
		w.fleet.remove(wanted.want.member, 1)
		<-time.After(DefaultLag / 2)
		assert.False(t, lifecycle.IsClosed(wanted.Stopped()))
		<-time.After(DefaultLag)
		assert.True(t, lifecycle.IsClosed(wanted.Stopped()))
	})
}

func TestFleetThatHasEndedIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())}
		var err error
		w.fleet, err = New(w.server.Config())
		require.NoError(t, err)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		run := func() (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.fleet.Run(ctx) }()
			return func() { cancel(); require.NoError(t, <-ended) }
		}
		end := run()
		require.NoError(t, owner.WaitForSync(t.Context()))
		require.NoError(t, w.fleet.WaitForSync(t.Context()))
		require.NoError(t, w.fleet.Ready())
		end()
		assert.Error(t, w.fleet.Ready())

		w.undefine()
		w.define("Namespaced", "v1")
		w.create("db")
		for _, verb := range []string{"list", "watch"} {
			w.server.Inject(reflectortest.Answer(500).On(verb, "customresourcedefinitions"))
		}
		w.server.ForgetRequests()
		end = run()
		defer end()
		<-time.After(settle)
		assert.Error(t, w.fleet.Ready())
		assert.Zero(t, w.requests("widgets"), "it may have another definition now")
		assert.ErrorContains(t, owner.Ready(), "(Unknown)")
		w.server.ClearFaults()
		<-time.After(time.Minute)
		require.NoError(t, owner.Ready())
		assert.Equal(t, []string{"db"}, cached(wanted))
	})
}

func TestInformerThatEndedWithAnErrorIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		<-time.After(settle)
		nothing := Selection{Labels: labels.Nothing()}
		one := w.fleet.NewOwner(t.Context(), "one")
		first, err := Want[*object](one, widget, nothing)
		require.NoError(t, err)
		require.ErrorIs(t, one.WaitForSync(t.Context()), reflector.ErrNothingSelected)
		assert.ErrorIs(t, one.Ready(), reflector.ErrNothingSelected)
		<-time.After(settle)
		again, err := Want[*object](w.fleet.NewOwner(t.Context(), "two"), widget, nothing)
		require.NoError(t, err)
		assert.NotSame(t, first.Informer, again.Informer)
		same, err := Want[*object](one, widget, nothing)
		require.NoError(t, err)
		assert.NotSame(t, first.Informer, same.Informer, "also for its own owner")
		assert.True(t, lifecycle.IsClosed(first.Subscribe().Done()))
	})
}

func TestInformerThatGoexitEndedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		f := begin(t, server.Config(), WithInformerOptions(informer.WithErrorHandler(func(context.Context, error) {
			runtime.Goexit() // as FailNow of a test does
		})))
		w := &world{T: t, server: server, fleet: f}
		w.define("Namespaced", "v1")
		server.Inject(reflectortest.Answer(500).On("", "widgets").Times(1))
		one, first := w.want(widget)
		require.ErrorIs(t, one.WaitForSync(t.Context()), feed.ErrAbandoned)
		<-time.After(settle)
		again, err := Want[*object](one, widget, Selection{})
		require.NoError(t, err)
		assert.NotSame(t, first.Informer, again.Informer)
		require.NoError(t, one.WaitForSync(t.Context()))
	})
}

func TestCatchUpSaysWhetherTheCacheIsCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1", "v1beta1")
		w.create("web")
		_, wanted, _ := w.follow(betaWidget)
		require.NoError(t, wanted.CatchUp(t.Context(), time.Now()))
		w.serve("v1beta1", false)
		<-time.After(settle)
		assert.ErrorIs(t, wanted.CatchUp(t.Context(), time.Now()), reflector.ErrNotServed)
		w.undefine()
		<-time.After(settle)
		assert.NoError(t, wanted.CatchUp(t.Context(), time.Now()), "there are no objects")

		w.server.Inject(reflectortest.Answer(500).On("watch", "widgets"))
		w.server.Inject(reflectortest.Answer(500).On("list", "widgets"))
		w.define("Namespaced", "v1beta1")
		<-time.After(settle)
		ctx, cancel := context.WithTimeout(t.Context(), settle)
		defer cancel()
		assert.ErrorIs(t, wanted.CatchUp(ctx, time.Now()), context.DeadlineExceeded, "nothing was read yet")
		w.server.ClearFaults()
		assert.NoError(t, wanted.CatchUp(t.Context(), time.Now()))
	})
}

// The cache of definitions shows that one was made again before the informer of the kind hears of it.
func TestCatchUpWaitsForADefinitionThatIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		goOn := make(chan struct{})
		core, _ := observer.New(zap.InfoLevel)
		w := &world{T: t, server: server, fleet: begin(t, server.Config(), WithLogger(zap.New(core, zap.Hooks(func(entry zapcore.Entry) error {
			if entry.Message == "kind is not served" { // on the goroutine that follows the kind
				<-goOn
			}
			return nil
		}))))}
		w.define("Namespaced", "v1")
		<-time.After(settle)
		_, wanted, _ := w.follow(widget)
		w.undefine()
		<-time.After(settle)
		w.define("Namespaced", "v1")
		w.create("web")
		<-time.After(settle)
		caughtUp := make(chan error, 1)
		go func() { caughtUp <- wanted.CatchUp(t.Context(), time.Now()) }()
		<-time.After(settle)
		assert.Empty(t, caughtUp)
		close(goOn)
		require.NoError(t, <-caughtUp)
		assert.Equal(t, 1, wanted.Cache().Len())
	})
}

func TestCatchUpGoesOnWhenAnotherVersionIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1beta1", "v1")
		w.serve("v1", false)
		_, wanted, _ := w.follow(someWidget)
		w.serve("v1", true)
		stalled := w.server.Inject(reflectortest.Stall(nil).On("list", "widgets"))
		caughtUp := make(chan error, 1)
		go func() { caughtUp <- wanted.CatchUp(t.Context(), time.Now()) }()
		synctest.Wait()
		require.NotZero(t, stalled.Hits(), "it asks the server")
		stalled.Remove()
		w.serve("v1beta1", false)
		assert.NoError(t, <-caughtUp)
		assert.NoError(t, wanted.Ready())
	})
}

func TestTypedFormNeedsAVersion(t *testing.T) {
	f, err := New(reflectortest.Start(t).Config())
	require.NoError(t, err)
	_, err = Want[*corev1.Pod](f.NewOwner(t.Context(), "rule"), schema.GroupVersionKind{Kind: "Pod"}, Selection{})
	assert.ErrorIs(t, err, ErrKind)
}
