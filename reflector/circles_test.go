package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestServersThatGoInCirclesAreNotHammered(t *testing.T) {
	a := configMap("a", "u", "11")
	for name, again := range map[string]func(*script){
		"versions that expire at once":        func(s *script) { s.list("10", "").watchFails(errExpired) },
		"versions that expire after an event": func(s *script) { s.list("10", "").watchOpen(added(a), errorEvent(errExpired)) },
		"pages that always expire":            func(s *script) { s.list("10", "p", a).listFails(errExpired) },
		"a page that is its own next one":     func(s *script) { s.list("10", "p", a) },
		"watches that bring nothing":          func(s *script) { s.list("10", "").watch() },
		"watches that bring the same again":   func(s *script) { s.list("11", "", a).watch(added(a)) },
		"watches that bring one event each": func(s *script) {
			s.list("10", "").watch(added(configMap("a", "u", fmt.Sprint(11+len(s.watches)))))
		},
		"watches that client-go cannot read":    func(s *script) { s.list("10", "").watchOpen(errorEvent(errUndecoded())) },
		"watches that bring but a bookmark":     func(s *script) { s.list("10", "").watch(bookmark("10")) },
		"a version that is ahead of the server": func(s *script) { s.list("10", "").watchFails(errTooLarge()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := new(script)
				for range 1000 {
					again(api)
				}
				reported := 0
				stop := running(t, New(api, newStore(), WithErrorHandler(func(context.Context, error) { reported++ })))
				<-time.After(time.Minute)
				require.NoError(t, stop())
				assert.Less(t, len(api.seen()), 80)
				assert.GreaterOrEqual(t, reported, 3)
			})
		})
	}
}

func errTooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// errUndecoded is what client-go makes of a broken stream.
func errUndecoded() *apierrors.StatusError {
	status := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").AsObject(io.ErrUnexpectedEOF)
	return &apierrors.StatusError{ErrStatus: *status.(*metav1.Status)}
}

func TestVersionThatTheServerRefusesIsListedAnew(t *testing.T) {
	// As after the restoring of a backup: the store is ahead of the server.
	for name, err := range map[string]error{
		"too large": errTooLarge(), "bad request": apierrors.NewBadRequest("invalid resource version"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("old", "u", "1")}, "900"))
				api := new(script).watchFails(err).list("20", "")
				stop := running(t, New(api, s))
				<-time.After(time.Minute)
				require.NoError(t, stop())
				assert.Equal(t, []string{"watch 900", "list newest limit=500", "watch 20"}, api.seen())
				assert.Empty(t, contents(s))
			})
		})
	}
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

func TestStoreThatWasOnlyAddedToIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		require.NoError(t, s.Add(configMap("mine", "u", "5")))
		api := new(script).list("10", "")
		require.NoError(t, runOnce(t, New(api, s)))
		assert.Equal(t, []string{"list 0 limit=500", "watch 10"}, api.seen())
		assert.Empty(t, contents(s))
	})
}

func TestFirstPageGivesTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "p2").list("12", "")
		require.NoError(t, runOnce(t, New(api, newStore())))
		assert.Equal(t, "watch 10", api.seen()[2])
	})
}

func TestBookmarkWithoutAVersionSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("10", "").watchOpen(bookmark(""))
		s := newStore()
		require.NoError(t, runOnce(t, New(api, s)))
		assert.Equal(t, "10", s.ResourceVersion())
	})
}

func TestStateNeedsNoLockOfTheStore(t *testing.T) {
	// Under -race: a store need not be safe for whoever asks for the state.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "").watchOpen(added(configMap("a", "u", "2")), added(configMap("b", "u2", "3")))
		s := &lastVersion{}
		r := New(api, s)
		stop := running(t, r)
		for r.State().ResourceVersion != "3" {
			// Asking while the reflector writes is the point.
		}
		require.NoError(t, stop())
		assert.Equal(t, "3", s.version)
	})
}

// lastVersion is a store that keeps but a version, and has no lock.
type lastVersion struct {
	store.Store[*corev1.ConfigMap]
	version string
}

func (s *lastVersion) Add(o *corev1.ConfigMap) error { s.version = o.ResourceVersion; return nil }

func (s *lastVersion) Replace(_ []*corev1.ConfigMap, version string) error {
	s.version = version
	return nil
}

func (s *lastVersion) ResourceVersion() string { return s.version }

func TestRunWaitsForTheWatchToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowWatch{result: make(chan watch.Event)}
		api := new(script).list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return w, nil })
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, time.Second, time.Since(before))
	})
}

// slowWatch takes a second to end.
type slowWatch struct{ result chan watch.Event }

func (w *slowWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *slowWatch) Stop() { time.AfterFunc(time.Second, func() { close(w.result) }) }

func TestReplayedEventsAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.list("12", "")
		for range 1000 {
			api.watch(added(configMap("a", "u", "11")), added(configMap("b", "v", "12")))
		}
		stop := running(t, New(api, newStore()))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Less(t, len(api.seen()), 60)
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

func TestWatchThatDoesNotEndDoesNotHoldUpRun(t *testing.T) {
	// apimachinery's ProxyWatcher does not close its channel.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return watch.NewProxyWatcher(make(chan watch.Event)), nil })
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, stream.CloseTimeout, time.Since(before))
	})
}

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
