package reflector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

func TestErrorEventsFromTheWire(t *testing.T) {
	for name, tc := range map[string]struct {
		err  *apierrors.StatusError
		want string
	}{
		"expired":  {apierrors.NewResourceExpired("too old"), "list 0, watch 7, list , watch 9"},
		"busy":     {apierrors.NewTooManyRequests("busy", 1), "list 0, watch 7, watch 8"},
		"internal": {apierrors.NewInternalError(fmt.Errorf("unreadable")), "list 0, watch 7, list 8, watch 9"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{
					lists:   []scriptedAnswer{jsonList("7"), jsonList("9", jsonObject("b", "8", "blue"))},
					watches: []scriptedAnswer{{body: jsonEvent(watch.Added, jsonObject("b", "8", "blue")) + jsonError(tc.err), open: true}},
				}
				var errs []error
				stop := start(t, reflector.New(server.client(t), store.New(store.ObjectKey[*Paint]), reflector.WithoutWatchList(),
					reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
				<-time.After(time.Minute)
				assert.Equal(t, tc.want, server.seen())
				require.Len(t, errs, 1)
				assert.Equal(t, tc.err.ErrStatus.Reason, apierrors.ReasonForError(errs[0]))
				stop()
			})
		})
	}
}

func TestLineWithTwoEventsIsTwoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := jsonEvent(watch.Added, jsonObject("a", "8", "red"))
		two := strings.TrimSuffix(jsonEvent(watch.Added, jsonObject("b", "9", "blue")), "\n") + jsonEvent(watch.Added, jsonObject("c", "10", "green"))
		server := &scripted{lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: one + two, open: true}}}
		s := store.New(store.ObjectKey[*Paint])
		stop := start(t, reflector.New(server.client(t), s, reflector.WithoutWatchList()))
		assert.Equal(t, "a red, b blue, c green", colors(s))
		stop()
	})
}
