package refer

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// form tells informers apart: all references to a kind, in one type of object, share one.
type form struct {
	kind   schema.GroupVersionKind
	object reflect.Type
}

// reference is to an object, or to those of a selection.
type reference struct {
	form
	key    store.Key // without a name it is a selection in the namespace, or in all if that is empty
	labels string    // of a selection
}

// keys are those of primary objects.
type keys map[store.Key]struct{}

// selection is a selector that at least one key refers by.
type selection struct {
	selector labels.Selector
	by       keys
}

// references are those of all keys in one Run.
type references struct {
	kinds   *fleet.Fleet
	name    string               // of the reconciler
	has     func(store.Key) bool // whether the primary cache has the object of a key
	enqueue func(store.Key)      // because of a condition
	// enqueueEvent queues a key because of an object.
	enqueueEvent func(context.Context, eventqueue.Event[metav1.Object], store.Key)
	follows      sync.WaitGroup // one follow for each watch

	// mu protects the fields below it, and those of a watch, a primary and a call. It is never held while
	// a method of a selector runs, or a function of the fleet.
	mu        sync.Mutex
	watches   map[form]*watch        // each has references
	primaries map[store.Key]*primary // each has references, or a call
}

// primary is a key that refers to something.
type primary struct {
	refers map[reference]struct{}
	call   *call // the running one, or nil
	// cleaning is true if the last call was for a missing object and failed: it is repeated, and its
	// references last until it succeeds, or until uncalled.
	cleaning bool
}

// call is one call of the reconcile function.
type call struct {
	of   *references
	key  store.Key
	gone bool                   // there is no object: the call cleans up
	refs map[reference]struct{} // that this call made
	over bool
}

type callKey struct{}

// watch is a kind that keys refer to. Its fields are guarded by references.mu, except for the last three.
type watch struct {
	form
	named    map[store.Key]keys
	selected map[string]map[string]*selection // by namespace and by the text of the selector
	count    int                              // references of all keys
	attached
	// condition is that of the informer when the keys that refer to it were queued last. differs is true if
	// a call has seen another one since, so that they are due once more.
	condition string
	differs   bool

	look  chan struct{}            // has a value if differs has become true
	ended chan struct{}            // closed when count becomes 0 again
	again func() (attached, error) // attaches another informer; only follow calls it
}

// attached is the informer of a watch. follow replaces it if it fails.
type attached struct {
	owner    *fleet.Owner
	informer followed        // a *fleet.Wanted of the form
	done     <-chan struct{} // of the subscription
}

// followed is an informer of any type.
type followed interface {
	State() reflector.State
	Changed(seen reflector.State) <-chan struct{}
	Synced() <-chan struct{}
	Ready() error
}

// detach ends the interest in the informer, and waits for a running handler.
func (a attached) detach() {
	a.owner.Leave()
	<-a.done
}

func newReferences(kinds *fleet.Fleet, name string) *references {
	return &references{kinds: kinds, name: name, watches: map[form]*watch{}, primaries: map[store.Key]*primary{}}
}

// close leaves everything. No call runs any more.
func (s *references) close() {
	s.mu.Lock()
	for key, p := range s.primaries {
		s.keepLocked(key, p, nil)
	}
	s.mu.Unlock()
	s.follows.Wait()
}

