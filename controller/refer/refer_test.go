package refer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

func TestKeyIsReconciledWhenWhatItNamesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.define("Widget")
		wait()
		w.bundle("one", "Widget/web")
		w.bundle("other", "Widget/db")
		assert.Contains(t, w.take(), "one: []", "it does not exist")
		w.put("Widget", "web", "1")
		assert.Equal(t, []string{"one: [a/web:1]"}, w.take())
		w.put("Widget", "web", "2")
		assert.Equal(t, []string{"one: [a/web:2]"}, w.take())
		w.put("Widget", "nobody", "1")
		assert.Empty(t, w.take(), "only keys that refer to an object are reconciled")
		w.remove("Widget", "web")
		assert.Equal(t, []string{"one: []"}, w.take())
	})
}

func TestKeyIsReconciledWhenItsSelectionChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.define("Widget")
		wait()
		w.bundle("in", "Widget?v=1")
		w.bundle("all", "Widget??v=1")
		w.bundle("every", "Widget?")
		w.bundle("none", "Widget?v=9")
		w.take()
		w.put("Widget", "web", "1")
		assert.ElementsMatch(t, []string{"in: [a/web:1]", "all: [a/web:1]", "every: [a/web:1]"}, w.take())
		require.NoError(t, w.server.Create(widget("Widget", "b", "far", "1")))
		assert.Equal(t, []string{"all: [a/web:1 b/far:1]"}, w.take())
		w.put("Widget", "web", "2")
		assert.ElementsMatch(t, []string{"in: []", "all: [b/far:1]", "every: [a/web:2]"}, w.take(), "it ceases to match")
	})
}

func TestKindThatIsDefinedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.bundle("one", "Widget/web")
		w.bundle("two", "Widget?v=1")
		assert.Subset(t, w.take(), []string{"one: !NotInstalled", "two: !NotInstalled"})
		<-time.After(time.Hour)
		assert.Empty(t, w.take())
		w.define("Widget")
		assert.Subset(t, w.take(), []string{"one: []", "two: []"}, "no object says that the kind is there")
		w.put("Widget", "web", "1")
		assert.ElementsMatch(t, []string{"one: [a/web:1]", "two: [a/web:1]"}, w.take())

		w.serve("Widget", false)
		calls := w.take()
		assert.Equal(t, "one: !NoVersion", lastOf(calls, "one"))
		assert.Equal(t, "two: !NoVersion", lastOf(calls, "two"))
		w.serve("Widget", true)
		assert.Equal(t, "one: [a/web:1]", lastOf(w.take(), "one"))

		w.undefine("Widget")
		assert.Equal(t, "two: !NotInstalled", lastOf(w.take(), "two"))
		w.define("Widget")
		assert.Equal(t, "two: []", lastOf(w.take(), "two"))
	})
}

// Nothing keeps the cache up to date then.
func TestFleetThatDoesNotRunIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Widget")
		w.put("Widget", "web", "1")
		w.begin()
		w.bundle("one", "Widget/web")
		assert.Equal(t, "one: [a/web:1]", w.last())
		w.stopKinds()
		w.take()
		w.put("Widget", "web", "2")
		w.bundle("one", "Widget/web", "Widget?v=2")
		assert.Equal(t, "one: !stopped !stopped", w.last())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.kinds.Run(ctx) }()
		assert.Equal(t, "one: [a/web:2] [a/web:2]", w.last(), "it is reconciled when the fleet runs")
		cancel()
		require.NoError(t, <-ended)
	})
}

func lastOf(calls []string, bundle string) (last string) {
	for _, call := range calls {
		if strings.HasPrefix(call, bundle+": ") {
			last = call
		}
	}
	return last
}

func TestWhatASuccessfulCallDoesNotReferToIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.bundle("one", "Widget/web", "Gadget/web", "Gadget?v=1")
		w.take()
		pairs, watches := w.index()
		assert.Equal(t, []string{"one Gadget/web", "one Gadget?v=1", "one Widget/web"}, pairs)
		assert.Equal(t, []string{"Gadget", "Widget"}, watches)

		w.failIf(func(_ string, refs int) bool { return refs == 1 })
		w.bundle("one", "Gizmo/web", "Widget/web")
		w.take()
		pairs, _ = w.index()
		assert.Equal(t, []string{"one Gadget/web", "one Gadget?v=1", "one Gizmo/web", "one Widget/web"}, pairs, "a failed call leaves nothing")

		w.failIf(nil)
		w.bundle("one", "Widget/db", "Widget/web")
		w.take()
		pairs, watches = w.index()
		assert.Equal(t, []string{"one Widget/db", "one Widget/web"}, pairs)
		assert.Equal(t, []string{"Widget"}, watches)
		<-time.After(time.Minute)
		assert.False(t, w.isWanted("Gadget"))
		assert.True(t, w.isWanted("Widget"))
	})
}

