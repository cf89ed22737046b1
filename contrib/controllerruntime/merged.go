package controllerruntime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/byreference"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merged fills a cache with the owned objects and the metadata of all others. Handlers of that cache
// get one sequence of events for each object: a change of labels is a modification, never a deletion.
//
// Each watch may be behind the others. So merged does not store what the watches say, but what package
// byreference decides from all of them after each commit.
type merged struct {
	metas    *source
	place    place                                         // set before Run, as are the next three
	newOwned func(labels.Selector) *sharedInformer         // of a selector
	read     func(*store.View[client.Object]) (end func()) // lets Get read the objects of a source
	report   func(context.Context, error)                  // called without mu, because it may ask for the version, but within the lock of a watch: it must not subscribe

	// mu is held while the cache is written. The writers of the sources take it inside their locks.
	mu      sync.Mutex
	engine  *byreference.Engine
	owned   []*source
	running *running // nil unless Run runs
	into    store.Store[client.Object]
	shown   *store.View[client.Object] // reads into
	failed  map[store.Key]bool         // the cache rejected what is to be shown
	filled  chan struct{}              // closed once the cache has the first objects
	// refused has the watches whose versions cannot be compared, until their next list. Nothing is shown
	// meanwhile.
	refused  map[*byreference.Watch]bool
	restored bool    // a restore of the server was noticed meanwhile
	failures []error // to report

	// whole has the objects that are shown whole. It is written with into. An index of into could not
	// tell them: an object that has no more than metadata does not change there when it becomes whole.
	whole *store.Cache[client.Object]
}

// source is the cache of one watch.
type source struct {
	*store.View[client.Object]
	of       *merged
	informer *sharedInformer
	watch    *byreference.Watch
	selector labels.Selector // nil for the metadata
	shown    atomic.Bool     // its first objects are shown
	unfollow func()
	unread   func()
	stop     context.CancelFunc // nil unless it runs
	ended    chan struct{}
	over     chan struct{} // closed once it is not to be waited for: it is dropped, or its run has ended
	finish   func()        // closes over
}

// running is one call of Run.
type running struct {
	ctx   context.Context
	parts sync.WaitGroup
}

// labelled is an object whose transform changed its labels: ownership is decided by the labels that
// the server knows.
type labelled struct {
	client.Object
	Before labels.Set
}

// newMerged returns a merged without owned objects.
func newMerged() *merged {
	return &merged{
		engine: byreference.New(), failed: map[store.Key]bool{}, refused: map[*byreference.Watch]bool{},
		filled: make(chan struct{}), whole: store.New(store.ObjectKey[client.Object]),
	}
}

// follow begins to follow the metadata.
func (m *merged) follow(metas *store.View[client.Object], i *sharedInformer) {
	m.metas = &source{View: metas, of: m, informer: i, watch: m.engine.Metadata()}
	m.metas.unfollow = metas.Follow(m.metas)
}

// add adds the objects of a selector. They are shown when the first list has arrived.
func (m *merged) add(selector labels.Selector) *source {
	i := m.newOwned(selector)
	return m.addSource(&source{View: i.Informer().Cache(), informer: i, selector: selector})
}

