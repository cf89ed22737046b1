package controllerruntime

import (
	"context"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merged fills a cache with the owned objects and the metadata of all others. Handlers of that cache
// get one sequence of events for each object: a change of labels is a modification, never a
// deletion.
//
// Each watch may be behind the other. So merged does not store what the watches say. After each
// commit of either cache, it derives from both what to show of the changed objects: see choose.
type merged struct {
	parts        []*sharedInformer // which run
	metas, owned *store.View[client.Object]
	selector     labels.Selector // of owned

	// mu is held while the cache is written. The writers of metas and of owned take it inside
	// their locks.
	mu     sync.Mutex
	into   store.Store[client.Object]
	shown  *store.View[client.Object] // reads into
	report informer.Report
	// lagging has the shown objects that the metadata lacks, because it is behind. If they are deleted
	// before it catches up, no watch delivers them again.
	lagging map[store.Key]bool
	filled  chan struct{} // closed once the cache has the first objects
}

// feed is for [informer.NewFed].
func (m *merged) feed(into store.Store[client.Object], report informer.Report) informer.Feed {
	m.into, m.report = into, report
	return m
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

// State returns the state of the watch of the metadata.
func (m *merged) State() reflector.State { return m.parts[0].Informer().State() }

// Changed returns the Changed channel of the metadata watch.
func (m *merged) Changed(seen reflector.State) <-chan struct{} {
	return m.parts[0].Informer().Changed(seen)
}

// Synced returns a channel that is closed once both caches are filled, and the objects are shown.
func (m *merged) Synced() <-chan struct{} { return m.filled }

// choose returns the object to show under a key, or nil if it is deleted. It returns false to leave
// what is shown: one watch is behind the other, and its next event decides.
func (m *merged) choose(key store.Key) (client.Object, bool) {
	owned, isOwned := m.owned.Get(key)
	meta, exists := m.metas.Get(key)
	var upTo string // which states the metadata knows
	if !exists {
		state := m.metas.Snapshot() // the version must be that of a state without the object
		meta, exists = state.Get(key)
		upTo = state.ResourceVersion()
	}
	if exists {
		upTo = meta.GetResourceVersion()
	}
	if isOwned && (newer(owned.GetResourceVersion(), upTo) || exists && !newer(upTo, owned.GetResourceVersion())) {
		return owned, true
	}
	last, is := m.shown.Get(key)
	switch {
	case is && newer(last.GetResourceVersion(), upTo) && !newer(last.GetResourceVersion(), m.owned.ResourceVersion()):
		return nil, false // it is not owned any more, and the metadata is behind
	case !exists:
		return nil, true
	case !m.selector.Matches(labels.Set(meta.GetLabels())):
		return meta, true
	case isOwned && owned.GetUID() == meta.GetUID() && (!is || !newer(last.GetResourceVersion(), owned.GetResourceVersion())):
		return owned, true // the watch of the owned objects is behind, but goes on
	}
	return nil, false // that watch did not deliver this state yet
}

// newer reports whether a resource version is known to be later than another.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// Start implements [store.Follower].
func (*merged) Start(*store.Snapshot[client.Object]) {}

// Commit implements [store.Follower], for both caches.
func (m *merged) Commit(commit *store.Commit[client.Object]) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	metas := m.metas.Snapshot()
	if !metas.Synced() || !m.owned.Snapshot().Synced() {
		return
	}
	first := make([]client.Object, 0, metas.Len())
	choose := func(key store.Key) {
		if object, ok := m.choose(key); ok && object != nil {
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
// is one.
func (m *merged) show(key store.Key, change *store.Change[client.Object]) {
	object, ok := m.choose(key)
	if _, known := m.metas.Get(key); known || ok && object == nil {
		delete(m.lagging, key)
	} else {
		m.lagging[key] = true
	}
	if !ok {
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
