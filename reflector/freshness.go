package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// checkTimeout is how long the watch lasts that looks for changes after the store's version. An API
// server sends a bookmark two seconds before a watch ends, so the answer takes about a second. On
// an idle watch without that, a bookmark comes once a minute only.
const checkTimeout = 3 * time.Second

// checkPause is the time between two attempts of CatchUp.
const checkPause = time.Second

var (
	errLagging   = errors.New("server's watch cache is behind its own storage")
	errCheckOver = errors.New("watch for a check ended at once")
)

// CatchUp waits until the store has every change that the server had at some time after since. Call
// it before an effect that cannot be undone, such as one outside of the cluster, because a store is as
// fresh as its watch, and a watch may be behind, or its connection may be dead. since is the time from
// which the effect must take everything into account, such as the beginning of a leader's term.
//
// CatchUp returns at once if the store has the result of a consistent list, or of an earlier
// CatchUp, that began at since or later. A consistent list is a list or watch-list at the newest
// version, and not at version "0". Otherwise CatchUp lists one object at the newest version, which
// shows the version that the server has now. If the store is at an earlier one, a watch of three
// seconds from there shows whether a change lies in between, and CatchUp waits for the last of them.
// If the server has forgotten that version (410), Run lists. CatchUp needs no other permissions than Run.
// An object that the store rejected counts as received. If the server is at an earlier version than the
// store, it was restored from a backup, and CatchUp waits for the list that shows its state.
//
// CatchUp returns an error if ctx ends earlier: give ctx a deadline. It returns nil at once where
// nothing can be compared: while the reflector polls ([Polling]), if the server's versions are no
// numbers, and with test doubles. It may be called from any goroutine.
func (r *KubernetesResourceReflector[T]) CatchUp(ctx context.Context, since time.Time) error {
	var newest string
	var failure error
	failed := func() error {
		err := context.Cause(ctx)
		if failure != nil {
			err = fmt.Errorf("%w; last failure: %w", err, failure)
		}
		return fmt.Errorf("reflector %s: the server had version %.64q, the store has %.64q: %w", r.name, newest, r.State().ResourceVersion, err)
	}
	select {
	case <-r.Synced():
	case <-ctx.Done():
		return failed()
	}
	select { // one caller at a time: the others use its result
	case r.catching <- struct{}{}:
		defer func() { <-r.catching }()
	case <-ctx.Done():
		return failed()
	}
	for !r.status.isCurrent(since) {
		began := time.Now()
		var done bool
		if newest, done, failure = r.catchUp(ctx, newest); done {
			r.status.current(began)
			return nil
		}
		if ctx.Err() == nil {
			pause(ctx, checkPause)
		}
		if ctx.Err() != nil {
			return failed()
		}
	}
	return nil
}

// catchUp is one attempt of CatchUp. It returns the newest version of the server.
func (r *KubernetesResourceReflector[T]) catchUp(ctx context.Context, before string) (newest string, done bool, err error) {
	opts := metav1.ListOptions{LabelSelector: r.labelSelector, FieldSelector: r.fieldSelector, Limit: 1}
	had := r.status.observedVersion()
	p, err := r.source.List(ctx, opts, stream.Wants[T]{})
	if err != nil {
		return before, false, r.newError(protocol.OpList, "", err)
	}
	newest = p.Version
	at := r.status.observedVersion()
	if newest == "" && at != "" { // whatever is in front of the server may have answered, as in R13
		return before, false, r.newError(protocol.OpList, "", protocol.NoResourceVersion)
	}
	if !isNumber(newest) || !isNumber(at) {
		return newest, true, nil
	}
	if r.source.About().Double { // a test may keep one watch for all requests, which Run reads
		return newest, true, nil
	}
	if versions.Later(had, newest) {
		return newest, false, r.newError(protocol.OpList, had, protocol.ServerBehind)
	}
	if reaches(at, newest) {
		return newest, true, nil
	}
	// Busy kinds reach the version sooner than a check needs.
	checking, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if r.status.reached(checking, newest) {
			cancel()
		}
	})
	last, err := r.lastChange(checking, at, newest)
	cancel()
	waiting.Wait()
	if reaches(r.status.observedVersion(), newest) {
		return newest, true, nil
	}
	if err != nil {
		if (protocol.Classify(err) == protocol.Expired || errors.Is(err, errCheckOver)) && r.status.observedVersion() == at { // else the watch of Run has gone on
			r.expire(err)
		}
		return newest, false, r.newError(protocol.OpWatch, at, err)
	}
	return newest, r.status.reached(ctx, last), nil
}

// expire makes Run list, as if the server had ended the watch of Run with err. That watch may be healthy and yet
// at a version that is forgotten: Events have no watch cache, so the bookmarks of a quiet namespace come from
// etcd every ten minutes, while etcd is compacted every five.
func (r *KubernetesResourceReflector[T]) expire(err error) {
	cancel := r.cancelWatch.Load() // before the phase: the watch of a watch-list must not end
	if cancel != nil && r.State().Phase == Watching {
		(*cancel)(err)
	}
}

