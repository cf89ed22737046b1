package feed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Selected fills a cache with the objects of several selectors. The reflector of each selector
// fills a layer. After each commit of a layer, Selected derives from all layers what to show of the
// changed objects, and writes that into the cache. Watches may be behind each other: see show.
//
// Create it with [NewSelected].
type Selected[T any] struct {
	*Reflectors[T] // of the selectors
	join           func(selectors Changeable, had []string) (leave func())
	reflect        func(labels.Selector, store.Store[T]) Feed
	into           store.BatchStore[T]
	shown          *store.View[T] // reads into
	report         func(context.Context, error)

	// mu is held while the cache is written. Lock order: writer of a layer, mu, writer of the
	// cache.
	mu     sync.Mutex
	layers []*layer[T] // in the order in which the selectors were added
	// floors has the version at which an object left a layer, while another layer is behind that
	// version. The cache must not show an earlier state of the object again. There are at most
	// maxFloors: a layer may be behind for days, if the server refuses its selector.
	floors map[store.Key]string
	late   map[store.Key]bool // keys whose newest state in the layers is too old to show
	failed map[store.Key]bool // keys of objects that the cache rejected
	filled chan struct{}      // closed once the cache has the first objects
}

// layer is the cache of one selector.
type layer[T any] struct {
	*store.Cache[T]
	of       *Selected[T]
	selector string

	// The fields below are those of the last commit that the layer followed; guarded by Selected.mu.
	// The cache of the layer may have made the next commit, which is not shown yet.
	version  string      // of the cache
	received string      // the version up to which the layer has every change
	rejected []store.Key // by the cache
	synced   bool
}

// Changeable is a group whose selectors change.
type Changeable interface {
	Group
	AddSelector(labels.Selector)
	// DropSelector drops the selector whose String is text.
	DropSelector(text string)
}

// maxFloors bounds the memory of floors to about 2 MB. If it drops a floor, a layer that is behind
// may show an object again until the layer receives that the object left.
const maxFloors = 10_000

// NewSelected returns a group without selectors. Run calls join with the texts of the selectors
// that the group has from its last Run. join adds and drops selectors, also later, until Run calls
// leave.
func NewSelected[T any](target Target[T], reflect func(store.Store[T], ...reflector.Option) Feed, join func(selectors Changeable, had []string) (leave func())) *Selected[T] {
	m := &Selected[T]{
		join:   join,
		into:   target.Into,
		shown:  &target.Cache.View,
		report: target.Report,
		floors: map[store.Key]string{},
		late:   map[store.Key]bool{},
		failed: map[store.Key]bool{},
		filled: make(chan struct{}),
	}
	m.reflect = func(selector labels.Selector, into store.Store[T]) Feed {
		opts := append(slices.Clone(target.Reflector), reflector.WithName(target.Name+", "+selector.String()), reflector.WithLabelSelector(selector))
		return reflect(into, opts...)
	}
	m.Reflectors = NewReflectors(target.Name, m.part, m.remove)
	return m
}

// Run runs the reflectors until ctx ends or one of them fails for good.
func (m *Selected[T]) Run(ctx context.Context) error {
	m.mu.Lock()
	var had []string
	for _, l := range m.layers {
		had = append(had, l.selector)
	}
	m.mu.Unlock()
	defer m.join(m, had)()
	m.mu.Lock()
	m.fill() // if there are no selectors
	m.mu.Unlock()
	return m.Reflectors.Run(ctx)
}

// Synced returns a channel that is closed once the cache has the first objects of all selectors.
func (m *Selected[T]) Synced() <-chan struct{} { return m.filled }

// AddSelector implements [Changeable].
func (m *Selected[T]) AddSelector(selector labels.Selector) {
	// The error means that the last Run had the selector.
	_ = m.Add(Place{Selector: selector.String()}, func(into store.Store[T]) Feed { return m.reflect(selector, into) })
}

