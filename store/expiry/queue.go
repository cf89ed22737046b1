package expiry

import (
	"container/heap"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// queue has what is held and will be over, the first one on top. The end of an item may be
// later than when it was put: that is found out when its turn comes.
type queue[T any] struct {
	order  order[T]
	places map[store.Key]*place[T]
}

type place[T any] struct {
	key   store.Key
	item  *item[T]
	due   time.Duration
	index int
}

// put takes in an item, instead of another one of its key.
func (q *queue[T]) put(key store.Key, i *item[T]) {
	until := i.until.Load()
	if until == never {
		q.remove(key)
		return
	}
	if p := q.places[key]; p != nil {
		p.item, p.due = i, time.Duration(until)
		heap.Fix(&q.order, p.index)
		return
	}
	p := &place[T]{key: key, item: i, due: time.Duration(until)}
	q.places[key] = p
	heap.Push(&q.order, p)
}

// hasten puts an item whose end may be earlier now.
func (q *queue[T]) hasten(key store.Key, i *item[T]) {
	if p := q.places[key]; p == nil || i.until.Load() < int64(p.due) {
		q.put(key, i)
	}
}

func (q *queue[T]) remove(key store.Key) {
	if p := q.places[key]; p != nil {
		heap.Remove(&q.order, p.index)
		delete(q.places, key)
	}
}

// next returns when somebody has to look again.
func (q *queue[T]) next() (due time.Duration, ok bool) {
	if len(q.order) == 0 {
		return 0, false
	}
	return q.order[0].due, true
}

// over takes out the keys of items that are over, up to a number.
func (q *queue[T]) over(at time.Duration, limit int) (keys []store.Key) {
	for len(q.order) > 0 && q.order[0].due < at && len(keys) < limit {
		p := q.order[0]
		if p.item.over(at) {
			keys = append(keys, p.key)
			q.remove(p.key)
		} else {
			q.put(p.key, p.item)
		}
	}
	return keys
}

// order is a heap. Push and Pop deal in any because container/heap does.
type order[T any] []*place[T]

func (o order[T]) Len() int           { return len(o) }
func (o order[T]) Less(i, j int) bool { return o[i].due < o[j].due }

func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

// Push implements [heap.Interface].
func (o *order[T]) Push(x any) {
	p := x.(*place[T])
	p.index = len(*o)
	*o = append(*o, p)
}

// Pop implements [heap.Interface].
func (o *order[T]) Pop() any {
	old := *o
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*o = old[:len(old)-1]
	return p
}
