package controllerruntime

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merged fills a cache with the owned objects and the metadata of all others. Handlers of that
// cache get one sequence of events for each object: a change of labels is a modification, never a
// deletion.
//
// Each watch may be behind the other. So merged does not store what the watches say. After each
// commit of either cache, it derives from both what to show of the changed objects: see choose.
type merged struct {
	parts        []*sharedInformer // which run
	metas, owned *watched
	selector     labels.Selector // of owned

	// mu is held while the cache is written. The writers of metas and of owned take it inside
	// their locks.
	mu     sync.Mutex
	into   store.Store[client.Object]
	shown  *store.View[client.Object] // reads into
	report func(context.Context, error)
	// lagging has the objects of which the metadata is behind. If they are deleted before it
	// catches up, or if the server lost the later states, no watch delivers them again.
	lagging map[store.Key]bool
	filled  chan struct{} // closed once the cache has the first objects
}

// watched is a cache that merged reads and follows.
type watched struct {
	*store.View[client.Object]
	of   *merged
	runs bool // false if there are no owned objects, so that no watch fills the cache
	// received is stored after the cache shows the state. So a reader that loads it first reads a
	// state that is not older.
	received atomic.Pointer[received]
}

// received says which changes a cache has received. The resource version of the cache would not do:
// a rejected object holds it back.
type received struct {
	version  string
	rejected map[store.Key]string // the version received before each rejection; empty if unknown
	synced   bool
}

// lacks reports whether the cache has not received the states of an object up to a version, because
// it is behind or because it rejected them. A rejected object without a key may be any object.
func (r *received) lacks(key store.Key, version string) bool {
	for _, key := range [...]store.Key{key, {}} {
		if before, ok := r.rejected[key]; ok && (before == "" || newer(version, before)) {
			return true
		}
	}
	return newer(version, r.version)
}

// next returns what a cache has received after a commit.
func (r *received) next(version string, rejected []store.Key, synced bool) *received {
	to := &received{version: version, synced: synced}
	for _, key := range rejected {
		before, ok := r.rejected[key]
		if !ok {
			before = r.version
		}
		if newer(before, version) {
			before = "" // the server was restored
		}
		if to.rejected == nil {
			to.rejected = make(map[store.Key]string, len(rejected))
		}
		to.rejected[key] = before
	}
	return to
}

// newMerged returns a merged that follows both caches. some is false if there are no owned objects.
func newMerged(metas, owned *store.View[client.Object], selector labels.Selector, some bool) *merged {
	m := &merged{selector: selector, lagging: map[store.Key]bool{}, filled: make(chan struct{})}
	m.metas = &watched{View: metas, of: m, runs: true}
	m.owned = &watched{View: owned, of: m, runs: some}
	return m
}

// follow begins to follow the caches.
func (m *merged) follow() {
	m.metas.Follow(m.metas)
	m.owned.Follow(m.owned)
}

// feed is for [informer.NewFed].
func (m *merged) feed(target feed.Target[client.Object]) feed.Group {
	m.into, m.report = target.Into, target.Report
	return feed.New(m)
}

