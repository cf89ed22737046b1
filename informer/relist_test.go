package informer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"value": value}}
}

// told writes down events by name, and holds the cache to being no staler.
func told(t *testing.T, i *Informer[*corev1.ConfigMap], d *diary) Handler[*corev1.ConfigMap] {
	return HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
		held, ok := i.Cache().Get(e.Key)
		switch {
		case e.Type != eventqueue.Deletion:
			assert.Same(t, held, e.Object, "%v", e)
		case ok:
			assert.NotEqual(t, held.UID, e.Object.UID, "%v", e)
		}
		d.write("%v %s %v initial=%t final=%t", e.Type, e.Key.Name, e.Origin, e.Initial, e.FinalStateKnown)
		return nil
	})
}

// disrupt makes changes while the server is away, and then forgets its history, so
// that only a list can tell of them. The next event has to end the watch.
func disrupt(t *testing.T, server *reflectortest.Server, change func()) {
	t.Helper()
	server.Inject(reflectortest.Refuse().On("", "configmaps"))
	require.NoError(t, server.Create(configMap("noise", "")))
	synctest.Wait()
	require.NoError(t, server.Delete(configMap("noise", "")))
	change()
	require.NoError(t, server.Compact(server.ResourceVersion()))
	server.ClearFaults()
	<-time.After(time.Minute)
	synctest.Wait()
}

func TestRelistTellsOfWhatChangedAndOfNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"changed", "deleted", "recreated", "same"} {
			require.NoError(t, server.Create(configMap(name, "1")))
		}
		server.Inject(reflectortest.ResetAfterEvents(1).On("watch", "configmaps"))
		i := New(clientOf(t, server).CoreV1().ConfigMaps("default"), WithReflector(reflector.WithoutWatchList()))
		var plain, resyncing diary
		i.Handle(told(t, i, &plain))
		i.Handle(told(t, i, &resyncing), WithResync(time.Hour))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Len(t, plain.read(), 4)
		disrupt(t, server, func() {
			require.NoError(t, server.Update(configMap("changed", "2")))
			require.NoError(t, server.Delete(configMap("deleted", "1")))
			require.NoError(t, server.Delete(configMap("recreated", "1")))
			require.NoError(t, server.Create(configMap("recreated", "1")))
			require.NoError(t, server.Create(configMap("new", "1")))
		})
		want := []string{
			"Deletion deleted List initial=false final=false",
			"Modification changed List initial=false final=false",
			"Addition new List initial=false final=false",
			"Deletion recreated List initial=false final=false",
			"Addition recreated List initial=false final=false",
		}
		for _, d := range []*diary{&plain, &resyncing} {
			heard := slices.DeleteFunc(d.read()[4:], func(line string) bool { return strings.Contains(line, "noise") })
			require.ElementsMatch(t, want, heard)
			assert.Equal(t, want[0], heard[0], "what is missing comes first")
		}
		require.NoError(t, stop())
	})
}

