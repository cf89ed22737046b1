package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func TestFailuresAreRetriedWithABackoff(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("down")
	busy := apierrors.NewTooManyRequests("busy", 0)
	for name, tc := range map[string]struct {
		api  *script
		want []string
	}{
		"list":          {new(script).listFails(syscall.ECONNREFUSED).listFails(unavailable).list("1", ""), []string{"list 0 limit=500", "list 0 limit=500", "list 0 limit=500", "watch 1"}},
		"watch":         {new(script).list("1", "").watchFails(syscall.ECONNREFUSED).watchFails(busy).watchFails(unavailable), []string{"list 0 limit=500", "watch 1", "watch 1", "watch 1", "watch 1"}},
		"error event":   {new(script).list("1", "").watchOpen(added(configMap("a", "u", "2")), errorEvent(apierrors.NewInternalError(errors.New("unreadable")))).list("3", ""), []string{"list 0 limit=500", "watch 1", "list 2", "watch 3"}},
		"short watch":   {new(script).list("1", "").watch().watch(), []string{"list 0 limit=500", "watch 1", "watch 1", "watch 1"}},
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
