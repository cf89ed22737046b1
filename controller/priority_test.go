package controller

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
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
