package reflector

import (
	"context"
	"errors"
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

// errUndecoded is what client-go makes of a broken stream.
func errUndecoded() *apierrors.StatusError {
	status := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").AsObject(io.ErrUnexpectedEOF)
	return &apierrors.StatusError{ErrStatus: *status.(*metav1.Status)}
}
