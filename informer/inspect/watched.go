package inspect

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"sigs.k8s.io/yaml"
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
	weight    float64   // of one object, in bytes
	weighedAt time.Time // zero as long as there was no object
}

func (w *watched[T]) state() Informer {
	cache, unready := w.informer.Cache(), w.informer.Ready()
	s := Informer{
		Type: reflect.TypeFor[T]().String(), Ready: unready == nil, Reason: errorText(unready), Synced: lifecycle.IsClosed(w.informer.Synced()),
		Objects: cache.Len(), ResourceVersion: cache.ResourceVersion(),
		Last: []Change{},
	}
	for _, e := range w.history.last(shownChanges, func(key) bool { return true }) {
		s.Last = append(s.Last, e.change())
	}
	s.Bytes = int64(w.objectBytes() * float64(s.Objects))
	var last time.Time
	s.Changes, s.Rate, last = w.history.count()
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
		Error: errorText(scope.State.Err), LastError: errorText(scope.State.LastErr), LastErrorAt: scope.State.LastErrTime,
	}
	if scope.Scope != (store.Scope{}) {
		r.Scope = scope.Scope.String()
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
	return Queue{
		Subscriber: subscriber, Key: q.Key.String(), Events: q.Events, AgeSeconds: q.Age.Seconds(), InFlight: q.InFlight,
		Failures: q.Failures, RetryInSeconds: q.RetryIn.Seconds(), Error: errorText(q.Err), where: key(q.Key),
	}
}

// errorText returns the text of an error; empty for nil. The method Error of a user may panic, and fmt
// shows that.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}

// encode returns the JSON of an object, whose method MarshalJSON may panic. The page masks Secrets, so the text of
// an error quotes no value of the object.
func encode[T any](object T) (encoded []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = discreet.Panicked(value)
		}
	}()
	if encoded, err = json.Marshal(object); err != nil {
		err = discreet.Error(err)
	}
	return encoded, err
}

// objectBytes estimates the JSON size of an object.
func (w *watched[T]) objectBytes() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.weighedAt) < weighedFor {
		return w.weight
	}
	total, n, tried := 0, 0, 0
	for _, object := range w.informer.Cache().All() {
		if encoded, err := encode(object); err == nil {
			total += len(encoded)
			n++
		}
		if tried++; tried == weighed {
			break
		}
	}
	w.weight = float64(total) / float64(max(n, 1))
	if tried > 0 { // else there may soon be objects
		w.weighedAt = time.Now()
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

func (w *watched[T]) keys(namespace, contains string) (namespaces []string, keys []key) {
	seen := map[string]bool{}
	for k := range w.informer.Cache().All() {
		if !seen[k.Namespace] {
			seen[k.Namespace] = true
			namespaces = append(namespaces, k.Namespace)
		}
		if (namespace == "" || k.Namespace == namespace) && strings.Contains(k.String(), contains) && len(keys) < shownKeys {
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

// mask replaces secret values.
const mask = "••••••"

// WithMasked masks fields of all objects. Each pointer is a JSON pointer (RFC 6901) into the
// object, such as "/spec/password". If the field has fields itself, each value is masked. A pointer
// skips list levels: "/spec/users/token" masks the token of each user, and so does
// "/spec/users/0/token".
func WithMasked(pointers ...string) Option {
	return optionFunc(func(p *Page) {
		for _, pointer := range pointers {
			p.masked = append(p.masked, masking.Path(pointer))
		}
	})
}

// yamlOf returns an object as YAML with masked secrets.
func yamlOf[T any](object T, masked [][]string) (string, error) {
	tree, err := treeOf(object, masked)
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(encoded)
	return string(text), err
}

// treeOf returns an object as decoded JSON with masked secrets.
func treeOf[T any](object T, masked [][]string) (map[string]any, error) {
	encoded, err := encode(object)
	if err != nil {
		return nil, err
	}
	tree, err := masking.Decode(encoded)
	if err != nil {
		return nil, err
	}
	masks := masking.Mask{Instead: func(any) any { return mask }, Paths: masked}
	masks.Value(tree, object)
	return tree, nil
}

// shownValue is how many characters of a value a difference shows.
const shownValue = 400

// differences returns the fields in which two versions of an object differ, except for
// metadata.managedFields. It compares the objects with masked secrets. ok is false if an object has
// no fields.
func differences[T any](before, after T, masked [][]string) (fields []FieldChange, ok bool) {
	old, err := treeOf(before, masked)
	if err != nil {
		return nil, false
	}
	tree, err := treeOf(after, masked)
	if err != nil {
		return nil, false
	}
	for _, side := range []map[string]any{old, tree} {
		if metadata, ok := side["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
		}
	}
	return compare(nil, "", old, tree), true
}

// missing is the value of a field that one side lacks.
type missing struct{}

// compare appends the differences of two values of decoded JSON.
func compare(found []FieldChange, path string, before, after any) []FieldChange {
	switch old := before.(type) {
	case map[string]any:
		if fields, ok := after.(map[string]any); ok {
			return compareFields(found, path, old, fields)
		}
	case []any:
		if items, ok := after.([]any); ok {
			for n := range max(len(old), len(items)) {
				found = compare(found, fmt.Sprintf("%s[%d]", path, n), item(old, n), item(items, n))
			}
			return found
		}
	}
	if !reflect.DeepEqual(before, after) {
		found = append(found, FieldChange{Path: path, Before: valueText(before), After: valueText(after)})
	}
	return found
}

func compareFields(found []FieldChange, path string, before, after map[string]any) []FieldChange {
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		found = compare(found, inner, field(before, name), field(after, name))
	}
	return found
}

func field(fields map[string]any, name string) any {
	if value, ok := fields[name]; ok {
		return value
	}
	return missing{}
}

func item(items []any, n int) any {
	if n < len(items) {
		return items[n]
	}
	return missing{}
}

// valueText returns a value as JSON, or its beginning; empty for a missing value.
func valueText(value any) string {
	if value == (missing{}) {
		return ""
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the template escapes it
	if err := encoder.Encode(value); err != nil {
		return err.Error()
	}
	encoded := strings.TrimSpace(text.String())
	if runes := []rune(encoded); len(runes) > shownValue {
		return string(runes[:shownValue]) + "…"
	}
	return encoded
}
