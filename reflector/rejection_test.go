package reflector

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestEventOfAnotherTypeIsReportedAndNotPassed(t *testing.T) {
	for name, tc := range map[string]struct {
		event watch.Event
		says  string
	}{
		"another type": {watch.Event{Type: watch.Added, Object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc", ResourceVersion: "12"}}},
			`reflector *v1.ConfigMap: watch "ns/svc" at resource version "11": watch event carries a *v1.Service, want a *v1.ConfigMap`},
		"nil":          {watch.Event{Type: watch.Modified}, "carries a nil, want"},
		"a typed nil":  {watch.Event{Type: watch.Deleted, Object: (*corev1.ConfigMap)(nil)}, "carries a nil *v1.ConfigMap, want"},
		"nil status":   {watch.Event{Type: watch.Error, Object: (*metav1.Status)(nil)}, "carries a nil *v1.Status, want a *v1.Status"},
		"nil bookmark": {watch.Event{Type: watch.Bookmark, Object: (*corev1.ConfigMap)(nil)}, "carries a nil *v1.ConfigMap, want"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				var errs []error
				api := new(script).list("10", "", configMap("held", "u1", "1")).
					watchOpen(added(configMap("a", "u", "11")), tc.event).
					list("20", "", configMap("held", "u1", "1"), configMap("a", "u", "11"))
				stop := running(t, New(api, s, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
				synctest.Wait()
				require.Len(t, errs, 1)
				var typeError *answer.TypeError
				require.ErrorAs(t, errs[0], &typeError)
				assert.ErrorContains(t, errs[0], tc.says)
				assert.Equal(t, "a@11 held@1", contents(s))
				assert.Equal(t, "11", s.ResourceVersion())
				<-time.After(time.Minute)
				require.NoError(t, stop())
				assert.Equal(t, "a@11 held@1", contents(s))
			})
		})
	}
}

func TestObjectThatTheStoreRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nameless := configMap("", "u9", "12")
		api := new(script).list("10", "", configMap("a", "u1", "1")).
			watchOpen(added(nameless), added(configMap("b", "u2", "13"))).
			list("20", "", configMap("a", "u1", "1"), nameless).
			watchOpen(bookmark("30")).
			list("40", "", configMap("a", "u1", "1"))
		s := newStore()
		var errs []error
		r := New(api, s, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
		stop := running(t, r)
		synctest.Wait()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], store.ErrBadKey)
		assert.ErrorContains(t, errs[0], `at resource version "12"`)
		assert.Equal(t, "a@1 b@13", contents(s), "everything else goes on")
		assert.Equal(t, "10", s.ResourceVersion(), "the version stays before the object")
		assert.Equal(t, Watching, r.State().Phase)
		assert.ErrorIs(t, r.State().Err, store.ErrBadKey, "State says that something is lacking")

		<-time.After(time.Minute)
		assert.Equal(t, []string{"list 0 limit=500", "watch 10", "list 13", "watch 20", "list 30", "watch 40"}, api.seen())
		require.Len(t, errs, 2, "the second list still had it")
		assert.Equal(t, "40", s.ResourceVersion())
		assert.NoError(t, r.State().Err)
		require.NoError(t, stop())
	})
}

func TestObjectThatIsBadForGoodCostsFewLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		for range 1000 {
			api.list("1", "", configMap("", "u", "1"))
		}
		stop := running(t, New(api, newStore()))
		<-time.After(24 * time.Hour)
		require.NoError(t, stop())
		lists := 0
		for _, request := range api.seen() {
			if request[0] == 'l' {
				lists++
			}
		}
		assert.Less(t, lists, 24*20)
		assert.Greater(t, lists, 24)
	})
}

func TestStoreThatFailsIsNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failingAdd{Cache: newStore()}
		api := new(script).list("10", "").
			watchOpen(added(configMap("a", "u", "11")), modified(configMap("b", "v", "12")), bookmark("15")).
			list("20", "", configMap("a", "u", "11"))
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, "10", s.ResourceVersion())
		assert.ErrorContains(t, r.State().Err, "disk full")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, "a@11", contents(s))
	})
}

// failingAdd is a store whose Add fails, and not because of the object.
type failingAdd struct {
	*store.Cache[*corev1.ConfigMap]
}

func (s *failingAdd) Add(*corev1.ConfigMap) error { return errors.New("disk full") }

func TestRejectionStaysInTheStateAcrossWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "", configMap("", "u", "1")).
			watch(added(configMap("a", "u", "11"))).watchOpen()
		r := New(api, newStore())
		stop := running(t, r)
		<-time.After(protocol.MinBackoff - time.Millisecond) // then a list is due
		assert.Equal(t, []string{"list 0 limit=500", "watch 10", "watch 11"}, api.seen())
		assert.ErrorIs(t, r.State().Err, store.ErrBadKey)
		require.NoError(t, stop())
	})
}