// begin begins a call. There is one at a time for a key.
func (s *references) begin(key store.Key, gone bool) *call {
	c := &call{of: s, key: key, gone: gone, refs: map[reference]struct{}{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.primaries[key]
	if p == nil {
		p = &primary{refers: map[reference]struct{}{}}
		s.primaries[key] = p
	}
	p.call = c
	return c
}

// end ends a call. The look at the primary cache comes before another goroutine can see that the call is
// over: if the object leaves later, its event comes later, and leave finds no call.
func (c *call) end(err error) {
	s := c.of
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.primaries[c.key]
	c.over, p.call = true, nil
	repeated := err != nil && !eventqueue.IsPermanent(err)
	keep := c.refs
	switch {
	case !s.has(c.key) && !(c.gone && repeated):
		// The object left during the call, or its cleanup is done. No call need follow, as when the object
		// only stopped matching the selector of the primary informer. A cleanup refers for itself.
		keep = nil
	case err != nil:
		keep = p.refers
	}
	p.cleaning = c.gone && repeated
	s.keepLocked(c.key, p, keep)
}

// leave ends the references of a key whose object left the primary informer, because a call need not follow.
// A running call decides at its end. A cleanup may have begun and failed before leave hears of the deletion.
func (s *references) leave(key store.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.primaries[key]; p != nil && p.call == nil && !p.cleaning && !s.has(key) {
		s.keepLocked(key, p, nil)
	}
}

// uncalled ends the references of a key without a call, because its object exists outside of the primary
// informer. A cleanup of the key may have failed before, when there was no object, and is not repeated.
func (s *references) uncalled(key store.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.primaries[key]; p != nil && !s.has(key) { // with an object, a call follows
		p.cleaning = false
		s.keepLocked(key, p, nil)
	}
}

// keepLocked drops all references of a key but some.
func (s *references) keepLocked(key store.Key, p *primary, keep map[reference]struct{}) {
	for ref := range p.refers {
		if _, ok := keep[ref]; !ok {
			delete(p.refers, ref)
			s.dropLocked(key, ref)
		}
	}
	if len(p.refers) == 0 && p.call == nil {
		delete(s.primaries, key)
	}
}

// refer registers a reference, and returns its watch and the informer that the watch has now. The first
// reference of a form makes the watch. No lock is held meanwhile: attach calls the fleet, and code of the user,
// which may panic. If another call was quicker, the watch of that one counts.
func (c *call) refer(ref reference, selector labels.Selector, attach func(*watch) (attached, error)) (*watch, followed, error) {
	if w, from, err := c.register(ref, selector, nil); w != nil || err != nil {
		return w, from, err
	}
	made, err := newWatch(ref.form, attach)
	if err != nil {
		return nil, nil, err
	}
	w, from, err := c.register(ref, selector, made)
	if w != made {
		made.detach()
	}
	return w, from, err
}

// register registers a reference with the watch of its form, which is made unless there is one already. If
// there is none and made is nil, it returns none.
func (c *call) register(ref reference, selector labels.Selector, made *watch) (*watch, followed, error) {
	s := c.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.over {
		return nil, nil, errNoCall
	}
	w := s.watches[ref.form]
	if w == nil {
		if made == nil {
			return nil, nil, nil
		}
		w = made
		s.watches[ref.form] = w
		s.follows.Go(func() { s.follow(w) })
	}
	c.refs[ref] = struct{}{}
	if refers := s.primaries[c.key].refers; !contains(refers, ref) {
		refers[ref] = struct{}{}
		w.add(c.key, ref, selector)
	}
	return w, w.informer, nil
}

func contains[K comparable](set map[K]struct{}, one K) bool { _, ok := set[one]; return ok }

func newWatch(of form, attach func(*watch) (attached, error)) (*watch, error) {
	w := &watch{form: of, named: map[store.Key]keys{}, selected: map[string]map[string]*selection{}, look: make(chan struct{}, 1), ended: make(chan struct{})}
	var err error
	if w.attached, err = attach(w); err != nil {
		return nil, err
	}
	w.again = func() (attached, error) { return attach(w) }
	w.condition = conditionOf(problemOf(w.informer))
	return w, nil
}

// add adds a reference of a key to the index.
func (w *watch) add(key store.Key, ref reference, selector labels.Selector) {
	w.count++
	if ref.key.Name != "" {
		if w.named[ref.key] == nil {
			w.named[ref.key] = keys{}
		}
		w.named[ref.key][key] = struct{}{}
		return
	}
	in := w.selected[ref.key.Namespace]
	if in == nil {
		in = map[string]*selection{}
		w.selected[ref.key.Namespace] = in
	}
	if in[ref.labels] == nil {
		in[ref.labels] = &selection{selector, keys{}}
	}
	in[ref.labels].by[key] = struct{}{}
}

// dropLocked removes a reference of a key from the index, and ends the watch with its last one.
func (s *references) dropLocked(key store.Key, ref reference) {
	w := s.watches[ref.form]
	w.count--
	if ref.key.Name != "" {
		if delete(w.named[ref.key], key); len(w.named[ref.key]) == 0 {
			delete(w.named, ref.key)
		}
	} else {
		in := w.selected[ref.key.Namespace]
		if delete(in[ref.labels].by, key); len(in[ref.labels].by) == 0 {
			delete(in, ref.labels)
		}
		if len(in) == 0 {
			delete(w.selected, ref.key.Namespace)
		}
	}
	if w.count == 0 {
		delete(s.watches, ref.form)
		close(w.ended)
	}
}

// changed queues the keys that refer to an object, as it is or as it was.
func (s *references) changed(ctx context.Context, w *watch, event eventqueue.Event[metav1.Object]) {
	key, states := event.Key, []labels.Set{event.Object.GetLabels()}
	if event.Type == eventqueue.Modification {
		states = append(states, event.Prior.GetLabels())
	}
	namespaces := []string{""}
	if key.Namespace != "" {
		namespaces = append(namespaces, key.Namespace)
	}
	s.mu.Lock()
	due := maps.Clone(w.named[key])
	var selections []*selection
	for _, namespace := range namespaces {
		selections = slices.AppendSeq(selections, maps.Values(w.selected[namespace]))
	}
	s.mu.Unlock()
	selections = slices.DeleteFunc(selections, func(one *selection) bool {
		return !slices.ContainsFunc(states, func(state labels.Set) bool { return one.selector.Matches(state) })
	})
	if due == nil {
		due = keys{}
	}
	s.mu.Lock()
	for _, one := range selections {
		maps.Copy(due, one.by)
	}
	s.mu.Unlock()
	for key := range due {
		s.enqueueEvent(ctx, event, key)
	}
}

// problemOf returns why the cache of an informer does not show what the server has, or nil. A watch that is
// broken is none, because it goes on, and its changes come as events.
func problemOf(of followed) error {
	state := of.State()
	switch {
	case state.Phase == reflector.Stopped && state.Err != nil:
		return state.Err
	case !lifecycle.IsClosed(of.Synced()):
		return of.Ready()
	case state.Phase == reflector.Stopped:
		return errStopped
	}
	return nil
}

var errStopped = errors.New("the fleet does not run any more: run it for as long as the reconciler")

const (
	failed   = "failed"   // the informer has ended by itself
	unsynced = "unsynced" // its first list is not complete
	stopped  = "stopped"  // the fleet has ended
)

// conditionOf is a problem without its details: another detail is no reason to reconcile keys.
func conditionOf(problem error) string {
	if problem == nil {
		return ""
	}
	if e, ok := errors.AsType[*fleet.NotServedError](problem); ok {
		return string(e.Reason)
	}
	if errors.Is(problem, reflector.ErrNotServed) {
		return "not served" // the reflector has got 404, and the fleet has not said why yet
	}
	if _, ok := errors.AsType[*informer.SyncError](problem); ok {
		return unsynced
	}
	if errors.Is(problem, errStopped) {
		return stopped
	}
	return failed
}

// saw records which problem a call saw. If it is another one than the keys were queued for last, they are queued
// once more: the condition may have changed twice since, so that follow would notice nothing.
func (s *references) saw(w *watch, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conditionOf(problem) == w.condition || w.differs {
		return
	}
	w.differs = true
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// renewPause is after what time an informer that has ended by itself is replaced.
const renewPause = time.Minute

// follow queues the keys that refer to a kind when the condition of its informer changes, until none refers
// to it. It leaves the informer then.
func (s *references) follow(w *watch) {
	now := w.attached // only follow changes it
	defer func() { now.detach() }()
	var seen reflector.State // a zero state differs from the first one
	var renew <-chan time.Time
	synced := now.informer.Synced() // nil if it is known to be, or does not matter yet
	for {
		select {
		case <-now.informer.Changed(seen):
		case <-synced: // the state need not change with it
		case <-w.look:
		case <-renew: // it is still failed, else Changed would have come first
			if other, err := w.again(); err == nil {
				now.detach()
				now = other
			}
		case <-w.ended:
			return
		}
		seen = now.informer.State()
		condition := conditionOf(problemOf(now.informer))
		renew, synced = nil, nil
		switch condition {
		case failed:
			renew = time.After(renewPause)
		case unsynced:
			synced = now.informer.Synced()
		}
		for _, key := range s.note(w, now, condition) {
			s.enqueue(key)
		}
	}
}

// note records the condition of an informer, and returns the keys that are due because of it.
func (s *references) note(w *watch, of attached, condition string) []store.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.attached = of
	if condition == w.condition && !w.differs {
		return nil
	}
	w.condition, w.differs = condition, false
	due := keys{}
	for _, by := range w.named {
		maps.Copy(due, by)
	}
	for _, in := range w.selected {
		for _, one := range in {
			maps.Copy(due, one.by)
		}
	}
	return slices.Collect(maps.Keys(due))
}
