package inspect

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

const (
	// shownChanges and shownQueues are their numbers in the overview.
	shownChanges = 12
	shownQueues  = 8
	// searchedQueues is how many queues of a subscriber are searched for one object.
	searchedQueues = 1000
	// shownKeys is how many keys a list has.
	shownKeys = 500
	// weighed is the number of objects that are encoded as JSON to estimate the size of all.
	// weighedFor is how long the estimate is used.
	weighed    = 32
	weighedFor = 10 * time.Second
	// flowSpan is how long a change is shown as a flow.
	flowSpan = 3 * time.Second
)

// key keeps [store.Key] out of the exported API of this package.
type key store.Key

func (k key) String() string { return store.Key(k).String() }

// watched is an informer on the page.
type watched[T any] struct {
	informer *informer.Informer[T]
	history  history[T]
	stop     func()

	// mu protects the fields below it.
	mu        sync.Mutex
	weight    float64 // of one object, in bytes
	weighedAt time.Time
}

func newWatched[T any](i *informer.Informer[T]) *watched[T] {
	w := &watched[T]{informer: i, history: history[T]{size: keptChanges, versions: keptVersions}}
	w.stop = i.Follow(&w.history)
	return w
}

func (w *watched[T]) state() Informer {
	cache := w.informer.Cache()
	s := Informer{
		Type: reflect.TypeFor[T]().String(), Ready: true, Synced: lifecycle.IsClosed(w.informer.Synced()),
		Objects: cache.Len(), ResourceVersion: cache.ResourceVersion(),
		Last: changesOf(w.history.last(shownChanges, func(key) bool { return true })),
	}
	s.Bytes = int64(w.objectBytes() * float64(s.Objects))
	var last time.Time
	s.Changes, s.Rate, last = w.history.count()
	if err := w.informer.Ready(); err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	for _, scope := range w.informer.Scopes() {
		s.Reflectors = append(s.Reflectors, newReflector(scope))
		if scope.Synced && !scope.Broken.IsZero() {
			s.StaleSeconds = max(s.StaleSeconds, time.Since(scope.Broken).Seconds())
		}
		s.Flowing = s.Flowing || scope.State.Phase == reflector.Watching && time.Since(last) < flowSpan
	}
	for _, subscription := range w.informer.Subscriptions() {
		s.Subscribers = append(s.Subscribers, newSubscriber(subscription.Name(), lifecycle.IsClosed(subscription.Synced()),
			subscription.Stats(), subscription.Pending(shownQueues)))
	}
	return s
}

func newReflector(scope informer.ScopeState) Reflector {
	r := Reflector{
		Phase: string(scope.State.Phase), Since: scope.State.Since, Synced: scope.Synced, LastContact: scope.State.LastContact,
		Sharding: string(scope.State.Sharding),
		Broken:   scope.Broken, Attempt: scope.State.Attempt, NextRetry: scope.State.NextRetry,
		LastErrorAt: scope.State.LastErrTime,
	}
	if scope.Scope != (store.Scope{}) {
		r.Scope = scope.Scope.String()
	}
	if scope.State.Err != nil {
		r.Error = scope.State.Err.Error()
	}
	if scope.State.LastErr != nil {
		r.LastError = scope.State.LastErr.Error()
	}
	return r
}

func newSubscriber(name string, synced bool, stats eventqueue.Stats, queues []eventqueue.Pending) Subscriber {
	s := Subscriber{
		Name: name, Synced: synced,
		Keys: stats.Keys, Waiting: stats.Waiting, Delayed: stats.Delayed, InFlight: stats.InFlight, Events: stats.Events,
		OldestSeconds: stats.Oldest.Seconds(),
		Merged:        stats.Merged, Dropped: stats.Dropped, Retries: stats.Retries, Panics: stats.Panics, GivenUp: stats.GivenUp,
	}
	for _, q := range queues {
		s.Queues = append(s.Queues, newQueue("", q))
	}
	return s
}

func newQueue(subscriber string, q eventqueue.Pending) Queue {
	shown := Queue{
		Subscriber: subscriber, Key: q.Key.String(), Events: q.Events, AgeSeconds: q.Age.Seconds(), InFlight: q.InFlight,
		Failures: q.Failures, RetryInSeconds: q.RetryIn.Seconds(), where: key(q.Key),
	}
	if q.Err != nil {
		shown.Error = q.Err.Error()
	}
	return shown
}

// objectBytes estimates the JSON size of an object.
func (w *watched[T]) objectBytes() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.weight > 0 && time.Since(w.weighedAt) < weighedFor {
		return w.weight
	}
	total, n := 0, 0
	for _, object := range w.informer.Cache().All() {
		encoded, err := json.Marshal(object)
		if err != nil {
			continue
		}
		total += len(encoded)
		if n++; n == weighed {
			break
		}
	}
	w.weight, w.weighedAt = 0, time.Now()
	if n > 0 {
		w.weight = float64(total) / float64(n)
	}
	return w.weight
}

func (w *watched[T]) object(k key, masked [][]string) (ObjectState, bool) {
	s := ObjectState{Key: k.String(), Queues: []Queue{}, Changes: []Change{}}
	for _, e := range w.history.last(shownKeys, func(other key) bool { return other == k }) {
		change := e.change()
		if e.held {
			change.Fields, change.Compared = differences(e.before, e.after, masked)
		}
		s.Changes = append(s.Changes, change)
	}
	object, held := w.informer.Cache().Get(store.Key(k))
	if held {
		text, err := yamlOf(object, masked)
		if err != nil {
			s.Error = "cannot be shown: " + err.Error()
		}
		s.YAML = text
	}
	for _, subscription := range w.informer.Subscriptions() {
		for _, q := range subscription.Pending(searchedQueues) {
			if key(q.Key) == k {
				s.Queues = append(s.Queues, newQueue(subscription.Name(), q))
			}
		}
	}
	return s, held || len(s.Changes) > 0 || len(s.Queues) > 0
}

