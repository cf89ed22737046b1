package ondemand

import (
	"sync"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// NewOwned is [New] with a second cache that holds some of the objects whole, such as the cache of
// an informer with a label selector:
//
//	mine := informer.New(clientset.CoreV1().Secrets(""), informer.WithReflector(reflector.WithLabelSelector(app)))
//	secrets, err := ondemand.NewOwned(clientset.CoreV1().Secrets, metas.Cache(), mine.Cache())
//
// Get answers from that cache first, and fetches only the other objects. Two watches fill the two
// caches, so one may be behind the other: see guarantee ondemand-D6, which holds for reads
// through Objects. Neither cache may have scopes, because Objects compares their resource versions.
// If owned is nil, NewOwned does the same as [New].
func NewOwned[T Object, C Client[T], M Object](clients func(namespace string) C, metadata *store.View[M], owned *store.View[T], opts ...Option) (*Objects[T], error) {
	o, err := newObjects[T](clients, metadata, opts)
	if err != nil {
		return nil, err
	}
	if owned != nil {
		o.owned = owned
		o.floors.all = map[store.Key]floor{}
		o.stops = append(o.stops, owned.Follow(&ownedFollower[T]{of: o}))
	}
	o.stops = append(o.stops, metadata.Follow(&follower[T, M]{o, metadata}))
	return o, nil
}

// ownedObject returns an object of the cache of owned objects, unless it is outdated or deleted.
func (o *Objects[T]) ownedObject(key store.Key) (object T, ok bool) {
	var none T
	if o.owned == nil {
		return none, false
	}
	if object, ok = o.owned.Get(key); !ok {
		return none, false
	}
	version, m := versionOf(object), o.meta(key)
	switch {
	case m.known:
		ok = covers(version, m.version)
	case m.synced:
		// The metadata lacks an object because it is deleted, or because the metadata is behind.
		ok = newer(version.ResourceVersion, m.upTo)
	}
	if !ok || !o.floors.of(key).metBy(version.ResourceVersion) {
		return none, false
	}
	return object, true
}

// newer reports whether a resource version is known to be later than another.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// floors are the oldest states of objects that may be read, where they are later than the metadata.
// There are few: a floor ends when the metadata catches up.
//
// An object that lost its label or was deleted leaves the cache of owned objects. Until the metadata
// shows that change, a state of before it would pass for current. And a requested object may be
// later than both caches. A state that the cache of owned objects gets after that may be older.
type floors struct {
	mu  sync.Mutex // taken last
	all map[store.Key]floor
}

// floor says that an object is later than a version, or at least that version if the object was read
// at it. The floor ends when the metadata shows every change up to another version.
type floor struct {
	version string
	read    bool
	until   string
}

func (f floor) metBy(version string) bool {
	return f.version == "" || newer(version, f.version) || f.read && version == f.version
}

func (f *floors) of(key store.Key) floor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[key]
}

func (f *floors) raise(key store.Key, to floor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.all[key]
	if newer(was.until, to.until) {
		to.until = was.until
	}
	if newer(was.version, to.version) {
		to.version, to.read = was.version, was.read
	} else if was.version == to.version {
		to.read = to.read && was.read
	}
	f.all[key] = to
}

// end ends the floors that satisfy a condition.
func (f *floors) end(over func(store.Key, floor) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.all {
		if over(key, one) {
			delete(f.all, key)
		}
	}
}

// raiseTo raises the floor to an object that was requested, if that is later than the metadata.
func (o *Objects[T]) raiseTo(key store.Key, object T) {
	if version := object.GetResourceVersion(); o.owned != nil && newer(version, o.upTo()) {
		o.floors.raise(key, floor{version: version, read: true, until: version})
	}
}

// ownedFollower follows the cache of owned objects.
type ownedFollower[T Object] struct{ of *Objects[T] }

// Start implements [store.Follower].
func (*ownedFollower[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower]. Requested copies of owned objects are not needed, and copies of
// objects that left are outdated. After a list, versions that are later than the list may belong to a
// lost history.
func (f *ownedFollower[T]) Commit(commit *store.Commit[T]) {
	o := f.of
	at := commit.ObservedVersion
	if commit.Origin == store.List {
		o.floors.end(func(_ store.Key, one floor) bool { return newer(one.until, at) })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range commit.Changes {
		c := &commit.Changes[i]
		if c.Type == store.Deletion && newer(at, o.upTo()) {
			o.floors.raise(c.Key, floor{version: c.Prior.GetResourceVersion(), until: at})
		}
		if flight := o.flights[c.Key]; flight != nil {
			flight.outdated = true
		}
		o.recent.drop(c.Key)
	}
}
