package controller

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/util/workqueue"
)

// prioritized is a work queue in an order of ours.
func prioritized(flat bool) (*ordering, *workqueue.Typed[store.Key]) {
	order := newOrdering(flat)
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
	o, q := prioritized(false)
	add(o, q, "ab", Low)
	add(o, q, "cd", Normal)
	add(o, q, "e", High)
	add(o, q, "f", 100) // counts as High
	assert.Equal(t, "efcdab", takeAll(o, q))
	assert.Empty(t, o.place)
	assert.Empty(t, o.wanted)
	assert.Empty(t, o.taken)
}

func TestKeysThatWaitMoveForwardAndNeverBack(t *testing.T) {
	o, q := prioritized(false)
	add(o, q, "abc", Low)
	add(o, q, "c", Normal)
	add(o, q, "c", Low)
	assert.Equal(t, 3, q.Len())
	assert.Equal(t, "cab", takeAll(o, q))
}

func TestOneKeyInEightIsOfTheLowestPriority(t *testing.T) {
	o, q := prioritized(false)
	add(o, q, "xy", Low)
	add(o, q, "abcdefghijklmno", Normal)
	assert.Equal(t, "abcdefgxhijklmnyo", takeAll(o, q))
}

func TestWithoutPrioritiesKeysAreInTheirOrder(t *testing.T) {
	o, q := prioritized(true)
	add(o, q, "ab", Low)
	add(o, q, "c", High)
	assert.Equal(t, "abc", takeAll(o, q))
}

func TestKeyThatComesWhileItIsWorkedOnKeepsItsPriority(t *testing.T) {
	o, q := prioritized(false)
	add(o, q, "a", Low)
	a, _ := q.Get()
	assert.Equal(t, Low, o.settle(a))
	add(o, q, "a", High)
	add(o, q, "b", Normal)
	q.Done(a)
	assert.Equal(t, "ab", takeAll(o, q))
}
