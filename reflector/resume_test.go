package reflector

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

func TestListsInPagesThenWatchesFromTheListsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).
			list("10", "p2", configMap("a", "u1", "1")).
			list("10", "p3", configMap("b", "u2", "2")).
			list("10", "", configMap("c", "u3", "3")).
			watchOpen(added(configMap("d", "u4", "11")), modified(configMap("a", "u1", "12")), deleted(configMap("b", "u2", "13")), bookmark("20"))
		s := newStore()
		r := New(api, s, WithPageSize(1))
		stop := running(t, r)
		synctest.Wait()

		assert.Equal(t, []string{"list 0 limit=1", "list limit=1 continue=p2", "list limit=1 continue=p3", "watch 10"}, api.seen())
		assert.Equal(t, "a@12 c@3 d@11", contents(s))
		assert.Equal(t, "20", s.ResourceVersion())
		assert.NoError(t, stop(), "Run returns nil when ctx ended")
		assert.Zero(t, api.openWatches())
	})
}

// TestWatchesThatManyChangesOverrunAreResumedAtOnce covers a server that ends watches because the client is slow, which it is most when most happens.
func TestWatchesThatManyChangesOverrunAreResumedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "", configMap("a", "u1", "1"))
		version := 10
		for range 4 {
			var events []watch.Event
			for range 100 {
				version++
				events = append(events, modified(configMap("a", "u1", strconv.Itoa(version))))
			}
			api.watch(events...)
		}
		api.watchOpen()
		r := New(api, newStore())
		stop := running(t, r)
		synctest.Wait() // no time passes
		assert.Equal(t, "410", r.State().ResourceVersion, "%s", api.seen())
		assert.Equal(t, Watching, r.State().Phase)
		assert.NoError(t, r.State().Err)
		require.NoError(t, stop())
	})
}

func TestPageSize(t *testing.T) {
	for want, opts := range map[string][]Option{
		"list 0 limit=500": nil, "list 0": {WithPageSize(0)}, "list 0 limit=7": {WithPageSize(-1), WithPageSize(7)},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := new(script).list("1", "")
			stop := running(t, New(api, newStore(), opts...))
			synctest.Wait()
			assert.Equal(t, want, api.seen()[0])
			require.NoError(t, stop())
		})
	}
}

func TestSelectorsGoIntoEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "p2").list("1", "")
		stop := running(t, New(api, newStore(), WithLabelSelector(nil), WithFieldSelector(nil),
			WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "x"})),
			WithFieldSelector(fields.OneTermEqualSelector("metadata.name", "a"))))
		synctest.Wait()
		assert.Equal(t, []string{
			`list 0 limit=500 labels=app=x fields=metadata.name=a`,
			`list limit=500 continue=p2 labels=app=x fields=metadata.name=a`,
			`watch 1 labels=app=x fields=metadata.name=a`,
		}, api.seen())
		require.NoError(t, stop())
	})
}

func TestPagesThatExpireAreListedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).
			list("10", "p2", configMap("old", "u0", "1")).
			listFails(errExpired).
			list("15", "", configMap("a", "u1", "11"))
		s := newStore()
		stop := running(t, New(api, s))
		synctest.Wait()
		assert.Equal(t, []string{"list 0 limit=500", "list limit=500 continue=p2", "list 0", "watch 15"}, api.seen())
		assert.Equal(t, "a@11", contents(s), "nothing of the expired pages is left")
		require.NoError(t, stop())
	})
}

func TestWatchThatEndsIsResumedWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "").
			watchWhole(added(configMap("a", "u", "11"))).
			watchWhole(bookmark("30"), modified(configMap("a", "u", "31"))).
			watchWhole(deleted(configMap("a", "u", "40")))
		s := newStore()
		began := time.Now()
		stop := running(t, New(api, s))
		<-time.After(3 * maxWatch)
		synctest.Wait()
		assert.Equal(t, []string{"list 0 limit=500", "watch 10", "watch 11", "watch 31", "watch 40"}, api.seen())
		assert.Equal(t, began.Add(3*maxWatch), api.times[4], "without a pause")
		require.NoError(t, stop())
	})
}

func TestExpiredVersionIsListedAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		first func(*script) *script
		list  string
	}{
		"as an answer":             {func(s *script) *script { return s.watchFails(errExpired) }, "list 10"},
		"as an event":              {func(s *script) *script { return s.watchOpen(errorEvent(errExpired)) }, "list 10"},
		"as an event after others": {func(s *script) *script { return s.watchOpen(added(configMap("b", "u", "11")), errorEvent(errExpired)) }, "list 11"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The first version comes from the store: it may be old.
				s := newStore()
				require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u1", "1"), configMap("x", "u2", "1")}, "10"))
				api := tc.first(new(script)).list("20", "", configMap("a", "u1", "15"))
				began := time.Now()
				stop := running(t, New(api, s))
				synctest.Wait()
				assert.Equal(t, []string{"watch 10", tc.list, "watch 20"}, api.seen())
				assert.Equal(t, "a@15", contents(s))
				assert.Equal(t, began, time.Now(), "without a pause")
				require.NoError(t, stop())
			})
		})
	}
}

func TestRunAgainResumesFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "", configMap("a", "u", "1")).watchOpen(modified(configMap("a", "u", "12")))
		s := newStore()
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.ErrorIs(t, r.Run(t.Context()), ErrRunning)
		require.NoError(t, stop())
		require.NoError(t, runOnce(t, r))
		require.NoError(t, runOnce(t, New(api, s)), "another reflector over the same store resumes as well")
		assert.Equal(t, []string{"list 0 limit=500", "watch 10", "watch 12", "watch 12"}, api.seen())
	})
}

// runOnce runs a reflector until it waits for something, and stops it.
func runOnce(t *testing.T, r *KubernetesResourceReflector[*corev1.ConfigMap]) error {
	stop := running(t, r)
	synctest.Wait()
	return stop()
}

func TestRunAgainAfterARejectionDoesNotGoBack(t *testing.T) {
	// Resuming from the store's version would play the events after it into
	// objects that are newer.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "").
			watchOpen(added(configMap("", "u9", "11")), added(configMap("b", "u2", "12")), deleted(configMap("b", "u2", "13")))
		s := newStore()
		r := New(api, s)
		require.NoError(t, runOnce(t, r))
		api.list("20", "")
		require.NoError(t, runOnce(t, r)) // before a new list is due
		<-time.After(time.Minute)
		require.NoError(t, runOnce(t, r))
		assert.Equal(t, []string{"list 0 limit=500", "watch 10", "watch 13", "list 13", "watch 20"}, api.seen())
	})
}

func TestRunThatEndsWhileTheStoreTakesAListDoesNotForgetIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &stoppingStore{Cache: newStore(), stop: cancel}
		api := new(script).list("10", "")
		r := New(api, s)
		require.NoError(t, r.Run(ctx))
		assert.True(t, closed(r.Synced()))
		require.NoError(t, runOnce(t, r))
		assert.Equal(t, []string{"list 0 limit=500", "watch 10"}, api.seen())
	})
}

// stoppingStore stops the reflector that replaces it.
type stoppingStore struct {
	*store.Cache[*corev1.ConfigMap]
	stop func()
}

func (s *stoppingStore) Replace(objects []*corev1.ConfigMap, version string) error {
	s.stop()
	return s.Cache.Replace(objects, version)
}

// deletesWhileStreaming sends a watch-list in which the newest object is deleted before the closing
// bookmark, and breaks the watch after it.
type deletesWhileStreaming struct{}

func (deletesWhileStreaming) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, errors.New("no")
}

func (deletesWhileStreaming) List(_ context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	if o.FieldSelector == "metadata.name=y,metadata.namespace=ns" {
		return listOf("12", "", configMap("y", "u2", "5")), nil
	}
	return listOf("12", ""), nil
}

func (deletesWhileStreaming) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithChanSize(10, false)
	if o.SendInitialEvents != nil {
		w.Add(configMap("y", "u2", "5"))
		w.Add(configMap("x", "u1", "10"))
		w.Delete(configMap("x", "u1", "12"))
		closing := configMap("", "", "12")
		closing.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		w.Action(watch.Bookmark, closing)
		time.AfterFunc(20*time.Second, w.Stop)
	}
	return w, nil
}

func TestDeletionWithinAWatchListIsNoRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var told []error
		r := New(Client[*corev1.ConfigMap, *corev1.ConfigMapList](deletesWhileStreaming{}), newStore(), WithErrorHandler(func(_ context.Context, err error) { told = append(told, err) }))
		require.NoError(t, r.Run(ctx))
		assert.NotErrorIs(t, errors.Join(told...), protocol.ServerBehind)
	})
}

// The probe finds the object that changed last, although it cannot be decoded.
func TestProbeOfAnUndecodableObjectFindsIt(t *testing.T) {
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, nil)}
	r.protocol, _ = r.protocol.Step(protocol.Input{Kind: protocol.Started, Version: "5"})
	r.latest.set(store.Key{Namespace: "ns", Name: "x"}, store.Version{UID: "u", ResourceVersion: "5"}, false)
	assert.True(t, r.contradicted(stream.Page{Version: "5"}, nil, false))
	assert.False(t, r.contradicted(stream.Page{Version: "5"}, nil, true))
	assert.False(t, r.contradicted(stream.Page{Version: "5", Continue: "more"}, nil, false))
	assert.False(t, r.contradicted(stream.Page{Version: "6"}, nil, false))
}

func TestInitialListComesBeforeAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("12", "", configMap("a", "u1", "5"))
		s := newStore()
		require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u1", "5"), configMap("b", "u2", "7")}, "10"))
		r := New(api, s, WithInitialList())
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, []string{"list 10", "watch 12"}, api.seen(), "a list not older than the store")
		assert.Equal(t, "a@5", contents(s))
		require.NoError(t, stop())
	})
}
