package reflector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
				var typeError *TypeError
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