// lastChange returns the version of the last change after one version and not after another; it is
// the first version if there is none.
func (r *KubernetesResourceReflector[T]) lastChange(ctx context.Context, after, until string) (last string, err error) {
	timeout := int64(checkTimeout / time.Second)
	opts := metav1.ListOptions{
		LabelSelector: r.labelSelector, FieldSelector: r.fieldSelector,
		ResourceVersion: after, AllowWatchBookmarks: true, TimeoutSeconds: &timeout,
	}
	began := time.Now()
	w, err := r.source.Watch(ctx, opts, stream.Wants[T]{Shards: r.shards})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	last = after
	for bookmarks := false; ; {
		items, err := w.Next(ctx, nil)
		switch {
		case err == io.EOF && bookmarks:
			return "", errLagging
		case err == io.EOF && time.Since(began) < checkTimeout/2:
			return "", errCheckOver
		case err == io.EOF: // a server without bookmarks, which had nothing to send
			return last, nil
		case err != nil:
			return "", err
		}
		for i := range items {
			item := &items[i]
			item.Filter(r.shards)
			if !item.IsAboutObjects() && item.Kind != stream.Mark {
				return "", item.Err
			}
			bookmarks = bookmarks || item.Kind == stream.Mark
			over := reaches(item.Version, until)
			if item.IsAboutObjects() && item.Kind != stream.Outside && (!over || item.Version == until) {
				last = item.Version
			}
			if over {
				return last, nil
			}
		}
	}
}

// isNumber reports whether a version can be compared.
func isNumber(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

// reaches reports whether a version is another one or a later one.
func reaches(version, wanted string) bool {
	order, err := resourceversion.CompareResourceVersion(version, wanted)
	return err == nil && order >= 0
}

// latest is the object that changed last, as the server sent it. A server that is restored from a
// snapshot loses that change first and reuses its version.
type latest struct {
	key     store.Key // without a name if the object is not known
	version store.Version
	deleted bool
}

func (l *latest) set(key store.Key, version store.Version, deleted bool) {
	if key.Name == "" || !isNumber(version.ResourceVersion) {
		*l = latest{}
		return
	}
	*l = latest{key, version, deleted}
}

// list records an object of a list if no earlier object of the list is newer.
func (l *latest) list(object metav1.Object) {
	if l.isBefore(object.GetResourceVersion()) {
		l.set(keyOf(object), store.VersionOf(object), false)
	}
}

// raise replaces l by a change that is newer.
func (l *latest) raise(other latest) {
	if other.key.Name != "" && l.isBefore(other.version.ResourceVersion) {
		*l = other
	}
}

func (l *latest) isBefore(version string) bool {
	newest := l.version.ResourceVersion
	return l.key.Name == "" || len(version) > len(newest) || len(version) == len(newest) && version > newest
}

// selector adds the object to a field selector. The API server then reads a single key, also in a
// request for all namespaces.
func (l *latest) selector(own string) string {
	if l.key.Name == "" {
		return own
	}
	only := fields.Set{"metadata.name": l.key.Name}
	if l.key.Namespace != "" {
		only["metadata.namespace"] = l.key.Namespace
	}
	if own != "" {
		own += ","
	}
	return own + only.AsSelector().String()
}

// contradicts reports whether a listed object proves that the server lost the last change. It
// ignores objects newer than position.
func (l *latest) contradicts(object metav1.Object, position string) bool {
	return l.key == keyOf(object) && reaches(position, object.GetResourceVersion()) && (l.deleted || store.VersionOf(object) != l.version)
}

// contradicted reports whether the answer to a probe contradicts the last change. any is true if the
// answer has an object; objects has those that could be decoded.
func (r *run[T]) contradicted(p stream.Page, objects []T, any bool) bool {
	switch position := r.protocol.Position(); {
	case r.latest.key.Name == "":
		return false
	case !any && p.Continue == "" && p.Version == position && !r.latest.deleted:
		return true // the server can only have deleted it later
	default:
		return slices.ContainsFunc(objects, func(object T) bool { return r.latest.contradicts(object, position) })
	}
}

func keyOf(object metav1.Object) store.Key {
	return store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// askProbe requests the object that changed last, at the newest version of the server: see
// reflector-R6.
func (r *run[T]) askProbe(ctx context.Context, a protocol.Action) protocol.Input {
	r.status.enter(Opening)
	limited, cancel := context.WithTimeoutCause(ctx, openTimeout, protocol.NoAnswer)
	defer cancel()
	opts := r.pageOptions(a)
	opts.ShardSelector, opts.FieldSelector = "", r.latest.selector(opts.FieldSelector)
	var objects []T
	any := false // the answer has an object, which may be undecodable
	take := func(i *stream.Item[T]) {
		i.Filter(r.shards)
		if i.Kind == stream.Put {
			if any = true; i.Write.Err == nil {
				objects = append(objects, i.Write.Object)
			}
		}
	}
	p, err := r.source.List(limited, opts, stream.Wants[T]{Shards: r.shards, Take: take})
	if err != nil {
		return r.failed(ctx, protocol.OpList, a.Version, withCause(limited, err))
	}
	r.status.contact()
	return protocol.Input{Kind: protocol.Answered, Version: p.Version, Conflict: r.contradicted(p, objects, any)}
}