var errUndecodable = errors.New("undecodable")

// undecodable is the item of an object that does not fit.
func undecodable(kind watch.EventType, name, uid, version string) stream.Item[*corev1.ConfigMap] {
	change := map[watch.EventType]store.ChangeType{watch.Added: store.Addition, watch.Modified: store.Modification, watch.Deleted: store.Deletion}[kind]
	return stream.Undecodable[*corev1.ConfigMap](change, store.Key{Namespace: "ns", Name: name}, store.Version{UID: types.UID(uid), ResourceVersion: version}, errUndecodable)
}

// undecodableEvent is an event of an object that does not fit, for a script.
func undecodableEvent(kind watch.EventType, name, uid, version string) watch.Event {
	return watch.Event{Object: carried{item: undecodable(kind, name, uid, version)}}
}

// commits counts the commits of a cache that did something.
type commits struct{ count int }

func (*commits) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (c *commits) Commit(*store.Commit[*corev1.ConfigMap]) { c.count++ }

func TestUndecodableObjectWithoutANameHoldsTheVersionUp(t *testing.T) {
	for _, event := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		t.Run(string(event), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u1", "1")}, "10"))
				api := new(script).watchOpen(undecodableEvent(event, "", "u1", "11"), bookmark("12"))
				var errs []error
				r := New(api, s, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
				stop := running(t, r)
				synctest.Wait()
				assert.Equal(t, "a@1", contents(s), "nobody knows that it is this one")
				assert.Equal(t, "10", s.ResourceVersion(), "a list has to say what happened")
				require.Len(t, errs, 1)
				assert.ErrorIs(t, errs[0], errUndecodable)
				assert.ErrorIs(t, r.State().Err, errUndecodable)
				require.NoError(t, stop())
			})
		})
	}
}

func TestUndecodableObjectsOfAWatchListStayAsTheyAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var held []*corev1.ConfigMap
		for i := range 5 {
			held = append(held, configMap(fmt.Sprint("m", i), fmt.Sprint("u", i), "1"))
		}
		require.NoError(t, s.Replace(held, "10"))
		api := (&script{streams: true}).watchFails(errExpired).watchOpen(
			undecodableEvent(watch.Added, "", "u0", "11"), undecodableEvent(watch.Added, "", "u1", "12"),
			undecodableEvent(watch.Deleted, "", "u2", "13"), undecodableEvent(watch.Added, "m3", "u3", "14"), closing("20", allSent))
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, "m0@1 m1@1 m2@1 m3@1", contents(s), "all but what was not listed")
		assert.Equal(t, "10", s.ResourceVersion())
		assert.ErrorContains(t, r.State().Err, "store rejected 4 object(s)")
		require.NoError(t, stop())
	})
}

// plain is a store without batches.
type plain struct{ store.Store[*corev1.ConfigMap] }

func TestListThatAPlainStoreCannotBeGivenIsNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := newStore()
		bad := configMap("bad", "u1", "1")
		same := decorate.Transform[*corev1.ConfigMap](plain{cache}, store.ObjectKey[*corev1.ConfigMap], func(c *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			if c.UID == "u1" {
				return nil, errUndecodable
			}
			return c, nil
		})
		api := new(script).list("10", "", bad, configMap("good", "u2", "2")).list("11", "", configMap("good", "u2", "2"))
		var errs []error
		r := New(api, same, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
		stop := running(t, r)
		synctest.Wait()
		assert.Zero(t, cache.Len())
		assert.False(t, closed(r.Synced()), "the store has nothing")
		assert.Equal(t, BackingOff, r.State().Phase)
		require.Len(t, errs, 1)
		require.ErrorContains(t, errs[0], "nothing was stored")
		var rejected *store.RejectedError
		require.NotErrorAs(t, errs[0], &rejected)
		<-r.Synced()
		assert.Equal(t, "good@2", contents(cache))
		require.NoError(t, stop())
	})
}

// both is a store of the user that writes to two stores and joins their errors.
type both struct {
	store.Store[*corev1.ConfigMap]
	second store.Store[*corev1.ConfigMap]
}

func (b both) Replace(objects []*corev1.ConfigMap, resourceVersion string) error {
	return errors.Join(b.Store.Replace(objects, resourceVersion), b.second.Replace(objects, resourceVersion))
}

func TestStoreThatFailsBesideOneThatRejectsIsNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, queue := newStore(), eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
		queue.Close()
		api := new(script).list("10", "", configMap("", "u1", "1"), configMap("a", "u2", "2"))
		r := New(api, store.Store[*corev1.ConfigMap](both{cache, queue}))
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, "a@2", contents(cache))
		assert.False(t, closed(r.Synced()))
		assert.ErrorIs(t, r.State().Err, eventqueue.ErrClosed)
		require.NoError(t, stop())
	})
}
