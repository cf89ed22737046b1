package reflector_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// ledger notes what a reflector tells it. Run has ended when it is read.
type ledger struct {
	lists   []reflector.ListDone
	watches []reflector.WatchDone
}

func (l *ledger) Listed(list reflector.ListDone)    { l.lists = append(l.lists, list) }
func (l *ledger) Watched(watch reflector.WatchDone) { l.watches = append(l.watches, watch) }

// observed runs a reflector, lets things happen, and returns its observations.
func observed(t *testing.T, server *reflectortest.Server, happens func(), opts ...reflector.Option) *ledger {
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, server.Create(paint(name, "red")))
	}
	resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "default")
	require.NoError(t, err)
	l := &ledger{}
	r := reflector.New(resource, store.New(store.ObjectKey[*corev1.ConfigMap]), append(opts, reflector.WithName("maps"), reflector.WithObserver(l))...)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, r.Run(ctx)) })
	happens()
	stop()
	running.Wait()
	return l
}

func TestObserverIsToldOfListsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		began := time.Now()
		l := observed(t, server, func() {
			<-time.After(time.Second)
			require.NoError(t, server.Create(paint("d", "red")))
			<-time.After(time.Second)
			server.Inject(reflectortest.Answer(503).On("watch", "").Times(1))
			require.NoError(t, server.Restore(server.ResourceVersion()))
			<-time.After(time.Minute)
		}, reflector.WithoutWatchList(), reflector.WithPageSize(2))
		require.Len(t, l.lists, 1)
		assert.Equal(t, reflector.ListDone{Reflector: "maps", Began: began, Objects: 3}, l.lists[0])
		require.Len(t, l.watches, 2)
		assert.Equal(t, 2*time.Second, l.watches[0].Lasted)
		assert.Equal(t, 1, l.watches[0].Events)
		assert.Error(t, l.watches[0].Err, "it was cut off")
		assert.NoError(t, l.watches[1].Err, "Run ended")
		assert.Greater(t, l.watches[1].Lasted, 50*time.Second)
	})
}

func TestObserverIsToldOfWatchLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.ResetAfterEvents(1).On("watch", "").Times(1))
		l := observed(t, server, func() { <-time.After(20 * time.Second) })
		require.Len(t, l.lists, 2)
		assert.True(t, l.lists[0].Streamed)
		assert.Error(t, l.lists[0].Err)
		assert.Zero(t, l.lists[0].Objects)
		assert.True(t, l.lists[1].Streamed)
		assert.NoError(t, l.lists[1].Err)
		assert.Equal(t, 3, l.lists[1].Objects)
		require.Len(t, l.watches, 2)
		assert.Error(t, l.watches[0].Err)
		assert.Equal(t, 4, l.watches[1].Events, "with the bookmark")
	})
}

func TestObserverIsToldOfWhatStalls(t *testing.T) {
	for name, c := range map[string]struct {
		fault    reflectortest.Fault
		streamed bool
		list     error // of the first
		watches  int   // the end of the last one is Run's
		watch    error // of the first
	}{
		"a watch":                   {reflectortest.StallAfterEvents(1, nil).On("watch", ""), false, nil, 2, protocol.SilentWatch},
		"a watch after a stream":    {reflectortest.StallAfterEvents(4, nil).On("watch", ""), true, nil, 2, protocol.SilentWatch},
		"a stream":                  {reflectortest.StallAfterEvents(1, nil).On("watch", ""), true, protocol.NoInitialEventsEnd, 2, protocol.NoInitialEventsEnd},
		"the beginning of a stream": {reflectortest.Stall(nil).On("watch", ""), true, protocol.NoAnswer, 1, nil},
		"a list":                    {reflectortest.Stall(nil).On("list", ""), false, protocol.NoAnswer, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				server.Inject(c.fault.Times(1))
				var opts []reflector.Option
				if !c.streamed {
					opts = append(opts, reflector.WithoutWatchList())
				}
				l := observed(t, server, func() { <-time.After(14 * time.Minute) }, opts...)
				require.NotEmpty(t, l.lists)
				require.ErrorIs(t, l.lists[0].Err, c.list)
				if c.list != nil {
					require.Len(t, l.lists, 2)
					assert.NoError(t, l.lists[1].Err)
				}
				require.GreaterOrEqual(t, len(l.watches), c.watches)
				assert.ErrorIs(t, l.watches[0].Err, c.watch)
			})
		})
	}
}

// deaf does not answer watches; its error is that of HTTP/2.
type deaf struct{ typedcorev1.ConfigMapInterface }

func (deaf) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestObserverIsToldOfAWatchListThatIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		l := &ledger{}
		r := reflector.New(deaf{clientset.CoreV1().ConfigMaps("default")}, store.New(store.ObjectKey[*corev1.ConfigMap]), reflector.WithObserver(l))
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		require.NoError(t, r.Run(ctx))
		require.Len(t, l.lists, 2, "a list follows")
		assert.ErrorIs(t, l.lists[0].Err, protocol.NoAnswer)
		assert.NoError(t, l.lists[1].Err)
		assert.Empty(t, l.watches)
	})
}

// nowhere lists without saying of which version.
type nowhere struct{ typedcorev1.ConfigMapInterface }

func (nowhere) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return &corev1.ConfigMapList{}, nil
}

func (nowhere) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, apierrors.NewResourceExpired("expired")
}

func TestObserverIsToldOfListsThatAreOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		cache := store.New(store.ObjectKey[*corev1.ConfigMap])
		require.NoError(t, cache.Replace(nil, "7"))
		r := reflector.New(nowhere{}, cache, reflector.WithoutWatchList(), reflector.WithObserver(l))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.NoError(t, r.Run(ctx))
		require.NotEmpty(t, l.lists)
		assert.ErrorIs(t, l.lists[0].Err, protocol.NoResourceVersion)
	})
}

func TestObserverIsToldOfEventsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		l := observed(t, server, func() {
			<-time.After(90 * time.Second)
			server.Inject(reflectortest.AnswerStatus(apierrors.NewResourceExpired("forgotten").Status()).On("watch", "").Times(1))
			require.NoError(t, server.Restore(server.ResourceVersion()))
			<-time.After(30 * time.Second)
		})
		require.Len(t, l.lists, 2)
		assert.True(t, l.lists[1].Streamed)
		assert.Equal(t, 3, l.lists[1].Objects)
		require.Len(t, l.watches, 2)
		assert.Equal(t, 4, l.watches[1].Events, "with the bookmark")
	})
}

func TestObserverIsToldOfListsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(403))
		l := observed(t, server, func() { <-time.After(3 * time.Second) })
		require.NotEmpty(t, l.lists)
		for _, list := range l.lists {
			assert.True(t, apierrors.IsForbidden(list.Err), "%v", list.Err)
		}
		assert.Empty(t, l.watches)
	})
}

func TestObserverIsNotToldOfWhatRunsEndBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Stall(nil))
		l := observed(t, server, synctest.Wait)
		assert.Empty(t, l.lists)
		assert.Empty(t, l.watches)
		l = observed(t, reflectortest.Start(t), synctest.Wait, reflector.WithObserver(nil))
		assert.Len(t, l.lists, 1)
	})
}

func TestSeveralObserversAreAllTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &ledger{}, &ledger{}
		last := observed(t, reflectortest.Start(t), synctest.Wait, reflector.WithObserver(first), reflector.WithObserver(second))
		for _, l := range []*ledger{first, second, last} {
			assert.Len(t, l.lists, 1)
			assert.Len(t, l.watches, 1)
		}
	})
}