// DropSelector implements [Changeable].
func (m *Selected[T]) DropSelector(text string) {
	_ = m.Drop(Place{Selector: text}) // remove returns no error
}

// part adds a layer.
func (m *Selected[T]) part(at Place) (store.Store[T], error) {
	l := &layer[T]{Cache: store.New(m.shown.KeyOf), of: m, selector: at.Selector}
	l.Follow(l)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layers = append(m.layers, l)
	return l.Cache, nil
}

// remove removes a layer whose reflector has ended.
func (m *Selected[T]) remove(at Place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.layers, func(l *layer[T]) bool { return l.selector == at.Selector })
	gone := m.layers[i]
	m.layers = slices.Delete(m.layers, i, i+1)
	if !isClosed(m.filled) {
		m.fill()
		return nil
	}
	b := m.into.BeginBatch(m.into, false)
	for key, object := range gone.All() {
		// A later floor means that the object left another layer, and this layer had not received that.
		outOfScope := !newer(m.floors[key], versionOf(object))
		m.show(b, key, store.Change[T]{Type: store.Deletion, OutOfScope: outOfScope}, false)
	}
	m.finish(b)
	return nil
}

// Start implements [store.Follower].
func (l *layer[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (l *layer[T]) Commit(commit *store.Commit[T]) {
	m := l.of
	m.mu.Lock()
	defer m.mu.Unlock()
	list := commit.Origin == store.List
	restored := list && newer(l.received, commit.ObservedVersion)
	if list || commit.ObservedVersion != "" {
		l.received = commit.ObservedVersion
	}
	l.version, l.rejected, l.synced = commit.ResourceVersion, l.Rejected(), commit.Synced
	if !isClosed(m.filled) {
		m.fill()
		return
	}
	if restored {
		clear(m.floors) // the server lost these versions
	}
	var last map[store.Key]int // the last change of each object, if there are several changes
	if len(commit.Changes) > 1 {
		last = make(map[store.Key]int, len(commit.Changes))
		for i := range commit.Changes {
			last[commit.Changes[i].Key] = i
		}
	}
	b := m.into.BeginBatch(m.into, false)
	for i, c := range commit.Changes {
		if c.Type == store.Deletion {
			m.raise(c.Key, leftAt(&c, commit.ObservedVersion))
		}
		if last[c.Key] == i {
			m.show(b, c.Key, c, restored)
		}
	}
	m.again(b, m.late, restored)
	if list || len(commit.Changes) == 0 {
		m.again(b, m.failed, false)
		for key, version := range m.floors {
			if !m.anyBehind(version) {
				delete(m.floors, key)
			}
		}
	}
	m.finish(b)
}

// leftAt returns the version at which an object left a layer.
func leftAt[T any](c *store.Change[T], observed string) string {
	if version := c.Version.ResourceVersion; c.FinalStateKnown && version != "" {
		return version
	}
	return observed
}

// raise sets the floor of an object that left a layer, if another layer may still bring an earlier
// state.
func (m *Selected[T]) raise(key store.Key, version string) {
	if !m.anyBehind(version) || newer(m.floors[key], version) {
		return
	}
	if _, ok := m.floors[key]; !ok && len(m.floors) == maxFloors {
		for other := range m.floors {
			delete(m.floors, other)
			break
		}
	}
	m.floors[key] = version
}

func (m *Selected[T]) anyBehind(version string) bool {
	return slices.ContainsFunc(m.layers, func(l *layer[T]) bool { return !l.synced || newer(version, l.received) })
}

// lacks reports whether the layer may lack the state of an object at a version, because the layer
// is behind or because it rejected a state.
func (l *layer[T]) lacks(key store.Key, version string) bool {
	return newer(version, l.received) || slices.Contains(l.rejected, key) || slices.Contains(l.rejected, store.Key{})
}

// newest returns the newest state of an object, and its layer. The layer is nil if no layer has the
// object. Of several layers with that state, it returns the one that has received most.
func (m *Selected[T]) newest(key store.Key) (best T, from *layer[T]) {
	for _, l := range m.layers {
		object, ok := l.Get(key)
		if !ok {
			continue
		}
		version := versionOf(object)
		if from == nil || newer(version, versionOf(best)) || version != "" && version == versionOf(best) && newer(l.received, from.received) {
			best, from = object, l
		}
	}
	return best, from
}

// show adds a write to a batch, if the cache does not show the newest state of an object. It adds
// none while that state is older than the shown one, or than the floor, and its layer is behind:
// then the layer will report a newer state or a deletion, and show is called again. After a restore
// of the server, an older state is right. change is the last change of the object.
func (m *Selected[T]) show(b store.Batch[T], key store.Key, change store.Change[T], restored bool) {
	best, from := m.newest(key)
	shown, is := m.shown.Get(key)
	floor := m.floors[key]
	if is && (floor == "" || newer(versionOf(shown), floor)) {
		floor = versionOf(shown)
	}
	if from != nil && !restored && newer(floor, versionOf(best)) && from.lacks(key, floor) {
		m.late[key] = true
		return
	}
	failed := m.failed[key] // then any write lets the resource version of the cache go on
	delete(m.late, key)
	delete(m.failed, key)
	w := store.Write[T]{Type: store.Modification, Key: key, Object: best}
	switch {
	case !failed && (from == nil && !is || from != nil && is && store.VersionOf(shown) == store.VersionOf(best) && store.EqualContent(shown, best)):
		return
	case from == nil:
		w = store.Write[T]{Type: store.Deletion, Key: key, OutOfScope: change.OutOfScope}
		if change.FinalStateKnown && !newer(floor, change.Version.ResourceVersion) {
			w.Object, w.FinalStateKnown, w.Version = change.Object, true, change.Version
		}
	}
	_ = b.Write(w) // Commit returns the error
}

// again calls show for the objects that wait, or that the cache rejected.
func (m *Selected[T]) again(b store.Batch[T], keys map[store.Key]bool, restored bool) {
	for key := range keys {
		m.show(b, key, store.Change[T]{}, restored)
	}
}

// fill shows the first objects, once all layers have them.
func (m *Selected[T]) fill() {
	if isClosed(m.filled) || slices.ContainsFunc(m.layers, func(l *layer[T]) bool { return !l.synced }) {
		return
	}
	var first []T
	for i, l := range m.layers {
		for key := range l.All() {
			if best, from := m.newest(key); from == m.layers[i] {
				first = append(first, best)
			}
		}
	}
	m.rejected(m.into.Replace(first, m.version()))
	close(m.filled)
}

// finish makes the writes of a batch. If no version is known, it commits the lowest one: without a
// version, the cache would take the version of the last write.
func (m *Selected[T]) finish(b store.Batch[T]) { m.rejected(b.Commit(cmp.Or(m.version(), "1"))) }

// rejected reports an error of the cache, and remembers the objects that it rejected.
func (m *Selected[T]) rejected(err error) {
	if err == nil {
		return
	}
	if rejected, ok := errors.AsType[*store.RejectedError](err); ok {
		for _, r := range rejected.Rejections {
			m.failed[r.Key] = true
		}
	}
	m.report(context.Background(), err)
}

// version returns the version up to which the cache has the changes of all layers, or its version
// if that is not known.
func (m *Selected[T]) version() string {
	lowest := ""
	for _, l := range m.layers {
		if l.synced && l.version == "" {
			return m.shown.ResourceVersion()
		}
		if l.synced && (lowest == "" || newer(lowest, l.version)) {
			lowest = l.version
		}
	}
	return cmp.Or(lowest, m.shown.ResourceVersion())
}

func versionOf[T any](object T) string { return store.VersionOf(object).ResourceVersion }

// newer reports whether a resource version is known to be later than another.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