// filter selects keys.
type filter struct {
	namespace string // exactly; empty for all
	contains  string // part of the key
}

func (w *watched[T]) keys(f filter) (namespaces []string, keys []key) {
	seen := map[string]bool{}
	for k := range w.informer.Cache().All() {
		if !seen[k.Namespace] {
			seen[k.Namespace] = true
			namespaces = append(namespaces, k.Namespace)
		}
		if (f.namespace == "" || k.Namespace == f.namespace) && strings.Contains(k.String(), f.contains) && len(keys) < shownKeys {
			keys = append(keys, key(k))
		}
	}
	return namespaces, keys
}

// entry is a change in the history.
type entry[T any] struct {
	at              time.Time
	key             store.Key
	version         store.Version
	kind            store.ChangeType
	origin          store.Origin
	initial         bool
	finalStateKnown bool

	// before and after are the object before and after the change, if held is true. They keep the
	// objects alive.
	held          bool
	before, after T
}

// change returns the entry without its objects.
func (e *entry[T]) change() Change {
	return Change{
		At: e.at, Type: e.kind.String(), Origin: e.origin.String(), Key: e.key.String(),
		ResourceVersion: e.version.ResourceVersion, UID: string(e.version.UID),
		Initial: e.initial, FinalStateKnown: e.finalStateKnown, where: key(e.key),
	}
}

// rateSpan is the number of seconds over which the rate of changes is averaged.
const rateSpan = 10

// history is the last changes of a cache. It is a [store.Follower].
type history[T any] struct {
	// mu protects the fields below it. Commits take it inside the cache's writer lock.
	mu       sync.Mutex
	entries  []entry[T] // a ring: the newest is at (total-1) % size; nil before the first
	size     int        // does not change
	versions int        // the number of the newest entries that hold objects; does not change
	total    uint64
	newest   time.Time // the time of the last change
	// seconds counts the changes of each of the last seconds. Second n is at n % (rateSpan+1). The
	// current second is not full yet.
	seconds [rateSpan + 1]uint64
	second  int64 // the current one
}

var _ store.Follower[any] = (*history[any])(nil)

// Start implements [store.Follower].
func (h *history[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (h *history[T]) Commit(c *store.Commit[T]) {
	if len(c.Changes) == 0 {
		return
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickLocked(now)
	h.newest = now
	h.seconds[h.second%(rateSpan+1)] += uint64(len(c.Changes))
	skip := max(len(c.Changes)-h.size, 0) // they would be overwritten at once
	h.total += uint64(skip)
	if h.entries == nil {
		h.entries = make([]entry[T], h.size)
	}
	for i := range c.Changes[skip:] {
		h.addLocked(now, c, &c.Changes[skip+i])
	}
}

func (h *history[T]) addLocked(now time.Time, c *store.Commit[T], change *store.Change[T]) {
	if h.size > 0 {
		e := h.entryLocked(h.total)
		*e = entry[T]{
			at: now, key: change.Key, version: change.Version, kind: change.Type, origin: c.Origin,
			initial: c.Initial, finalStateKnown: change.FinalStateKnown,
		}
		if h.versions > 0 && change.Type != store.Addition {
			e.held, e.before, e.after = true, change.Prior, change.Object
		}
		if h.versions < h.size && h.total >= uint64(h.versions) {
			var none T
			old := h.entryLocked(h.total - uint64(h.versions))
			old.held, old.before, old.after = false, none, none
		}
	}
	h.total++
}

// entryLocked returns the place of the change with a number, beginning at 0.
func (h *history[T]) entryLocked(n uint64) *entry[T] { return &h.entries[n%uint64(h.size)] }

// tickLocked removes the seconds that are over.
func (h *history[T]) tickLocked(now time.Time) {
	second := now.Unix()
	if second-h.second > rateSpan {
		h.seconds = [rateSpan + 1]uint64{}
	}
	for n := h.second + 1; n <= second && n <= h.second+rateSpan; n++ {
		h.seconds[n%(rateSpan+1)] = 0
	}
	h.second = second
}

// count returns the number of changes so far, their rate in a second, and the time of the last one.
func (h *history[T]) count() (total uint64, rate float64, newest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickLocked(time.Now())
	for n, changes := range h.seconds {
		if int64(n) != h.second%(rateSpan+1) {
			rate += float64(changes)
		}
	}
	return h.total, rate / rateSpan, h.newest
}

// last returns up to limit wanted changes, the newest first.
func (h *history[T]) last(limit int, wanted func(key) bool) []entry[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []entry[T]
	for n := uint64(1); n <= min(h.total, uint64(h.size)) && len(found) < limit; n++ {
		if e := h.entryLocked(h.total - n); wanted(key(e.key)) {
			found = append(found, *e)
		}
	}
	return found
}

// changesOf returns the entries without their objects.
func changesOf[T any](entries []entry[T]) []Change {
	changes := []Change{}
	for _, e := range entries {
		changes = append(changes, e.change())
	}
	return changes
}