func TestFailedCallIsReconciledForWhatItReferredTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.define("Widget")
		wait()
		w.bundle("one", "Widget/web")
		assert.Equal(t, "one: []", w.last())
		var calls []time.Time // w.mu guards it
		w.failIf(func(string, int) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			calls = append(calls, time.Now())
			return true
		})
		w.bundle("one", "Widget/web", "Widget/db")
		<-time.After(time.Hour) // the back-off is five minutes
		w.failIf(nil)
		w.put("Widget", "web", "1")
		assert.Equal(t, "one: [] [a/web:1]", w.last())
	})
}

func TestReferencesOfADeletedObjectEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.bundle("one", "Widget/web", "Gadget?v=1")
		w.bundle("two", "Gadget?v=1")
		w.take()
		w.unbundle("one")
		assert.Equal(t, []string{"one: gone"}, w.take())
		pairs, watches := w.index()
		assert.Equal(t, []string{"two Gadget?v=1"}, pairs)
		assert.Equal(t, []string{"Gadget"}, watches)

		w.failIf(func(string, int) bool { return true })
		w.unbundle("two")
		w.take()
		w.failIf(nil)
		<-time.After(time.Minute)
		pairs, watches = w.index()
		assert.Empty(t, pairs)
		assert.Empty(t, watches)
		assert.Zero(t, w.primaries())
		assert.False(t, w.isWanted("Gadget"))
	})
}

// A cleanup may look at other objects, too, and is called again when they change.
func TestCleanupRefersUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fleet.WithLag(0))
		w.define("Widget")
		w.put("Widget", "web", "1")
		w.bundle("one")
		done := make(chan string, 1)
		w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, key store.Key, bundle *corev1.ConfigMap) (reconcile.Result, error) {
			if bundle != nil {
				return reconcile.Result{}, nil
			}
			if saw := look(ctx, "Widget/web"); saw != "[]" {
				return reconcile.Result{}, fmt.Errorf("there is %s", saw)
			}
			done <- key.Name
			return reconcile.Result{}, nil
		})
		w.begin()
		w.unbundle("one")
		<-time.After(time.Hour)                                                         // the back-off is five minutes
		w.reconciler.current.Load().leave(store.Key{Namespace: "bundles", Name: "one"}) // its queue may be slower than the first call
		began := time.Now()
		w.remove("Widget", "web")
		assert.Equal(t, "one", <-done)
		assert.Less(t, time.Since(began), settle)
		wait()
		assert.Zero(t, w.primaries())
	})
}

// The object stops matching the selector of a cache: no call follows, as reconcile-R11 says.
func TestReferencesEndWhenAnObjectLeavesWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.bundle("one", "Widget/web")
		w.take()
		s := w.reconciler.current.Load()
		s.leave(store.Key{Namespace: "bundles", Name: "one"})
		pairs, _ := w.index()
		assert.Len(t, pairs, 1, "the object is in the cache")
		has := s.has
		s.mu.Lock()
		s.has = func(store.Key) bool { return false } // as after it left
		s.mu.Unlock()
		s.leave(store.Key{Namespace: "bundles", Name: "one"})
		pairs, _ = w.index()
		assert.Empty(t, pairs)
		s.mu.Lock()
		s.has = has
		s.mu.Unlock()
	})
}

// labelled runs an informer of the bundles with the label "mine", until end.
func (w *world) labelled() (selected *informer.Informer[*corev1.ConfigMap], end func()) {
	clientset, err := kubernetes.NewForConfig(w.server.Config())
	require.NoError(w, err)
	mine := labels.SelectorFromSet(labels.Set{"mine": "yes"})
	selected = informer.New(clientset.CoreV1().ConfigMaps("bundles"), informer.WithReflector(reflector.WithLabelSelector(mine)))
	ctx, cancel := context.WithCancel(w.Context())
	running := make(chan error, 1)
	go func() { running <- selected.Run(ctx) }()
	return selected, func() {
		cancel()
		require.NoError(w, <-running)
	}
}

