package eventqueue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errNo = errors.New("no")

// upTo returns a function for Each that fails with err on the event of a version.
func upTo(version string, err error) func(Event[*thing]) error {
	return func(e Event[*thing]) error {
		if e.Object.version == version {
			return err
		}
		return nil
	}
}

// four returns a collection in which four events of a wait, and one of b behind them.
func four(t *testing.T, opts ...Option) *Collection[*thing] {
	c := newThings(opts...)
	for i := range 4 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	require.NoError(t, c.Add(at("b", "v", 5)))
	return c
}

func TestWaysToSettle(t *testing.T) {
	for name, row := range map[string]struct {
		settle  func(t *testing.T, q *Queue[*thing])
		next    string   // the key that comes next
		left    []string // of a
		attempt int      // of a, when it comes again
		delayed int
	}{
		"Done": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Done() }, next: "b"},
		"Fail": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Fail(errNo) },
			next: "b", left: []string{"+1", "1>2", "2>3", "3>4"}, attempt: 2, delayed: 1},
		"Requeue": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Requeue() },
			next: "a", left: []string{"+1", "1>2", "2>3", "3>4"}, attempt: 1},
		"Fail for good": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Fail(fmt.Errorf("wrapped: %w", Permanent(errNo))) }, next: "b"},
		"Each, then Fail": {settle: func(t *testing.T, q *Queue[*thing]) { q.Fail(q.Each(t.Context(), upTo("3", errNo))) },
			next: "b", left: []string{"2>3", "3>4"}, attempt: 2, delayed: 1},
		"Each, then Fail for good": {settle: func(t *testing.T, q *Queue[*thing]) { q.Fail(q.Each(t.Context(), upTo("3", Permanent(errNo)))) },
			next: "b", left: []string{"3>4"}, attempt: 1},
		"Each, then Fail for good on the last": {settle: func(t *testing.T, q *Queue[*thing]) { q.Fail(q.Each(t.Context(), upTo("4", Permanent(errNo)))) }, next: "b"},
		"Each, then Requeue": {settle: func(t *testing.T, q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("3", errNo)); q.Requeue() },
			next: "a", left: []string{"2>3", "3>4"}, attempt: 1},
		"Each to the end, then Fail": {settle: func(t *testing.T, q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Fail(errNo) }, next: "b"},
		"twice":                      {settle: func(_ *testing.T, q *Queue[*thing]) { q.Done(); q.Requeue(); q.Fail(errNo) }, next: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := four(t)
				defer c.Close()
				row.settle(t, take(t, c))
				assert.Equal(t, row.delayed, c.Stats().Delayed)
				q := take(t, c)
				require.Equal(t, row.next, q.Key().Name)
				if row.next == "b" {
					q.Done()
					if row.left == nil {
						assert.Zero(t, c.Len())
						return
					}
					var err error
					q, err = c.Take(t.Context())
					require.NoError(t, err)
				}
				assert.Equal(t, row.left, words(collect(q)))
				assert.Equal(t, row.attempt, q.Attempt())
			})
		})
	}
}

func TestNewsKeepTheirPlaceWhateverHappensToWhatIsOut(t *testing.T) {
	for name, row := range map[string]struct {
		settle func(q *Queue[*thing])
		next   string
	}{
		"Done":            {func(q *Queue[*thing]) { q.Done() }, "b"},
		"Fail":            {func(q *Queue[*thing]) { q.Fail(errNo) }, "b"},
		"Fail for good":   {func(q *Queue[*thing]) { q.Fail(Permanent(errNo)) }, "b"},
		"Requeue":         {func(q *Queue[*thing]) { q.Requeue() }, "a"},
		"Each to the end": {func(q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Requeue() }, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := four(t)
			q := take(t, c)
			require.NoError(t, c.Update(at("a", "u", 6)))
			row.settle(q)
			assert.Equal(t, row.next, take(t, c).Key().Name)
			assert.NotZero(t, c.Stats().Waiting)
			c.Close()
		})
	}
}

func TestSuccessEndsTheCountOfFailures(t *testing.T) {
	for name, settle := range map[string]func(q *Queue[*thing]){
		"Done":          func(q *Queue[*thing]) { q.Done() },
		"Fail for good": func(q *Queue[*thing]) { q.Fail(Permanent(errNo)) },
		"one by one":    func(q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Fail(errNo) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				defer c.Close()
				require.NoError(t, c.Add(at("a", "u", 1)))
				take(t, c).Fail(errNo)
				q, err := c.Take(t.Context())
				require.NoError(t, err)
				require.NoError(t, c.Update(at("a", "u", 2)))
				settle(q)
				assert.Equal(t, 1, take(t, c).Attempt())
			})
		})
	}
}

func TestWhatComesAfterAGivenUpEventHasNotFailed(t *testing.T) {
	c := four(t, WithBackoff(time.Hour, time.Hour))
	defer c.Close()
	take(t, c).Fail(errNo)
	releaseAll(c)
	take(t, c).Done() // b
	q := take(t, c)
	assert.Equal(t, 2, q.Attempt())
	q.Fail(q.Each(t.Context(), upTo("3", Permanent(errNo))))
	assert.Equal(t, 1, take(t, c).Attempt())
}

func TestPermanentErrors(t *testing.T) {
	assert.NoError(t, Permanent(nil))
	err := Permanent(errNo)
	assert.EqualError(t, err, "no")
	assert.ErrorIs(t, err, errNo)
	assert.True(t, IsPermanent(err))
	assert.True(t, IsPermanent(fmt.Errorf("wrapped: %w", err)))
	assert.True(t, IsPermanent(errors.Join(err, err)))
	assert.True(t, IsPermanent(&PanicError{Value: err}))
	assert.False(t, IsPermanent(errors.Join(err, errNo)), "one of them may go away")
	assert.False(t, IsPermanent(errNo))
	assert.False(t, IsPermanent(nil))
	assert.False(t, IsPermanent(&DrainError{}), "it wraps nothing")
	assert.EqualError(t, &HandlerError{Key: key("a"), Attempt: 1, Err: err}, `handling "a" failed for good (attempt 1): no`)
}

func TestPutBackQueueOfTheFirstListHoldsUpSyncedAndAFailureDoesNot(t *testing.T) {
	for name, row := range map[string]struct {
		settle func(q *Queue[*thing])
		synced bool
	}{
		"Requeue":       {func(q *Queue[*thing]) { q.Requeue() }, false},
		"Fail":          {func(q *Queue[*thing]) { q.Fail(errNo) }, true},
		"Fail for good": {func(q *Queue[*thing]) { q.Fail(Permanent(errNo)) }, true},
		"Done":          {func(q *Queue[*thing]) { q.Done() }, true},
		"all by Each":   {func(q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Requeue() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newThings(WithBackoff(time.Hour, time.Hour))
			defer c.Close()
			require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
			row.settle(take(t, c))
			assert.Equal(t, row.synced, isClosed(c.Synced()))
			_ = c.Update(at("a", "u", 2))
			take(t, c).Done()
			assert.True(t, isClosed(c.Synced()))
		})
	}
}
