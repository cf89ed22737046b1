package ondemand

import (
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/internal/byreference"
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
)

// AddOwned adds a cache that holds some of the objects whole, such as the cache of an informer with a
// label selector. There may be several, and they may come and go:
//
//	mine := informer.New(clientset.CoreV1().Secrets(""), informer.WithReflector(reflector.WithLabelSelector(app)))
//	remove := secrets.AddOwned(mine.Cache())
//
// Get answers from these caches first, and fetches only other objects. The watches that fill the caches
// may be behind each other: see guarantee ondemand-D6, which holds for reads through Objects. The cache of
// the metadata may have scopes, and an added one may not. When remove returns, Objects does not read the
// cache any more. It may be called more than once. After [Objects.Close], or with a nil view, AddOwned
// does nothing. Neither function may be called from a follower of the caches.
func (o *Objects[T]) AddOwned(view *store.View[T]) (remove func()) {
	o.lifecycle.Lock()
	defer o.lifecycle.Unlock()
	if o.isClosed() || view == nil {
		return func() {}
	}
	owned := &ownedView[T]{of: o, View: view, versions: map[store.Key]store.Version{}}
	o.agreed.mu.Lock()
	owned.watch = o.agreed.Add(labels.Nothing()) // what an owned watch does not have is fetched
	o.agreed.owned = append(o.agreed.owned, owned)
	o.agreed.mu.Unlock()
	owned.stop = view.Follow(owned)
	return sync.OnceFunc(func() {
		owned.stop()
		o.agreed.mu.Lock()
		defer o.agreed.mu.Unlock()
		o.agreed.owned = slices.DeleteFunc(o.agreed.owned, func(other *ownedView[T]) bool { return other == owned })
		o.agreed.Remove(owned.watch)
		delete(o.agreed.refused, owned.watch)
		for key, version := range owned.versions {
			o.raiseLocked(key, version)
		}
	})
}

// unfollow stops following the owned caches for good.
func (o *Objects[T]) unfollow() {
	o.lifecycle.Lock()
	defer o.lifecycle.Unlock()
	o.agreed.mu.Lock()
	o.end()
	all := slices.Clone(o.agreed.owned)
	o.agreed.mu.Unlock()
	for _, owned := range all {
		owned.stop() // it waits for the cache's writer, which takes agreed.mu
	}
}

// agreed is what the metadata and the owned caches agree on. Its engine knows the few versions that
// may have been read and that the metadata has not passed yet: an object that left an owned cache, or
// a requested object that is later than both. No earlier state is read until the metadata passes them.
type agreed[T Object] struct {
	mu sync.Mutex // protects the fields below it and the engine; taken last
	*byreference.Engine
	owned []*ownedView[T]
	// requested has the keys of versions that a request returned, with flight.asked. Unlike what a watch has
	// delivered, such a version does not outlast a list: a server that was restored since may never reach it.
	requested map[store.Key]state
	// asked has the requests whose answers count. An answer to a request from before a list does not.
	asked map[*flight[T]]store.Key
	// refused has the watches with versions that cannot be compared. A later list may be better.
	refused map[*byreference.Watch]error
}

// ownedView follows a cache of owned objects.
type ownedView[T Object] struct {
	*store.View[T]
	of    *Objects[T]
	stop  func() // guarded by Objects.lifecycle; set before AddOwned returns
	watch *byreference.Watch
	// versions has the objects as of the last commit that it followed; guarded by agreed.mu. The cache
	// may show the next commit already, before the follower can say what left.
	versions map[store.Key]store.Version
}

// decideLocked returns what the caches show of an object, and the owned cache with its newest state.
func (o *Objects[T]) decideLocked(key store.Key) (action byreference.Action, newest *ownedView[T], version store.Version) {
	for _, owned := range o.agreed.owned {
		if v, ok := owned.versions[key]; ok && byreference.Newest(v, version) {
			newest, version = owned, v
		}
	}
	meta, _ := o.meta(key)
	action = o.agreed.Decide(key, byreference.Facts{Shown: o.agreed.Shown(key), Metadata: meta, Owned: version})
	if o.agreed.Shown(key) == (store.Version{}) {
		delete(o.agreed.requested, key)
	}
	return action, newest, version
}

// ownedObject returns an object of the caches of owned objects, unless it is outdated or deleted. The cache
// may show it in a later state than its follower has noted, and then that is noted here.
func (o *Objects[T]) ownedObject(key store.Key) (object T, ok bool) {
	var none T
	o.agreed.mu.Lock()
	defer o.agreed.mu.Unlock()
	if o.isClosed() || len(o.agreed.owned) == 0 || len(o.agreed.refused) > 0 {
		return none, false
	}
	action, newest, version := o.decideLocked(key)
	if action != byreference.ShowOwned {
		return none, false
	}
	if object, ok = newest.Get(key); !ok || versions.Later(version.ResourceVersion, object.GetResourceVersion()) {
		return none, false // it left just now
	}
	if read := store.VersionOf(object); read != version {
		o.raiseLocked(key, read)
	}
	return object, true
}