// Run runs the watches until ctx ends.
func (m *merged) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, part := range m.parts {
		running.Go(func() { part.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// State returns the state of the watch of the metadata, which decides which objects exist. The
// metrics measure both watches.
func (m *merged) State() reflector.State { return m.parts[0].Informer().State() }

// Changed returns the Changed channel of the metadata watch.
func (m *merged) Changed(seen reflector.State) <-chan struct{} {
	return m.parts[0].Informer().Changed(seen)
}

// Synced returns a channel that is closed once both caches are filled, and the objects are shown.
func (m *merged) Synced() <-chan struct{} { return m.filled }

// outcome says what choose found out.
type outcome uint8

const (
	chosen      outcome = iota
	metaBehind          // leave what is shown until the metadata has caught up
	ownedBehind         // leave what is shown until the owned objects have a change
)

// choose returns the object to show under a key, or nil if it is deleted.
func (m *merged) choose(key store.Key) (client.Object, outcome) {
	metas, owns := m.metas.received.Load(), m.owned.received.Load()
	owned, isOwned := m.owned.Get(key)
	meta, exists := m.metas.Get(key)
	// missed reports whether the metadata does not show a state that it will show.
	missed := func(version string) bool {
		return metas.lacks(key, version) && (!exists || newer(version, meta.GetResourceVersion()))
	}
	if isOwned && (missed(owned.GetResourceVersion()) || exists && !newer(meta.GetResourceVersion(), owned.GetResourceVersion())) {
		return owned, chosen
	}
	last, is := m.shown.Get(key)
	switch {
	case is && m.owned.runs && missed(last.GetResourceVersion()) && !newer(last.GetResourceVersion(), owns.version):
		return nil, metaBehind // it is not owned any more
	case !exists:
		return nil, chosen
	case !m.selector.Matches(labels.Set(meta.GetLabels())):
		return meta, chosen
	case isOwned && owned.GetUID() == meta.GetUID() && (!is || !newer(last.GetResourceVersion(), owned.GetResourceVersion())):
		return owned, chosen // the watch of the owned objects is behind, but goes on
	}
	return nil, ownedBehind
}

// newer reports whether a resource version is known to be later than another.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// Start implements [store.Follower].
func (w *watched) Start(state *store.Snapshot[client.Object]) {
	w.received.Store(new(received).next(state.ResourceVersion(), w.Rejected(), state.Synced()))
}

// Commit implements [store.Follower].
func (w *watched) Commit(commit *store.Commit[client.Object]) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	version, was := commit.ObservedVersion, w.received.Load()
	if version == "" && commit.Origin != store.List {
		version = was.version
	}
	w.received.Store(was.next(version, w.Rejected(), commit.Synced))
	w.of.commit(commit)
}

// commit shows the changes of either cache.
func (m *merged) commit(commit *store.Commit[client.Object]) {
	select {
	case <-m.filled:
	default:
		m.fill()
		return
	}
	for i := range commit.Changes {
		m.show(commit.Changes[i].Key, &commit.Changes[i])
	}
	for key := range m.lagging {
		m.show(key, nil)
	}
}

// fill shows the first objects, once both caches have them.
func (m *merged) fill() {
	if !m.metas.received.Load().synced || !m.owned.received.Load().synced {
		return
	}
	metas := m.metas.Snapshot()
	first := make([]client.Object, 0, metas.Len())
	choose := func(key store.Key) {
		if object, what := m.choose(key); what == chosen && object != nil {
			first = append(first, object)
		}
	}
	for key := range metas.All() {
		choose(key)
	}
	for key := range m.owned.All() {
		if _, ok := metas.Get(key); !ok {
			choose(key)
			m.lagging[key] = true
		}
	}
	m.failed(m.into.Replace(first, metas.ResourceVersion()))
	close(m.filled)
}

// show writes what there is to show under a key. change is the change that was committed, if there
// is one. A deletion comes from the metadata, whose final state has no data, so it carries the
// object that was shown last.
func (m *merged) show(key store.Key, change *store.Change[client.Object]) {
	object, what := m.choose(key)
	if _, known := m.metas.Get(key); what == metaBehind || what == chosen && object != nil && !known {
		m.lagging[key] = true
	} else {
		delete(m.lagging, key)
	}
	if what != chosen {
		return
	}
	shown, is := m.shown.Get(key)
	switch {
	case object == nil && !is, is && object == shown:
	case object != nil:
		m.failed(m.into.Update(object))
	case change != nil && change.Type == store.Deletion && change.FinalStateKnown:
		m.failed(m.into.Delete(shown))
	default:
		m.failed(m.into.DeleteKey(key))
	}
}

func (m *merged) failed(err error) {
	if err != nil {
		m.report(context.Background(), err)
	}
}
