package reconcile

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// written is a write of a call. One that is remembered after the call has no Object and no waits.
type written struct {
	ownwrites.Write
	version store.Version // of Object
	final   bool          // Object was being deleted, and had no finalizers left
	waits   []wait        // until the caches show it
	ended   time.Time     // when the call ended
}

// remembered returns what stays of a write after its call.
func (w written) remembered() written {
	w.Object, w.waits = nil, nil
	return w
}

// call is one call of the reconcile function, and its context.
type call struct {
	context.Context
	run    *run
	key    store.Key
	object any // of the primary cache; nil if there is none. Set before the function is called.

	// mu protects the fields below it.
	mu     sync.Mutex
	logger *zap.Logger // nil until first use
	writes []written
}

// callOf returns the call that a context belongs to, or nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(ownwrites.Key{}).(*call)
	return c
}

// Value implements [context.Context], hence any.
func (c *call) Value(key any) any {
	if key == (ownwrites.Key{}) {
		return c
	}
	return c.Context.Value(key)
}

// Record implements [ownwrites.Recorder]. It reads the version here, during the user's own call, and the versions of
// the caches, because only later lists can show that the server has lost the write.
func (c *call) Record(write ownwrites.Write) {
	if stream.IsNil(write.Object) {
		return
	}
	w := written{Write: write, version: store.VersionOf(write.Object)}
	w.final = write.Object.GetDeletionTimestamp() != nil && len(write.Object.GetFinalizers()) == 0
	w.waits = c.run.waits(c.key, w)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known(w.version) {
		// A client reports its writes, and its caller may report them again. A write that changes
		// nothing returns the state of an earlier one. Only one write made that state.
		for i := range c.writes {
			if one := &c.writes[i]; one.version == w.version && one.Deleted == w.Deleted && one.final == w.final {
				if w.certain() {
					one.Created, one.Replaced = w.Created, w.Replaced
				}
				return
			}
		}
	}
	c.writes = append(c.writes, w)
}

func (c *call) written() []written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// RecordWrite reports that the reconcile function of ctx has created or changed an object. Pass the
// object as the API server returned it. The reconciler does not reconcile the key again until the
// caches show the object in that state or a later one. So each call sees at least the writes of the
// call before.
//
// The caches are those of the reconciler's informers whose objects have the type S, and the kind of
// object as far as both state it. The reconciler does not wait for objects of another type, and
// therefore not for an informer made by [informer.NewTransformed] with another type. If
// [informer.Informer.Selects] shows that a cache leaves the object out, the reconciler waits only until
// the cache holds no earlier state of the object.
//
// A cache may leave an object out for another reason, such as an object outside of the namespace of
// a generated client. The wait then ends when the cache has reached a later version, at the latest
// with a bookmark, or as [WithReadYourWritesTimeout] says. Use package scoped for such a namespace.
//
// The wait also ends when the object is deleted. If a list shows neither the object nor its deletion, no event
// tells that it is gone. After a creation by package write or a client.Resource, the reconciler therefore acts as on
// the event of the deletion. To be certain, it sends a GET first if the cache has a selector, and repeats it while the
// server fails. A creation by another client is not known as one, so such a deletion causes no call. If the write took
// the last finalizer of an object that is being deleted, the wait ends when the cache does not hold the object, or
// holds it without finalizers.
//
// In a reconciler of several clusters, RecordWrite assumes that the write went to the key's cluster.
//
// The functions of package write and the methods of client.Resource call RecordWrite by themselves,
// with the context that they get. Call it after a write by another client.
//
// RecordWrite does nothing outside of a reconcile function, or for a nil object. It may be called
// from any goroutine until the function returns.
func RecordWrite[S metav1.Object](ctx context.Context, object S) {
	ownwrites.Report(ctx, ownwrites.Write{Object: object})
}

// RecordDelete is [RecordWrite] for a deleted object. Pass its last known state. The reconciler
// waits until the caches do not hold the object any more, or show its deletion timestamp: it may
// have finalizers. If object was in deletion already, without finalizers, it waits as RecordWrite says.
func RecordDelete[S metav1.Object](ctx context.Context, object S) {
	ownwrites.Report(ctx, ownwrites.Write{Object: object, Deleted: true})
}