// The key never had an object, so no event of the informer ends what its cleanup refers to.
func TestReferencesOfAFailedCleanupEndWhenNoCallFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fleet.WithLag(0))
		selected, end := w.labelled()
		defer end()
		var calls atomic.Int64
		w.reconciler = New("bundles", selected, w.kinds, func(ctx context.Context, _ store.Key, bundle *corev1.ConfigMap) (reconcile.Result, error) {
			calls.Add(1)
			assert.Nil(t, bundle)
			look(ctx, "Widget/web")
			return reconcile.Result{}, errOnPurpose
		})
		w.begin()
		w.reconciler.Enqueue(store.Key{Namespace: "bundles", Name: "one"})
		<-time.After(time.Hour)
		pairs, _ := w.index()
		assert.Equal(t, []string{"one Widget/web"}, pairs, "it is repeated")
		assert.Greater(t, calls.Load(), int64(10))
		w.bundle("one") // without the label
		<-time.After(time.Hour)
		calls.Store(0)
		pairs, watches := w.index()
		assert.Empty(t, pairs)
		assert.Empty(t, watches)
		assert.Zero(t, w.primaries())
		assert.False(t, w.isWanted("Widget"))
		w.define("Widget") // the condition changes
		w.put("Widget", "web", "1")
		<-time.After(time.Hour)
		assert.Zero(t, calls.Load())

		w.unbundle("one")
		w.reconciler.Enqueue(store.Key{Namespace: "bundles", Name: "one"})
		wait()
		pairs, _ = w.index()
		assert.Equal(t, []string{"one Widget/web"}, pairs, "it refers again")
		w.stop()
	})
}

// An object that stops matching the selector exists, so no call follows that could end what the last one referred to.
func TestReferencesOfAFailedCallEndWhenItsObjectStoppedMatchingMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		selected, end := w.labelled()
		defer end()
		one := bundle("one")
		one.Labels = map[string]string{"mine": "yes"}
		require.NoError(t, w.server.Create(one))
		referred, goOn := make(chan struct{}), make(chan struct{})
		w.reconciler = New("bundles", selected, w.kinds, func(ctx context.Context, _ store.Key, bundle *corev1.ConfigMap) (reconcile.Result, error) {
			assert.NotNil(t, bundle)
			look(ctx, "Widget/web")
			close(referred)
			<-goOn
			return reconcile.Result{}, errOnPurpose
		})
		w.begin()
		<-referred
		w.bundle("one") // without the label
		wait()
		close(goOn)
		<-time.After(time.Hour) // longer than the back-off
		pairs, watches := w.index()
		assert.Empty(t, pairs)
		assert.Empty(t, watches)
		assert.Zero(t, w.primaries())
		w.stop()
	})
}

func TestThousandsOfKeysShareAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Widget")
		wait()
		const bundles = 2000
		for n := range bundles {
			w.bundle(fmt.Sprint("b", n), fmt.Sprint("Widget/w", n), fmt.Sprintf("Widget?v=%d", n))
		}
		w.begin()
		w.take()
		assert.Len(t, w.server.Requests(reflectortest.ForResource("widgets")), 1, "one watch-list")
		w.put("Widget", "w7", "8")
		assert.ElementsMatch(t, []string{"b7: [a/w7:8] []", "b8: [] [a/w7:8]"}, w.take(), "those that refer to it, and nobody else")
		pairs, _ := w.index()
		assert.Len(t, pairs, 2*bundles)
	})
}

// A change between the look of a call and its end is not lost, whatever the order of events.
func TestChangeDuringACallIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Widget")
		w.bundle("one")
		looked, goOn := make(chan string), make(chan struct{})
		w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			looked <- look(ctx, "Widget/web")
			<-goOn
			return reconcile.Result{}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.reconciler.Run(ctx) }()
		first := <-looked
		wait() // the first list is complete meanwhile
		if first != "[]" {
			goOn <- struct{}{}
			assert.Equal(t, "[]", <-looked)
		}
		w.put("Widget", "web", "1")
		wait()
		goOn <- struct{}{}
		assert.Equal(t, "[a/web:1]", <-looked)
		cancel()
		close(goOn)
		for {
			select {
			case <-looked:
				continue
			case err := <-ended:
				require.NoError(t, err)
				return
			}
		}
	})
}

