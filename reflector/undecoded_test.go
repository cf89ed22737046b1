package reflector

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var errUndecodable = errors.New("undecodable")

// undecodable is an event of an object that does not fit.
func undecodable(kind watch.EventType, name, uid, version string) source.Event[*corev1.ConfigMap] {
	return source.Event[*corev1.ConfigMap]{Type: kind, ResourceVersion: version, Rejection: &store.Rejection{
		Key:     store.Key{Namespace: "ns", Name: name},
		Version: store.Version{UID: types.UID(uid), ResourceVersion: version},
		Err:     errUndecodable,
	}}
}

// undecodableEvent is an event of an object that does not fit, for a script.
func undecodableEvent(kind watch.EventType, name, uid, version string) watch.Event {
	return watch.Event{Object: carried{event: undecodable(kind, name, uid, version)}}
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

func TestStoreThatFailsBesideOneThatRejectsIsNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, queue := newStore(), eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
		queue.Close()
		api := new(script).list("10", "", configMap("", "u1", "1"), configMap("a", "u2", "2"))
		r := New(api, decorate.Tee(cache, store.Store[*corev1.ConfigMap](queue)))
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, "a@2", contents(cache))
		assert.False(t, closed(r.Synced()))
		assert.ErrorIs(t, r.State().Err, eventqueue.ErrClosed)
		require.NoError(t, stop())
	})
}
