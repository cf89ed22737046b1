package reflector

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonGone}}
	for name, tc := range map[string]struct {
		first func(*script) *script
		list  string
	}{
		"as an answer":             {func(s *script) *script { return s.watchFails(errExpired) }, "list 10"},
		"as an answer, Gone":       {func(s *script) *script { return s.watchFails(gone) }, "list 10"},
		"as an event":              {func(s *script) *script { return s.watchOpen(errorEvent(errExpired)) }, "list 10"},
		"as an event, Gone":        {func(s *script) *script { return s.watchOpen(errorEvent(gone)) }, "list 10"},
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

func TestFailuresAreRetriedWithABackoff(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("down")
	busy := apierrors.NewTooManyRequests("busy", 0)
	for name, tc := range map[string]struct {
		api  *script
		want []string
	}{
		"list":          {new(script).listFails(syscall.ECONNREFUSED).listFails(unavailable).list("1", ""), []string{"list 0 limit=500", "list 0 limit=500", "list 0 limit=500", "watch 1"}},
		"watch":         {new(script).list("1", "").watchFails(syscall.ECONNREFUSED).watchFails(busy).watchFails(unavailable), []string{"list 0 limit=500", "watch 1", "watch 1", "watch 1", "watch 1"}},
		"busy event":    {new(script).list("1", "").watchOpen(added(configMap("a", "u", "2")), errorEvent(busy)), []string{"list 0 limit=500", "watch 1", "watch 2"}},
		"error event":   {new(script).list("1", "").watchOpen(added(configMap("a", "u", "2")), errorEvent(apierrors.NewInternalError(errors.New("unreadable")))).list("3", ""), []string{"list 0 limit=500", "watch 1", "list 2", "watch 3"}},
		"short watch":   {new(script).list("1", "").watch().watch(), []string{"list 0 limit=500", "watch 1", "watch 1", "watch 1"}},
		"only bookmark": {new(script).list("1", "").watch(bookmark("2")), []string{"list 0 limit=500", "watch 1", "watch 2"}},
		"unknown event": {new(script).list("1", "").watchOpen(watch.Event{Type: "WHAT", Object: configMap("a", "u", "9")}).list("3", ""), []string{"list 0 limit=500", "watch 1", "list 1", "watch 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := 0
				began := time.Now()
				stop := running(t, New(tc.api, newStore(), WithErrorHandler(func(context.Context, error) { reported++ })))
				<-time.After(time.Minute)
				require.NoError(t, stop())
				assert.Equal(t, tc.want, tc.api.seen())
				assert.Positive(t, reported)
				assert.GreaterOrEqual(t, tc.api.times[len(tc.api.times)-1].Sub(began), time.Duration(reported)*protocol.MinBackoff)
			})
		})
	}
}

func TestRetryAfterIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).listFails(apierrors.NewTooManyRequests("busy", 50)).list("1", "")
		stop := running(t, New(api, newStore()))
		<-time.After(time.Hour)
		require.NoError(t, stop())
		assert.Equal(t, 50*time.Second, api.times[1].Sub(api.times[0]))
	})
}

func TestEndOfTheContextEndsEveryWait(t *testing.T) {
	for name, api := range map[string]*script{
		"a list":    new(script),
		"a watch":   new(script).list("1", ""),
		"a backoff": new(script).listFails(apierrors.NewTooManyRequests("busy", 10000)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := running(t, New(api, newStore()))
				synctest.Wait()
				before := time.Now()
				require.NoError(t, stop())
				assert.Equal(t, before, time.Now())
				assert.Zero(t, api.openWatches())
			})
		})
	}
	t.Run("everything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		api := new(script)
		require.NoError(t, New(api, newStore()).Run(ctx))
		assert.Empty(t, api.seen(), "a context that has ended before: no request at all")
	})
}

func TestListWithoutAVersionLeavesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		require.NoError(t, s.Add(configMap("held", "u", "")))
		var errs []error
		r := New(new(script).list("", "", configMap("a", "u", "1")), s, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
		stop := running(t, r)
		synctest.Wait()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], protocol.NoResourceVersion)
		assert.ErrorContains(t, errs[0], "reflector *v1.ConfigMap: list: list has no resource version")
		assert.Equal(t, "held@", contents(s))
		state := r.State()
		assert.Equal(t, BackingOff, state.Phase)
		assert.ErrorIs(t, state.Err, protocol.NoResourceVersion)
		assert.Equal(t, 1, state.Attempt)
		assert.True(t, state.NextRetry.After(time.Now()))
		require.NoError(t, stop())
	})
}

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

func TestStoreThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("disk full")
		s := &brokenStore{Store: newStore()}
		s.err.Store(&broken)
		api := new(script)
		for range 100 {
			api.list("1", "")
		}
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.ErrorIs(t, r.State().Err, broken)
		assert.False(t, closed(r.Synced()))
		<-time.After(10 * time.Second)
		s.err.Store(nil)
		<-time.After(time.Minute)
		assert.True(t, closed(r.Synced()))
		require.NoError(t, stop())
		for _, request := range api.seen()[:len(api.seen())-1] {
			assert.Equal(t, "list 0 limit=500", request, "no watch before a list is stored")
		}
	})
}

type brokenStore struct {
	store.Store[*corev1.ConfigMap]
	err atomic.Pointer[error]
}

func (s *brokenStore) Replace(objects []*corev1.ConfigMap, resourceVersion string) error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return s.Store.Replace(objects, resourceVersion)
}

func TestRetryCanMakeAFailureFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
		api := new(script).listFails(syscall.ECONNREFUSED).listFails(forbidden)
		reported := 0
		r := New(api, newStore(), WithRetry(func(err error) bool { return !apierrors.IsForbidden(err) }),
			WithErrorHandler(func(context.Context, error) { reported++ }))
		err := r.Run(t.Context())
		assert.Equal(t, 1, reported, "an error is reported or returned, never both")
		assert.ErrorIs(t, err, forbidden)
		var failure *Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "list", failure.Op)
		assert.Equal(t, Stopped, r.State().Phase)
		assert.ErrorIs(t, r.State().Err, forbidden, "State says why")
	})
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

func TestObjectsWithoutVersionsDoNotMoveThePlace(t *testing.T) {
	// client-go's fake clientset leaves UID and resource version empty.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("5", "", configMap("a", "", "")).
			watch(added(configMap("b", "", "")), modified(configMap("a", "", "")))
		s := newStore()
		stop := running(t, New(api, s))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, []string{"list 0 limit=500", "watch 5", "watch 5"}, api.seen())
		assert.Equal(t, "a@ b@", contents(s))
		assert.Equal(t, "5", s.ResourceVersion())
	})
}

func TestReflectorsThatCannotWorkSaySo(t *testing.T) {
	var noClient *script
	var noStore *store.Cache[*corev1.ConfigMap]
	assert.ErrorIs(t, New(noClient, newStore()).Run(t.Context()), ErrNoClient)
	assert.ErrorIs(t, New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, newStore()).Run(t.Context()), ErrNoClient)
	assert.ErrorIs(t, New(new(script), noStore).Run(t.Context()), ErrNoStore)
	assert.ErrorIs(t, New(new(script), nil).Run(t.Context()), ErrNoStore)
	assert.ErrorIs(t, New(new(script), newStore(), WithLabelSelector(labels.Nothing())).Run(t.Context()), ErrNothingSelected)
	assert.ErrorIs(t, New(new(script), newStore(), WithFieldSelector(fields.Nothing())).Run(t.Context()), ErrNothingSelected)
	assert.Equal(t, Stopped, New(new(script), nil).State().Phase)
	var listType *ListTypeError
	assert.ErrorAs(t, New[*corev1.ConfigMap, *corev1.SecretList](oddClient{}, newStore()).Run(t.Context()), &listType)
	assert.Equal(t, "*v1.SecretList is no list of *v1.ConfigMap: want a pointer to a struct with list metadata and a field Items", listType.Error())
}

type oddClient struct{}

func (oddClient) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, nil
}
func (oddClient) List(context.Context, metav1.ListOptions) (*corev1.SecretList, error) {
	return nil, nil
}
func (oddClient) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, nil }

func TestClientThatReturnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.lists = append(api.lists, func() (*corev1.ConfigMapList, error) { return nil, nil })
		api.list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return nil, nil })
		var errs []error
		stop := running(t, New(api, newStore(), WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		require.Len(t, errs, 2)
		assert.ErrorIs(t, errs[0], source.ErrNoList)
		assert.ErrorIs(t, errs[1], source.ErrNoWatch)
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestListThatFailedIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "").
			watchOpen(errorEvent(apierrors.NewInternalError(errors.New("unreadable")))).
			listFails(errors.New("no")).list("2", "")
		stop := running(t, New(api, newStore()))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, []string{"list 0 limit=500", "watch 1", "list 1", "list 1", "watch 2"}, api.seen(), "no watch from a version that is of no use")
	})
}