func (m *merged) addSource(p *source) *source {
	p.of, p.over = m, make(chan struct{})
	p.finish = sync.OnceFunc(func() { close(p.over) })
	m.mu.Lock()
	p.watch = m.engine.Add(p.selector)
	m.mu.Unlock()
	p.unread = m.read(p.View)
	p.unfollow = p.Follow(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = append(m.owned, p) // now, because Run starts what is here
	if m.running != nil {
		p.startLocked(m.running)
	}
	return p
}

// drop ends the watch of a selector. Its objects stay, with only their metadata.
func (m *merged) drop(p *source) {
	p.finish()
	m.mu.Lock()
	m.owned = slices.DeleteFunc(m.owned, func(other *source) bool { return other == p })
	stop := p.stop
	m.mu.Unlock()
	if stop != nil {
		stop()
		<-p.ended
	}
	p.unfollow()
	p.unread()
	m.mu.Lock()
	defer m.unlock()
	m.engine.Remove(p.watch)
	delete(m.refused, p.watch)
	m.refresh(p.View)
}

// unlock releases mu, and reports the failures.
func (m *merged) unlock() {
	failures, ctx := m.failures, context.Background()
	if m.running != nil {
		ctx = m.running.ctx
	}
	m.failures = nil
	m.mu.Unlock()
	for _, err := range failures {
		m.report(ctx, err)
	}
}

// feed is for [informer.NewFed].
func (m *merged) feed(target feed.Target[client.Object]) feed.Group {
	m.into = target.Into
	return feed.New(m)
}

// Run runs the watches until ctx ends.
func (m *merged) Run(ctx context.Context) error {
	m.mu.Lock()
	r := &running{ctx: ctx}
	m.running = r
	m.metas.startLocked(r)
	for _, p := range m.owned {
		p.startLocked(r)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.running = nil // no further watch is started
	m.mu.Unlock()
	r.parts.Wait()
	return nil
}

func (p *source) startLocked(r *running) {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(r.ctx)
	ended := make(chan struct{})
	p.ended = ended
	r.parts.Go(func() {
		defer close(ended)
		p.informer.RunWithContext(ctx)
	})
}

// informers returns the informers of all watches.
func (m *merged) informers() (all []*informer.Informer[client.Object]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range append([]*source{m.metas}, m.owned...) {
		all = append(all, p.informer.Informer())
	}
	return all
}

// State returns the state of the watch of the metadata, which decides which objects exist. The
// metrics measure all watches.
func (m *merged) State() reflector.State { return m.metas.informer.Informer().State() }

// Changed returns the Changed channel of the metadata watch.
func (m *merged) Changed(seen reflector.State) <-chan struct{} {
	return m.metas.informer.Informer().Changed(seen)
}

// Synced returns a channel that is closed once all caches are filled, and the objects are shown.
func (m *merged) Synced() <-chan struct{} { return m.filled }

func (m *merged) isFilled() bool { return lifecycle.IsClosed(m.filled) }

// version returns the version up to which all caches have every change. The merged cache has the
// versions of its objects, which come from several watches and so may go back.
func (m *merged) version() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.engine.Version()
}

// Start implements [store.Follower]. The cache is empty.
func (p *source) Start(*store.Snapshot[client.Object]) {}

// Commit implements [store.Follower].
func (p *source) Commit(commit *store.Commit[client.Object]) {
	m := p.of
	m.mu.Lock()
	defer m.unlock()
	again, err := m.engine.Observe(p.watch, byreference.NewsOf(commit, p.View))
	if err != nil {
		if !m.refused[p.watch] {
			m.refused[p.watch] = true
			m.failure(err)
		}
		return
	}
	ended := m.refused[p.watch] && commit.Origin == store.List
	if ended {
		delete(m.refused, p.watch)
	}
	m.restored = m.restored || again.Restored
	if ended || m.restored || !m.isFilled() || len(m.refused) > 0 {
		m.refresh(p.View)
	} else {
		for i := range commit.Changes {
			m.show(commit.Changes[i].Key, &commit.Changes[i], false)
		}
		for _, key := range again.Keys {
			m.show(key, nil, false)
		}
		if commit.Origin == store.List {
			for key := range maps.Clone(m.failed) {
				m.show(key, nil, false)
			}
		}
	}
	if len(m.refused) == 0 && m.isFilled() && p.watch.Synced() {
		p.shown.Store(true)
	}
}

// refresh decides all keys again, unless versions cannot be compared. other is a view with keys that the
// sources may lack.
func (m *merged) refresh(other *store.View[client.Object]) {
	switch {
	case len(m.refused) > 0:
		return
	case !m.isFilled():
		m.fill()
		m.restored = false // nothing was shown before
		return
	}
	for key := range m.keys(other) {
		m.show(key, nil, m.restored)
	}
	m.restored = false
	for _, p := range m.owned {
		if p.watch.Synced() {
			p.shown.Store(true)
		}
	}
}

// facts returns what is known of a key, and the objects that may be shown.
func (m *merged) facts(key store.Key) (f byreference.Facts, meta, owned client.Object) {
	if object, ok := m.metas.Get(key); ok {
		f.Metadata, f.Labels, meta = store.VersionOf(object), object.GetLabels(), object
		if l, ok := object.(*labelled); ok {
			f.Labels, meta = l.Before, l.Object
		}
	}
	for _, p := range m.owned {
		if object, ok := p.Get(key); ok && byreference.Newest(store.VersionOf(object), f.Owned) {
			f.Owned, owned = store.VersionOf(object), object
		}
	}
	return f, meta, owned
}

// decide returns what to do under a key, and the object to show.
func (m *merged) decide(key store.Key, lost bool) (byreference.Action, client.Object) {
	f, meta, owned := m.facts(key)
	f.Lost = lost
	if shown, ok := m.shown.Get(key); ok {
		f.Shown = store.VersionOf(shown)
	}
	action := m.engine.Decide(key, f)
	if action == byreference.ShowOwned {
		return action, owned
	}
	return action, meta
}

// fill shows the first objects, once all caches have them.
func (m *merged) fill() {
	if !m.metas.watch.Synced() || slices.ContainsFunc(m.owned, func(p *source) bool { return !p.watch.Synced() }) {
		return
	}
	var first []client.Object
	for key := range m.keys() {
		action, object := m.decide(key, false)
		if action == byreference.ShowMetadata || action == byreference.ShowOwned && m.wrote(key, m.whole.Update(object)) {
			first = append(first, object)
		}
	}
	err := m.into.Replace(first, m.metas.ResourceVersion())
	m.failure(err)
	if rejected, ok := errors.AsType[*store.RejectedError](err); ok {
		for _, r := range rejected.Rejections {
			m.failed[r.Key] = true
		}
	}
	for _, p := range m.owned {
		p.shown.Store(true)
	}
	close(m.filled)
}

// keys returns all keys of the caches and of some others.
func (m *merged) keys(others ...*store.View[client.Object]) map[store.Key]bool {
	views := append(others, m.metas.View, m.shown)
	for _, p := range m.owned {
		views = append(views, p.View)
	}
	all := map[store.Key]bool{}
	for _, view := range views {
		for key := range view.All() {
			all[key] = true
		}
	}
	return all
}

// show writes what there is to show under a key. change is the change that was committed, if there
// is one. A deletion comes from the metadata, whose final state has no data, so it carries the
// object that was shown last.
func (m *merged) show(key store.Key, change *store.Change[client.Object], lost bool) {
	action, object := m.decide(key, lost)
	shown, is := m.shown.Get(key)
	delete(m.failed, key)
	if action == byreference.Keep {
		return
	}
	recreated := action != byreference.Remove && is && shown.GetUID() != object.GetUID()
	if _, held := m.whole.Get(key); held && (recreated || action != byreference.ShowOwned) {
		m.failure(m.whole.DeleteKey(key))
	}
	switch {
	case action == byreference.Remove && change != nil && change.Type == store.Deletion && change.FinalStateKnown:
		m.failure(m.into.Delete(shown))
	case action == byreference.Remove || recreated:
		m.failure(m.into.DeleteKey(key))
	}
	if action == byreference.Remove || action == byreference.ShowOwned && !m.wrote(key, m.whole.Update(object)) || is && object == shown {
		return
	}
	m.wrote(key, m.into.Update(object))
}

// wrote reports whether a write succeeded. If not, the key is decided again after the next list.
func (m *merged) wrote(key store.Key, err error) bool {
	if err != nil {
		m.failed[key] = true
		m.failure(err)
	}
	return err == nil
}

func (m *merged) failure(err error) {
	if err != nil {
		m.failures = append(m.failures, err)
	}
}