// state stands for a state of the cache of the metadata. Unlike a snapshot, it keeps no object in memory.
// Two of one state are equal.
type state any

// ask notes that a request begins.
func (a *agreed[T]) ask(key store.Key, f *flight[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[f] = key
}

// answer notes that a request ends, and its object was read. It does so without owned caches, too: one that
// is added later may have an earlier state.
func (o *Objects[T]) answer(key store.Key, f *flight[T]) {
	o.agreed.mu.Lock()
	defer o.agreed.mu.Unlock()
	_, counts := o.agreed.asked[f]
	delete(o.agreed.asked, f)
	if !counts || f.err != nil {
		return
	}
	if before := o.agreed.Shown(key); o.raiseLocked(key, store.VersionOf(f.object)) != before {
		o.agreed.requested[key] = f.asked
	}
}

func (o *Objects[T]) raiseLocked(key store.Key, version store.Version) store.Version {
	meta, _ := o.meta(key)
	o.agreed.Raise(key, meta, version)
	return o.agreed.Shown(key)
}

// metadataChanged notes a commit of the metadata.
func (o *Objects[T]) metadataChanged(news byreference.News) {
	o.agreed.mu.Lock()
	defer o.agreed.mu.Unlock()
	o.observeLocked(o.agreed.Metadata(), news)
	if news.List {
		// The cache shows the list already, so some requests may be later.
		o.forgetRequestsLocked(o.state(), func(key store.Key) bool { return !news.Partial || news.Scope.Contains(key) })
	}
}

// forgetRequestsLocked forgets the answers to requests for some keys, but for those that began at a state.
func (o *Objects[T]) forgetRequestsLocked(but state, of func(store.Key) bool) {
	for f, key := range o.agreed.asked {
		if f.asked != but && of(key) {
			delete(o.agreed.asked, f)
		}
	}
	for key, asked := range o.agreed.requested {
		if asked != but && of(key) {
			o.agreed.Forget(key)
			delete(o.agreed.requested, key)
		}
	}
}

// keepScopes forgets what is known of the scopes that the cache of the metadata no longer has.
func (o *Objects[T]) keepScopes(live []store.Scope) {
	o.agreed.mu.Lock()
	defer o.agreed.mu.Unlock()
	for _, scope := range o.agreed.KeepScopes(live) {
		o.forgetRequestsLocked(nil, scope.Contains)
	}
}

// scopesOf returns the scopes of a cache.
func scopesOf[T any](view *store.View[T]) (all []store.Scope) {
	for _, p := range view.Partitions() {
		all = append(all, p.Scope())
	}
	return all
}

func (o *Objects[T]) observeLocked(watch *byreference.Watch, news byreference.News) {
	again, err := o.agreed.Observe(watch, news)
	switch {
	case err != nil:
		o.agreed.refused[watch] = err
	case news.List:
		delete(o.agreed.refused, watch)
	}
	if again.Restored {
		o.agreed.ForgetAll()
		clear(o.agreed.requested)
	}
	for _, key := range again.Keys {
		o.decideLocked(key)
	}
}

// Start implements [store.Follower].
func (v *ownedView[T]) Start(state *store.Snapshot[T]) {
	a := &v.of.agreed
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, object := range state.All() {
		v.versions[key] = store.VersionOf(object)
	}
	if state.Synced() {
		v.of.observeLocked(v.watch, byreference.News{Version: state.ResourceVersion(), Synced: true, Rejected: v.Rejected()})
	}
}

// Commit implements [store.Follower]. Requested copies of owned objects are not needed, and copies of
// objects that left are outdated.
func (v *ownedView[T]) Commit(commit *store.Commit[T]) {
	o := v.of
	o.agreed.mu.Lock()
	news := byreference.NewsOf(commit, v.View)
	for i := range commit.Changes {
		c := &commit.Changes[i]
		if c.Type != store.Deletion {
			v.versions[c.Key] = c.Version
			if !versions.Later(o.agreed.Shown(c.Key).ResourceVersion, c.Version.ResourceVersion) {
				delete(o.agreed.requested, c.Key) // the watch has delivered it
			}
			continue
		}
		o.raiseLocked(c.Key, v.versions[c.Key])
		delete(v.versions, c.Key)
	}
	o.observeLocked(v.watch, news)
	o.agreed.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range commit.Changes {
		key := commit.Changes[i].Key
		if flight := o.flights[key]; flight != nil {
			flight.outdated = true
		}
		o.recent.drop(key)
	}
}