func TestHealthStartsTheBackoffAnew(t *testing.T) {
	for name, api := range map[string]*script{
		"after a list":  new(script).listFails(errors.New("1")).listFails(errors.New("2")).list("1", "").watchFails(errors.New("3")),
		"after a watch": new(script).list("1", "").watchFails(errors.New("1")).watchFails(errors.New("2")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &slowWatch{result: make(chan watch.Event)}
				api.watches = append(api.watches, func() (watch.Interface, error) {
					time.AfterFunc(protocol.HealthAfter, func() { w.result <- errorEvent(apierrors.NewTooManyRequests("busy", 0)) })
					return w, nil
				})
				r := New(api, newStore())
				stop := running(t, r)
				<-time.After(protocol.HealthAfter) // the failures before made the watch begin later
				for r.State().Phase != BackingOff {
					<-r.Changed(r.State())
				}
				assert.Equal(t, 1, r.State().Attempt)
				require.NoError(t, stop())
			})
		})
	}
}

func TestAcceptedResumeIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		require.NoError(t, s.Replace(nil, "5"))
		r := New(new(script), s)
		require.NoError(t, runOnce(t, r))
		assert.True(t, closed(r.Synced()))
	})
}

func TestListIsSyncedBeforeTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(new(script).list("5", "").watchFails(errors.New("no")), newStore())
		require.NoError(t, runOnce(t, r))
		assert.True(t, closed(r.Synced()))
	})
}

func TestSyncedIsLatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).listFails(errors.New("no")).list("1", "")
		r := New(api, newStore())
		stop := running(t, r)
		synctest.Wait()
		assert.False(t, closed(r.Synced()))
		<-time.After(time.Minute)
		assert.True(t, closed(r.Synced()))
		require.NoError(t, stop())
		assert.True(t, closed(r.Synced()))
	})
}

// resumable is a store that counts the calls of Resumed.
type resumable struct {
	store.Store[*corev1.ConfigMap]
	resumed atomic.Int32
}

func (s *resumable) Resumed() { s.resumed.Add(1) }

func TestStoreIsToldThatAWatchWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := store.New(store.ObjectKey[*corev1.ConfigMap])
		require.NoError(t, inner.Replace(nil, "5"))
		s := &resumable{Store: inner}
		api := new(script).watchFails(errors.New("no"))
		r := New(api, store.Store[*corev1.ConfigMap](s))
		assert.Zero(t, s.resumed.Load())
		stop := running(t, r)
		synctest.Wait()
		assert.Zero(t, s.resumed.Load(), "the server refused it")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.EqualValues(t, 1, s.resumed.Load())
		assert.Equal(t, "5", s.ResourceVersion())
	})
}

func TestStateTellsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		r := New(api, newStore())
		assert.Equal(t, Stopped, r.State().Phase)
		seen := r.State()
		changed := r.Changed(seen)
		assert.False(t, closed(changed))

		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, Listing, r.State().Phase)
		assert.True(t, closed(changed))
		assert.True(t, closed(r.Changed(seen)), "also if it is asked late")
		assert.False(t, closed(r.Changed(r.State())))
		assert.Equal(t, time.Now(), r.State().Since)
		require.NoError(t, stop())

		api.list("7", "").watchOpen()
		stop = running(t, r)
		synctest.Wait()
		state := r.State()
		assert.Equal(t, Watching, state.Phase)
		assert.Equal(t, "7", state.ResourceVersion)
		assert.Equal(t, time.Now(), state.LastContact)
		assert.NoError(t, state.Err)
		require.NoError(t, stop())
		assert.Equal(t, Stopped, r.State().Phase)
	})
}

func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		r := New(new(script).listFails(errors.New("no")), newStore(), WithName("maps"), WithLogger(zap.New(core)))
		require.NoError(t, runOnce(t, r))
		require.Equal(t, 1, logs.Len())
		assert.Equal(t, "maps", logs.All()[0].ContextMap()["reflector"])
		assert.Equal(t, `reflector maps: list at resource version "0": no`, logs.All()[0].ContextMap()["error"])
	})
}