// The kind ceases to be served and is served again while nobody looks at its state: a call that read in
// between hears of it.
func TestConditionThatComesBackIsNotMissed(t *testing.T) {
	w := &watch{form: formOf[*object](kindOf("Widget")), named: map[store.Key]keys{{Name: "web"}: {{Name: "one"}: {}}}, look: make(chan struct{}, 1)}
	s := newReferences(nil, "test")
	assert.Empty(t, s.note(w, attached{}, ""))
	s.saw(w, nil)
	assert.Empty(t, w.look)
	s.saw(w, &fleet.NotServedError{Reason: fleet.NoVersion})
	assert.Len(t, w.look, 1)
	assert.Equal(t, []store.Key{{Name: "one"}}, s.note(w, attached{}, ""))
	assert.Empty(t, s.note(w, attached{}, ""), "once")
}

func TestRunLeavesEverythingAndMayBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Widget")
		w.bundle("one", "Widget/web")
		w.bundle("two", "Gadget/web")
		w.begin()
		assert.Equal(t, "one: []", lastOf(w.take(), "one"))
		w.stop()
		<-time.After(time.Minute)
		assert.False(t, w.isWanted("Widget"))
		w.unbundle("two") // while nothing runs
		w.put("Widget", "web", "1")
		w.begin()
		assert.Equal(t, "one: [a/web:1]", lastOf(w.take(), "one"))
		pairs, watches := w.index()
		assert.Equal(t, []string{"one Widget/web"}, pairs)
		assert.Equal(t, []string{"Widget"}, watches)
	})
}

// An informer that ends by itself is replaced, without a change of anything else.
func TestInformerThatEndsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.define("Widget")
		w.put("Widget", "web", "1")
		wait()
		w.bundle("one", "Widget/web")
		assert.Equal(t, "one: [a/web:1]", w.last())
		s := w.reconciler.current.Load()
		s.mu.Lock()
		one := s.watches[formOf[*object](kindOf("Widget"))]
		was := one.informer
		broken := one.attached
		broken.informer = &ended{followed: was}
		s.mu.Unlock()
		other := &watch{form: one.form, named: one.named, look: make(chan struct{}, 1), ended: make(chan struct{}), attached: broken, again: one.again}
		var following sync.WaitGroup
		following.Go(func() { s.follow(other) })
		<-time.After(2 * renewPause)
		s.mu.Lock()
		assert.NotSame(t, broken.informer, other.informer)
		s.mu.Unlock()
		close(other.ended)
		following.Wait()
	})
}

// Get takes no lock that a handler holds, not even one of the kind that Get reads.
func TestGetMayBeCalledInAHandlerOfTheSameKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Widget")
		w.put("Widget", "web", "1")
		w.bundle("one", "Widget/web")
		contexts, saw := make(chan context.Context), make(chan string)
		w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, _ store.Key, bundle *corev1.ConfigMap) (reconcile.Result, error) {
			contexts <- ctx
			assert.Equal(t, "[a/web:1]", <-saw)
			return reconcile.Result{}, nil
		})
		owner := w.kinds.NewOwner(t.Context(), "test")
		widgets, err := fleet.Want[*object](owner, kindOf("Widget"), fleet.Selection{})
		require.NoError(t, err)
		w.begin()
		widgets.Handle(informer.HandlerFunc[*object](func(context.Context, eventqueue.Event[*object]) error {
			saw <- look(<-contexts, "Widget/web")
			return nil
		}))
		wait()
		go func() { // the initial addition is news of the reference
			for ctx := range contexts {
				saw <- look(ctx, "Widget/web")
			}
		}()
		w.stop()
		close(contexts)
	})
}

func TestRunLeavesWhatACallRefersToAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fleet.WithLag(0))
		w.bundle("one")
		calling := make(chan struct{})
		w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			close(calling)
			<-ctx.Done()
			look(ctx, "Widget/web")
			assert.True(t, w.isWanted("Widget"))
			return reconcile.Result{}, ctx.Err()
		}, reconcile.WithDrainTimeout(0))
		w.begin()
		<-calling
		w.stop()
		wait()
		assert.False(t, w.isWanted("Widget"))
		assert.Nil(t, w.reconciler.current.Load())
	})
}