// Logger returns the reconciler's logger, with its name and the key on every line. Outside of a
// reconcile function the logger logs nothing.
func Logger(ctx context.Context) *zap.Logger {
	c := callOf(ctx)
	if c == nil {
		return zap.NewNop()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logger == nil {
		c.logger = c.run.logger.With(zap.String("reconciler", c.run.name), zap.Stringer("key", c.key))
	}
	return c.logger
}

func (w *watching[S]) has(of written) bool {
	if _, ok := of.Object.(S); !ok {
		return false
	}
	// Objects of every kind may have the type S. A cache holds objects of one kind.
	held, ok := w.sample()
	return !ok || mayBeOfOneKind(held, of.Object)
}

// sample returns an object of the cache. It remembers a key, because iterating takes a snapshot, and the commit after
// a snapshot costs more.
func (w *watching[S]) sample() (held S, ok bool) {
	cache := w.informer.Cache()
	if key := w.sampled.Load(); key != nil {
		held, ok = cache.Get(*key)
	}
	if ok || cache.Len() == 0 {
		return held, ok
	}
	for key, held := range cache.All() {
		w.sampled.Store(&key)
		return held, true
	}
	return held, false
}

// mayBeOfOneKind reports whether two objects may have one kind. Those of generated clients do not state theirs.
func mayBeOfOneKind(a, b any) bool {
	one, other := kindOf(a), kindOf(b)
	if one.Empty() || other.Empty() {
		return reflect.TypeOf(a) == reflect.TypeOf(b)
	}
	return one == other
}

// kindOf returns the kind that an object states; empty if it states none, or only that it is metadata.
func kindOf(object any) schema.GroupKind {
	var stated schema.ObjectKind
	if of, ok := object.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		stated = of.GetObjectKind()
	}
	if stream.IsNil(stated) || stated.GroupVersionKind().Group == metav1.GroupName {
		return schema.GroupKind{}
	}
	return stated.GroupVersionKind().GroupKind()
}

// An event that shows only a write of a call for the same key needs no further call. That is certain
// if the write replaced a state that is known: a write without a precondition may have replaced any
// state, and if it changed nothing, the server returns the state of another writer as its result.

// maxOwn is the number of remembered own writes for a key, to recognize their events. It is also
// the number of kept events during a call.
const maxOwn = 16

// ownLife is how long an own write waits for its event. Some have none: a predicate rejects it, or
// the object belongs to other keys. An event that comes later only costs a call.
const ownLife = 5 * time.Minute

// known reports whether a version identifies a state.
func known(v store.Version) bool { return v.UID != "" && v.ResourceVersion != "" }

// earlier reports whether a version is an earlier state of the same object than another one.
func earlier(v, than store.Version) bool {
	if v.UID != than.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(v.ResourceVersion, than.ResourceVersion)
	return err == nil && order < 0
}

// certain reports whether it is certain what the write replaced, and that it changed something.
// The server ignores a precondition of "0", and may refuse or ignore others that are no numbers.
func (w written) certain() bool {
	if w.Deleted || !known(w.version) {
		return false
	}
	_, err := resourceversion.CompareResourceVersion(w.Replaced, w.Replaced)
	return w.Created || err == nil && w.Replaced != w.version.ResourceVersion
}

// shown reports whether an event shows the write and no other change. The state before a
// modification must be the one that the write replaced. Otherwise the watch left out states, which
// may be those of other writers.
func (w written) shown(t trigger) bool {
	switch {
	case t.of != w.version || t.listed:
		return false
	case w.Created:
		return t.added
	}
	return t.prior == store.Version{UID: w.version.UID, ResourceVersion: w.Replaced}
}

// keep reports whether to ignore an event for now: it shows an own write of the key, or a running
// call has to end first to decide that.
func (r *run) keep(t trigger) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	if s == nil {
		return false
	}
	kept := s.keep(t)
	r.tidyLocked(t.key, s)
	return kept
}

func (s *state) keep(t trigger) bool {
	if s.running {
		if len(s.during) < maxOwn {
			s.during = append(s.during, t)
			return true
		}
		s.crowded = true
	}
	return s.shows(t)
}

