package network

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/informer"
)

// faults are those of a network that show within seconds.
var faults = map[string]struct {
	fault Fault
	// breaks says that the watch ends: Ready must fail until the line is mended.
	breaks bool
	// request is what becomes of another request meanwhile: nil, or what its error is.
	request error
}{
	"closed":    {Fault{End: Closed}, true, errFailed},
	"reset":     {Fault{End: Reset}, true, errFailed},
	"handshake": {Fault{End: Closed, After: 100}, true, errFailed},
	"truncated": {Fault{End: Reset, After: 20_000}, true, errFailed}, // in the middle of an object
	"stalled":   {Fault{Stall: true}, false, context.DeadlineExceeded},
	"delayed":   {Fault{Delay: 50 * time.Millisecond}, false, nil},
}

var errFailed = errors.New("any error but a time-out")

// limits are how many requests an informer may need from a fault that breaks its watch until it is ready again, and how many of them may be lists. The
// back-off bounds those that fail. A generated client repeats each that fails ten times by itself, a second apart. It also reports a broken connection
// as a broken object at times, which costs a list. A fault that does not break the watch costs no request.
var limits = map[string]struct{ requests, lists int }{
	"resource":  {16, 0},
	"clientset": {36, 2},
}

// TestInformerSurvivesFaultyNetwork lets a fault come over a working watch, changes objects meanwhile, and mends the line.
func TestInformerSurvivesFaultyNetwork(t *testing.T) {
	for client := range clients {
		for name, c := range faults {
			t.Run(client+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time is back-off
				w := newWorld(t, client)
				w.create("same", "changed", "deleted", "again")
				w.run()
				w.eventually("ready", func(context.Context) bool { return w.informer.Ready() == nil })
				all, lists := w.requests.counts()

				w.line.Set(c.fault)
				w.change()
				w.requireRequest(c.request)
				if c.breaks {
					var notReady error // a watch that opens before it breaks makes the informer ready again
					w.eventually("not ready", func(context.Context) bool { notReady = w.informer.Ready(); return notReady != nil })
					var stale *informer.StaleError
					require.ErrorAs(t, notReady, &stale)
				}
				if c.request == nil {
					w.requireEqual() // the fault is no more than slow
				}

				w.line.Mend()
				w.requireEqual()
				w.eventually("ready", func(context.Context) bool { return w.informer.Ready() == nil })
				after, listed := w.requests.counts()
				t.Logf("requests: %d, lists: %d", after-all, listed-lists)
				if c.breaks {
					assert.LessOrEqual(t, after-all, limits[client].requests, "requests")
					assert.LessOrEqual(t, listed-lists, limits[client].lists, "lists")
				} else {
					assert.Zero(t, after-all, "requests")
				}
				w.requireRequest(nil)
			})
		}
	}
}

// TestInformerBehindFaultyNetworkIsNotReady begins with the fault.
func TestInformerBehindFaultyNetworkIsNotReady(t *testing.T) {
	for client := range clients {
		for name, c := range faults {
			if c.request == nil {
				continue
			}
			t.Run(client+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time is back-off
				w := newWorld(t, client)
				w.create("same", "changed", "deleted", "again")
				w.line.Set(c.fault)
				w.run()
				w.requireRequest(c.request)
				var unsynced *informer.SyncError
				require.ErrorAs(t, w.informer.Ready(), &unsynced)
				assert.Zero(t, w.informer.Cache().Len())

				w.line.Mend()
				w.eventually("ready", func(context.Context) bool { return w.informer.Ready() == nil })
				w.change()
				w.requireEqual()
			})
		}
	}
}

// requireRequest makes a request over the line, which ends well, or with an error before its time, or at its time.
func (w *world) requireRequest(want error) {
	w.Helper()
	limit := patience
	if want != nil && errors.Is(want, context.DeadlineExceeded) {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	require.NoError(w, err)
	response, err := w.through.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	switch {
	case want == nil:
		require.NoError(w, err)
	case errors.Is(want, errFailed):
		require.Error(w, err)
		require.NotErrorIs(w, err, context.DeadlineExceeded)
	default:
		require.ErrorIs(w, err, want)
	}
}