// One key leaves a kind while another one comes to it: the other one's reference is in the watch whose events count.
func TestKeysThatComeAndGoAtTheSameTimeShareAWatch(t *testing.T) {
	kinds, err := fleet.New(reflectortest.Start(t).Config())
	require.NoError(t, err)
	s := newReferences(kinds, "test")
	s.has = func(store.Key) bool { return true }
	s.enqueue = func(store.Key) {}
	done := make(chan struct{})
	close(done)
	attach := func(*watch) (attached, error) {
		return attached{owner: kinds.NewOwner(context.Background(), "test"), informer: &listing{make(chan struct{})}, done: done}, nil
	}
	ref := reference{form: formOf[*object](kindOf("Widget")), key: store.Key{Name: "web"}}
	var running sync.WaitGroup
	for n := range 8 {
		key := store.Key{Name: fmt.Sprint(n)}
		running.Go(func() {
			for range 200 {
				c := s.begin(key, false)
				w, _, err := c.refer(ref, nil, attach)
				assert.NoError(t, err)
				c.end(nil)
				s.mu.Lock()
				assert.Same(t, w, s.watches[ref.form])
				assert.Contains(t, w.named[ref.key], key)
				s.mu.Unlock()
				s.begin(key, false).end(nil) // refers to nothing
			}
		})
	}
	running.Wait()
	assert.Empty(t, s.watches)
	assert.Empty(t, s.primaries)
	s.follows.Wait()
}

func TestContextsThatAreNotOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, err := Get[*object](t.Context(), kindOf("Widget"), store.Key{Name: "web"})
		require.ErrorIs(t, err, errNoCall)
		w := newWorld(t)
		w.bundle("one")
		kept := make(chan context.Context, 100)
		w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			_, _, err := Get[*object](ctx, kindOf("Widget"), store.Key{Namespace: "a"})
			assert.ErrorIs(t, err, store.ErrBadKey)
			_, err = List[*object](ctx, kindOf(""), "", nil)
			assert.ErrorIs(t, err, fleet.ErrKind)
			found, err := List[*object](ctx, kindOf("Widget"), "", labels.Nothing())
			assert.Empty(t, found)
			assert.Error(t, err)
			kept <- ctx
			return reconcile.Result{}, nil
		})
		w.begin()
		_, err = List[*object](<-kept, kindOf("Widget"), "", nil)
		require.ErrorIs(t, err, errNoCall, "the call is over")
		w.stop()
	})
}

func TestPanicLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin()
		w.bundle("one", "Widget/web")
		w.take()
		w.failIf(func(string, int) bool { panic("on purpose") })
		w.bundle("one")
		w.take()
		pairs, _ := w.index()
		assert.Equal(t, []string{"one Widget/web"}, pairs)
		w.failIf(nil)
		w.bundle("one", "Gadget/web")
		w.take()
		pairs, _ = w.index()
		assert.Equal(t, []string{"one Gadget/web"}, pairs)
	})
}

// observer panics when something subscribes to an informer, as one does that registers a metric twice.
type observer struct{ panics atomic.Bool }

func (*observer) Handling(ctx context.Context, _ informer.Handling) (context.Context, func(error)) {
	return ctx, nil
}

func (o *observer) Queues(string, string) func(eventqueue.TakeInfo) {
	if o.panics.Load() {
		panic("on purpose")
	}
	return nil
}

func TestPanicWhileACallSubscribesFailsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subscribers := &observer{}
		subscribers.panics.Store(true)
		w := newWorld(t, fleet.WithLag(0), fleet.WithInformerOptions(informer.WithObserver(subscribers)))
		var failures atomic.Int64
		w.reconciler = New("bundles", w.bundles, w.kinds, w.reconcile, reconcile.WithErrorHandler(func(_ context.Context, err error) {
			assert.ErrorAs(t, err, new(*eventqueue.PanicError))
			failures.Add(1)
		}))
		w.begin()
		w.bundle("one", "Widget/web")
		assert.Empty(t, w.take())
		assert.NotZero(t, failures.Load())
		assert.False(t, w.isWanted("Widget"), "nobody subscribed")
		subscribers.panics.Store(false)
		w.bundle("one", "Widget/web", "Gadget/web")
		assert.Equal(t, "one: !NotInstalled !NotInstalled", w.last())
	})
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nothing := func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}
		require.ErrorIs(t, New("bundles", w.bundles, nil, nothing).Run(t.Context()), controller.ErrIncomplete)
		require.ErrorIs(t, New("bundles", nil, w.kinds, nothing).Run(t.Context()), controller.ErrIncomplete)
		require.ErrorIs(t, New[*corev1.ConfigMap]("bundles", w.bundles, w.kinds, nil).Run(t.Context()), controller.ErrIncomplete)
		w.begin()
		require.ErrorIs(t, w.reconciler.Run(t.Context()), controller.ErrRunning)
	})
}

// A call that writes what it refers to and then fails must not be repeated at once because of its own write,
// again and again.
func TestOwnWriteOfAFailedCallDoesNotEndItsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Widget")
		w.put("Widget", "web", "0")
		w.bundle("one")
		var calls atomic.Int64
		w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			look(ctx, "Widget/web")
			written := widget("Widget", "a", "web", fmt.Sprint(calls.Add(1)))
			assert.NoError(t, w.server.Update(written))
			assert.NoError(t, w.server.Get(written))
			reconcile.RecordWrite(ctx, written)
			return reconcile.Result{}, errOnPurpose
		})
		w.begin()
		<-time.After(time.Hour)
		assert.Less(t, calls.Load(), int64(40), "the back-off grows to five minutes")
	})
}

// Neither a success nor a permanent error is followed by a call that would end the references.
func TestLastCallForADeletedObjectEndsItsReferences(t *testing.T) {
	for _, result := range []error{nil, eventqueue.Permanent(errOnPurpose)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.bundle("one")
			saw := make(chan string, 100)
			w.reconciler = New("bundles", w.bundles, w.kinds, func(ctx context.Context, _ store.Key, bundle *corev1.ConfigMap) (reconcile.Result, error) {
				if bundle == nil {
					saw <- look(ctx, "Widget/web")
					return reconcile.Result{}, result
				}
				return reconcile.Result{}, nil
			})
			w.begin()
			w.unbundle("one")
			<-saw
			wait()
			pairs, watches := w.index()
			assert.Empty(t, pairs)
			assert.Empty(t, watches)
			assert.Zero(t, w.primaries())
		})
	}
}

// ended is an informer that has failed.
type ended struct{ followed }

func (*ended) State() reflector.State {
	return reflector.State{Phase: reflector.Stopped, Err: errOnPurpose}
}

func (*ended) Changed(seen reflector.State) <-chan struct{} {
	if seen.Err == nil {
		return lifecycle.Closed()
	}
	return nil
}

// The first list may be complete without a change of the state: an announcement of the one is no announcement of
// the other.
func TestFirstListThatChangesNoStateIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		kinds, err := fleet.New(server.Config())
		require.NoError(t, err)
		s := newReferences(kinds, "test")
		due := make(chan store.Key, 10)
		s.enqueue = func(key store.Key) { due <- key }
		done := make(chan struct{})
		close(done)
		listing := &listing{make(chan struct{})}
		w := &watch{
			form: formOf[*object](kindOf("Widget")), named: map[store.Key]keys{{Name: "web"}: {{Name: "one"}: {}}},
			look: make(chan struct{}, 1), ended: make(chan struct{}), condition: unsynced,
			attached: attached{owner: kinds.NewOwner(t.Context(), "test"), informer: listing, done: done},
		}
		var following sync.WaitGroup
		following.Go(func() { s.follow(w) })
		synctest.Wait()
		assert.Empty(t, due)
		close(listing.synced)
		synctest.Wait()
		assert.Len(t, due, 1)
		close(w.ended)
		following.Wait()
	})
}

// listing is an informer whose state does not change.
type listing struct{ synced chan struct{} }

func (*listing) State() reflector.State    { return reflector.State{Phase: reflector.Listing} }
func (l *listing) Synced() <-chan struct{} { return l.synced }
func (*listing) Ready() error              { return &informer.SyncError{} }

func (*listing) Changed(seen reflector.State) <-chan struct{} {
	if seen.Phase != reflector.Listing {
		return lifecycle.Closed()
	}
	return nil
}