// TestEverySubscriberEndsWithTheServersState changes objects at random while watches
// break and history is lost. Whatever a subscriber is, what it hears of each object is a
// legal sequence, and in the end it knows what the server holds.
func TestEverySubscriberEndsWithTheServersState(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hammer(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// ledger is a subscriber that compares each event with its own state.
type ledger struct {
	keep  func(*corev1.ConfigMap) bool
	known map[store.Key]*corev1.ConfigMap
}

func (l *ledger) hear(t *testing.T, e eventqueue.Event[*corev1.ConfigMap]) {
	known := l.known[e.Key]
	if known == nil && e.Type == eventqueue.Deletion && e.Initial {
		return // of the first list, and gone before anybody was told
	}
	assert.Equal(t, known != nil, e.PriorKnown, "%v", e)
	assert.Same(t, known, e.Prior, "%v", e)
	assert.Equal(t, e.Type == eventqueue.Addition, known == nil, "%v", e)
	if known != nil && e.Type == eventqueue.Modification {
		assert.Equal(t, known.UID, e.Object.UID, "a re-creation is no modification")
	}
	if l.known[e.Key] = e.Object; e.Type == eventqueue.Deletion {
		delete(l.known, e.Key)
	}
}

func hammer(t *testing.T, random *rand.Rand) {
	server := reflectortest.Start(t)
	server.Inject(reflectortest.ResetAfterEvents(10).On("watch", "configmaps"))
	i := New(clientOf(t, server).CoreV1().ConfigMaps("default"), WithReflector(reflector.WithoutWatchList()))
	odd := func(c *corev1.ConfigMap) bool { return len(c.Data["value"])%2 == 1 }
	all := func(*corev1.ConfigMap) bool { return true }
	var ledgers []*ledger
	join := func(keep func(*corev1.ConfigMap) bool, pause time.Duration, opts ...SubscriptionOption) {
		l := &ledger{keep, map[store.Key]*corev1.ConfigMap{}}
		ledgers = append(ledgers, l)
		i.HandleFiltered(keep, HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
			<-time.After(pause)
			l.hear(t, e)
			return nil
		}), opts...)
	}
	join(all, 0, WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
	join(all, 3*time.Second, WithResync(time.Minute), WithQueue(eventqueue.WithPriority(true)))
	join(odd, 500*time.Millisecond)
	stop := start(t, i)
	for n := range 400 {
		change(t, server, random)
		switch random.IntN(20) {
		case 0:
			require.NoError(t, server.Compact(server.ResourceVersion()))
		case 1:
			server.Inject(reflectortest.Refuse().On("", "configmaps").Times(3))
		}
		if n == 200 {
			join(odd, 10*time.Second)
		}
		<-time.After(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	server.ClearFaults()
	<-time.After(5 * time.Minute)
	require.NoError(t, stop())

	lists, resumed := asked(server)
	assert.Greater(t, lists, 2, "or there was no disruption")
	assert.GreaterOrEqual(t, len(resumed), 3, "a back-off lies between watches that break")
	objects, err := reflectortest.List[*corev1.ConfigMap](server, "default")
	require.NoError(t, err)
	require.Equal(t, len(objects), i.Cache().Len())
	for n, l := range ledgers {
		want := map[store.Key]*corev1.ConfigMap{}
		for _, o := range objects {
			key := store.Key{Namespace: o.Namespace, Name: o.Name}
			held, ok := i.Cache().Get(key)
			require.True(t, ok)
			assert.Equal(t, o.ResourceVersion, held.ResourceVersion)
			if l.keep(o) {
				want[key] = held
			}
		}
		assert.Equal(t, want, l.known, "subscriber %d", n)
	}
}

// change creates, changes or deletes one of a few objects.
func change(t *testing.T, server *reflectortest.Server, random *rand.Rand) {
	object := configMap(fmt.Sprint(random.IntN(12)), "xxxxxxxxx"[:random.IntN(9)])
	switch err := server.Create(object); {
	case err == nil:
	case random.IntN(3) == 0:
		require.NoError(t, server.Delete(object))
	default:
		require.NoError(t, server.Update(object))
	}
}

func TestOnlyThoseWhoAskedAreResyncedEachAtItsOwnPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var none, negative, minute, hour, floor diary
		i.Handle(none.funcs())
		i.Handle(negative.funcs(), WithResync(-time.Second))
		i.Handle(minute.funcs(), WithResync(time.Minute))
		i.Handle(hour.funcs(), WithResync(time.Hour))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(150 * time.Second)
		i.Handle(floor.funcs(), WithResync(time.Nanosecond)) // while it runs
		<-time.After(3500 * time.Millisecond)
		require.NoError(t, stop())

		assert.Equal(t, []string{"initial a@1"}, none.read())
		assert.Equal(t, []string{"initial a@1"}, negative.read())
		assert.Equal(t, []string{"initial a@1", "update a@1>1", "update a@1>1"}, minute.read())
		assert.Equal(t, []string{"initial a@1"}, hour.read())
		assert.Equal(t, []string{"initial a@1", "update a@1>1", "update a@1>1", "update a@1>1"}, floor.read())
	})
}

func TestResyncIsMarkedAndNeverBringsBackWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		stop := start(t, i)
		sub := i.Subscribe(WithResync(time.Minute))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		var seen []eventqueue.Event[*corev1.Pod]
		require.NoError(t, i.cache.Delete(pod("b", "u2", 2)))
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, sub.Stats().Events, "a's addition, and b's deletion: a resync adds nothing to what waits")
		for e := range sub.Consume(t.Context()) {
			seen = append(seen, e)
			if e.Type == eventqueue.Modification {
				sub.Close()
			}
		}
		require.Len(t, seen, 3)
		assert.Equal(t, "Modification of a (Resync)", seen[2].String())
		require.NoError(t, stop())
	})
}

func TestResyncEndsWithTheSubscriptionAndWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var closed, idle diary
		sub := i.Handle(closed.funcs(), WithResync(time.Minute))
		i.Handle(idle.funcs(), WithResync(time.Minute))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(time.Hour)
		assert.Empty(t, idle.read(), "the time runs while Run does")
		stop := start(t, i)
		<-time.After(90 * time.Second)
		sub.Close()
		<-time.After(time.Minute)
		require.NoError(t, stop())
		<-time.After(time.Hour)
		assert.Len(t, closed.read(), 2)
		assert.Len(t, idle.read(), 3)

		stop = start(t, i)
		<-time.After(90 * time.Second)
		require.NoError(t, stop())
		assert.Len(t, idle.read(), 4)
	})
}

func TestSlowSubscriberIsNotBuriedByResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		calls := 0
		sub := i.Handle(HandlerFuncs[*corev1.Pod]{
			OnAdd:    func(*corev1.Pod, bool) { calls++; <-time.After(time.Hour - time.Second/4) },
			OnUpdate: func(_, _ *corev1.Pod) { calls++ },
		}, WithResync(time.Second))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(time.Hour - time.Second/2)
		synctest.Wait()
		assert.Equal(t, 1, calls)
		assert.Equal(t, 1, sub.Stats().Events)
		<-time.After(time.Second)
		require.NoError(t, stop())
		assert.Equal(t, 2, calls)
	})
}
