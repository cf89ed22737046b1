package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestFailureWaitsAsLongAsTheServerAsked(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("no")
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 60}
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("changed"))
	for name, tc := range map[string]struct {
		err   error
		least time.Duration
		most  time.Duration
	}{
		"429":                  {apierrors.NewTooManyRequests("no", 60), time.Minute, 66 * time.Second},
		"429, wrapped":         {fmt.Errorf("mine: %w", apierrors.NewTooManyRequests("no", 60)), time.Minute, 66 * time.Second},
		"429, joined":          {errors.Join(errors.New("mine"), apierrors.NewTooManyRequests("no", 60)), time.Minute, 66 * time.Second},
		"a conflict, then 429": {errors.Join(conflict, apierrors.NewTooManyRequests("no", 60)), time.Minute, 66 * time.Second},
		"the longest of two":   {fmt.Errorf("%w, %w", apierrors.NewTooManyRequests("no", 1), fmt.Errorf("mine: %w", errors.Join(conflict, apierrors.NewTooManyRequests("no", 60)))), time.Minute, 66 * time.Second},
		"503":                  {unavailable, time.Minute, 66 * time.Second},
		"server timeout":       {apierrors.NewServerTimeout(schema.GroupResource{}, "get", 60), time.Minute, 66 * time.Second},
		"for decades":          {apierrors.NewTooManyRequests("no", 1_000_000_000), 10 * time.Minute, 10 * time.Minute},
		"less than the pause":  {apierrors.NewTooManyRequests("no", 1), 4 * time.Second, 8 * time.Second},
		"429, but no Retry":    {apierrors.NewTooManyRequests("no", 0), 4 * time.Second, 8 * time.Second},
		"a negative one":       {apierrors.NewTooManyRequests("no", -60), 4 * time.Second, 8 * time.Second},
		"a time-out, but none": {apierrors.NewServerTimeout(schema.GroupResource{}, "get", 0), 4 * time.Second, 8 * time.Second},
		"another error":        {errors.New("no"), 4 * time.Second, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, reported := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					c := newThings(WithBackoff(8*time.Second, time.Minute))
					require.NoError(t, c.Add(at("a", "u", 1)))
					var calls []time.Time
					var report func(context.Context, *HandlerError)
					var reportedWait time.Duration
					if reported {
						report = func(_ context.Context, e *HandlerError) { reportedWait = e.RetryIn }
					}
					stop := processingReported(t, c, 1, func(context.Context, *Queue[*thing]) error {
						if calls = append(calls, time.Now()); len(calls) > 1 {
							return nil
						}
						return tc.err
					}, report)
					<-time.After(11 * time.Minute)
					stop()
					require.Len(t, calls, 2)
					waited := calls[1].Sub(calls[0])
					assert.GreaterOrEqual(t, waited, tc.least)
					assert.LessOrEqual(t, waited, tc.most)
					if reported {
						assert.Equal(t, waited, reportedWait)
					}
				})
			}
		})
	}
}

// An event may bring the next attempt forward, but not to a time at which the server wants none.
func TestEventDoesNotShortenTheWaitThatTheServerAskedFor(t *testing.T) {
	for name, hastened := range map[string]bool{"first failure": false, "failure of an attempt that an event brought forward": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings(WithBackoff(8*time.Second, time.Minute))
				require.NoError(t, c.Add(at("a", "u", 1)))
				failures := []error{apierrors.NewTooManyRequests("no", 60)}
				if hastened {
					failures = append([]error{errors.New("no")}, failures...)
				}
				var calls []time.Time
				stop := processingReported(t, c, 1, func(context.Context, *Queue[*thing]) error {
					calls = append(calls, time.Now())
					if n := len(calls); n <= len(failures) {
						return failures[n-1]
					}
					return nil
				}, nil)
				for version := range 10 {
					<-time.After(time.Second)
					require.NoError(t, c.Update(at("a", "u", version+2)))
				}
				<-time.After(2 * time.Minute)
				stop()
				require.Len(t, calls, len(failures)+1)
				assert.GreaterOrEqual(t, calls[len(failures)].Sub(calls[len(failures)-1]), time.Minute)
			})
		})
	}
}