// shows reports whether an event shows only an own write. It forgets the writes that will have no
// event any more.
func (s *state) shows(t trigger) bool {
	own := slices.ContainsFunc(s.own, func(w written) bool { return w.shown(t) })
	// The events of an object keep their order. A list shows only the last state, and a version may
	// come again with another content.
	s.forget(func(w written) bool {
		return w.version == t.of || earlier(w.version, t.of) || t.gone && w.version.UID == t.of.UID
	})
	return own
}

// forget forgets some own writes.
func (s *state) forget(which func(written) bool) {
	if s.own = slices.DeleteFunc(s.own, which); len(s.own) == 0 {
		s.own = nil
	}
}

// foreign ends a call. It remembers the writes of the call, and returns the events of other writers
// during the call.
func (s *state) foreign(wrote []written) []trigger {
	if !s.crowded { // else the events of these writes may have passed
		s.own = append(s.own, wrote...)
	}
	during := slices.DeleteFunc(s.during, s.shows)
	s.during, s.crowded = nil, false
	if excess := len(s.own) - maxOwn; excess > 0 {
		s.own = slices.Delete(s.own, 0, excess)
	}
	return during
}

// heardOf returns the own writes for which the sources deliver events.
func (r *run) heardOf(writes []written, now time.Time) []written {
	var all []written
	for _, w := range writes {
		if w.certain() && slices.ContainsFunc(r.sources, func(source source) bool { return source.has(w) && source.of().Selects(w.Object) }) {
			w.ended = now
			all = append(all, w.remembered())
		}
	}
	return all
}

// sweepLocked forgets old own writes of all keys, at most once in ownLife. The writes of a key that
// waits for a cache stay: their events are still to come.
func (r *run) sweepLocked(now time.Time) {
	if now.Sub(r.swept) < ownLife {
		return
	}
	r.swept = now
	for key, s := range r.states {
		if s.hold == nil && s.own != nil {
			s.forget(func(w written) bool { return now.Sub(w.ended) >= ownLife })
			r.tidyLocked(key, s)
		}
	}
}

// failing is what a key remembers while its calls fail, so that no event of their own writes ends
// the back-off early. A function that writes its error into the status of its object and returns it
// would otherwise be called again for that very write: 3,000 times a minute instead of about 20.
//
// A write counts as own if an event shows its UID and version. Such an event may hide a change of
// another writer, because a write that changes nothing returns the version that the other writer
// made. That change is then reconciled when the back-off ends, and not lost. So this test may be less
// strict than the one of [IgnoreOwnWrites], which drops events.
type failing struct {
	// retried is true from the end of a failed call that reported writes to the beginning of the
	// next call. The queue has the key meanwhile.
	retried bool
	wrote   []written // by the calls since the last success; without their objects
}

// minRemembered is the number of own writes that a failing key remembers at least, beside all of its
// last call. Events of earlier calls seldom come that late.
const minRemembered = 64

// ended records the end of a call. If fails is true, the call is retried after a back-off.
func (f *failing) ended(fails bool, writes []written) {
	if !fails {
		*f = failing{}
		return
	}
	for _, w := range writes {
		if w.version.UID != "" {
			f.wrote = append(f.wrote, w.remembered())
		}
	}
	if excess := len(f.wrote) - max(len(writes), minRemembered); excess > 0 {
		f.wrote = slices.Delete(f.wrote, 0, excess)
	}
	f.retried = len(f.wrote) > 0
}

// caused reports whether the event of a trigger shows a write of the calls that failed, while the
// key waits for its retry. Such an event does not end the back-off of its key early: the queue has the
// key, and the retry sees the change.
func (f *failing) caused(t trigger) bool {
	own := slices.ContainsFunc(f.wrote, func(w written) bool {
		return w.version == t.of || w.Deleted && w.version.UID == t.of.UID
	})
	// Events of an object come in order, so those of its earlier writes have come.
	f.wrote = slices.DeleteFunc(f.wrote, func(w written) bool { return !w.Deleted && earlier(w.version, t.of) })
	return own && f.retried
}
