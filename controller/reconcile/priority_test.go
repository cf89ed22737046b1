package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
)

// prioritized is a work queue in an order of ours.
func prioritized() (*ordering, *workqueue.Typed[store.Key]) {
	order := newOrdering()
	return order, workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[store.Key]{Queue: order})
}

func add(o *ordering, q *workqueue.Typed[store.Key], names string, p Priority) {
	for name := range strings.SplitSeq(names, "") {
		o.want(store.Key{Name: name}, p)
		q.Add(store.Key{Name: name})
	}
}

func takeAll(o *ordering, q *workqueue.Typed[store.Key]) string {
	var got strings.Builder
	for q.Len() > 0 {
		key, _ := q.Get()
		got.WriteString(key.Name)
		o.settle(key)
		q.Done(key)
	}
	return got.String()
}

func TestKeysAreTakenByPriorityAndThenInTheirOrder(t *testing.T) {
	o, q := prioritized()
	add(o, q, "ab", Low)
	add(o, q, "cd", Normal)
	add(o, q, "e", High)
	add(o, q, "f", 100) // counts as High
	assert.Equal(t, "efcdab", takeAll(o, q))
	assert.Empty(t, o.places)
	assert.Empty(t, o.wanted)
	assert.Empty(t, o.taken)
}

func TestKeysThatWaitMoveForwardAndNeverBack(t *testing.T) {
	o, q := prioritized()
	add(o, q, "abc", Low)
	add(o, q, "c", Normal)
	add(o, q, "c", Low)
	assert.Equal(t, 3, q.Len())
	assert.Equal(t, "cab", takeAll(o, q))
}

func TestOneKeyInEightIsOfTheLowestPriority(t *testing.T) {
	o, q := prioritized()
	add(o, q, "xy", Low)
	add(o, q, "abcdefghijklmno", Normal)
	assert.Equal(t, "abcdefgxhijklmnyo", takeAll(o, q))
}

func TestKeyThatComesWhileItIsWorkedOnKeepsItsPriority(t *testing.T) {
	o, q := prioritized()
	add(o, q, "a", Low)
	a, _ := q.Get()
	assert.Equal(t, Low, o.settle(a))
	add(o, q, "a", High)
	add(o, q, "b", Normal)
	q.Done(a)
	assert.Equal(t, "ab", takeAll(o, q))
}

func TestPriorityOfATimeIsThatOfItsEnd(t *testing.T) {
	o, q := prioritized()
	after := delayed{q, o}
	o.wantLater(store.Key{Name: "a"}, High)
	o.wantLater(store.Key{Name: "b"}, Low)
	add(o, q, "a", Low)
	add(o, q, "bc", Normal)
	assert.Equal(t, "bca", takeAll(o, q), "what comes before has its own")
	add(o, q, "c", Normal)
	after.Add(store.Key{Name: "b"})
	after.Add(store.Key{Name: "a"})
	assert.Equal(t, "acb", takeAll(o, q))
	assert.Empty(t, o.later)
}

func TestKeysThatMovedForwardTakeNoRoomWhereTheyWere(t *testing.T) {
	o, q := prioritized()
	add(o, q, "x", Low)
	for range 1000 {
		add(o, q, "a", Low)
		add(o, q, "a", Normal)
		a, _ := q.Get()
		o.settle(a)
		q.Done(a)
		if o.turn%fairness == fairness-1 {
			o.turn++ // keep x where it is
		}
	}
	assert.LessOrEqual(t, len(o.lines[0].entries), 3)
	add(o, q, "ya", Low)
	assert.Equal(t, "xya", takeAll(o, q), "and have lost their place")
}

func TestPriorityOfTheNextCall(t *testing.T) {
	for name, tc := range map[string]struct {
		result Result
		want   string
		opts   []Option
	}{
		"high":                   {result: Result{RequeueAfter: time.Second, Priority: High}, want: "r123"},
		"low":                    {result: Result{RequeueAfter: time.Second, Priority: Low}, want: "123r"},
		"high, all events equal": {result: Result{RequeueAfter: time.Second, Priority: High}, want: "r123", opts: []Option{WithPriority(false)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.create(configMap("r"))
			var got list
			first := true
			stop := w.run(New("test", w.configMaps, func(_ context.Context, key store.Key) (Result, error) {
				if key.Name == "block" {
					<-time.After(time.Minute)
					return Result{}, nil
				}
				if first {
					first = false
					return tc.result, nil
				}
				got.add(key.Name)
				return Result{}, nil
			}, tc.opts...))
			synctest.Wait()
			w.create(configMap("block"))
			synctest.Wait()
			w.create(configMap("1"), configMap("2"), configMap("3"))
			<-time.After(2 * time.Minute)
			joined := ""
			for _, name := range got.take() {
				joined += name
			}
			assert.Equal(t, tc.want, joined, name)
			require.NoError(t, stop())
		})
	}
}

func TestFailedKeysKeepTheirPriorityUnlessTheySayOtherwise(t *testing.T) {
	for want, result := range map[string]Result{"123r": {}, "r123": {Priority: High}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.create(configMap("r")) // its priority is Low
			got, failed := "", false
			stop := w.run(New("test", w.configMaps, func(_ context.Context, key store.Key) (Result, error) {
				switch {
				case key.Name == "block":
					<-time.After(time.Minute)
				case !failed:
					failed = true
					return result, errors.New("ouch")
				default:
					got += key.Name
				}
				return Result{}, nil
			}, WithRateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](time.Second, time.Minute))))
			synctest.Wait()
			w.create(configMap("block"))
			<-time.After(2 * time.Second)
			w.create(configMap("1"), configMap("2"), configMap("3"))
			<-time.After(2 * time.Minute)
			require.NoError(t, stop())
			assert.Equal(t, want, got)
		})
	}
}

func TestPriorityOfALaterCallIsNotThatOfOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, block := "", make(chan struct{})
		o := newOptions(nil)
		s := newShift(t.Context(), &o, "test", func(_ context.Context, key store.Key) (Result, error) {
			if got += key.Name; key.Name == "b" {
				<-block
			}
			if got == "r" {
				return Result{RequeueAfter: time.Hour, Priority: High}, nil
			}
			return Result{}, nil
		}, nil)
		s.start()
		for _, step := range []trigger{{priority: Low, key: store.Key{Name: "r"}}, {key: store.Key{Name: "b"}}, {key: store.Key{Name: "x"}}, {priority: Low, key: store.Key{Name: "r"}}} {
			s.trigger(step)
			synctest.Wait()
		}
		close(block)
		synctest.Wait()
		assert.NoError(t, s.drain())
		assert.Equal(t, "rbxr", got)
	})
}

func TestNewsGoBeforeTheFirstListUnlessToldNotTo(t *testing.T) {
	for want, opts := range map[string][]Option{
		"axbcd": nil,
		"abcdx": {WithPriority(false)},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.create(configMap("a"), configMap("b"), configMap("c"), configMap("d"))
			got := ""
			stop := w.run(New("test", w.configMaps, func(_ context.Context, key store.Key) (Result, error) {
				<-time.After(time.Second)
				got += key.Name
				return Result{}, nil
			}, opts...))
			synctest.Wait()
			w.create(configMap("x"))
			<-time.After(time.Minute)
			require.NoError(t, stop())
			assert.Equal(t, want, got)
		})
	}
}
