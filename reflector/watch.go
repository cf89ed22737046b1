package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// minWatch is the least time after which the server is asked to end a
	// watch; the most is twice that. The time is drawn at random, so that the
	// watches that began together when a server came up do not end together.
	minWatch = 5 * time.Minute

	// shortWatch is how long a watch must last, or bring something new, in order
	// not to count as a failure.
	shortWatch = time.Second

	// expiryAfter is how old a list must be for its resource version to have
	// expired in the ordinary way. A server that forgets faster is not asked for
	// another list at once.
	expiryAfter = time.Minute
)

// watch puts changes into the store until the watch ends. It returns nil if the
// watch ended as it should, or if it is time to list.
func (r *KubernetesResourceReflector[T]) watch(ctx context.Context) error {
	opts := r.listOptions()
	opts.ResourceVersion = r.position
	opts.AllowWatchBookmarks = true
	timeout := int64((minWatch + rand.N(minWatch)).Seconds())
	opts.TimeoutSeconds = &timeout

	began := time.Now()
	w, err := r.source.watch(ctx, opts)
	if err != nil {
		r.relist = refused(err)
		return r.newError(OpWatch, opts.ResourceVersion, err)
	}
	defer drain(w)
	r.failures.healthy(began)
	r.status.contact()
	r.status.latchSynced()
	r.status.set(func(s *State) {
		s.Phase, s.Err, s.Attempt, s.RetryAt = Watching, r.lacking, 0, time.Time{}
	})
	r.logger.Debug("watching", zap.String("resourceVersion", opts.ResourceVersion))

	news, err := r.consume(ctx, w)
	if err == nil && !news && ctx.Err() == nil && !r.relistDue() && time.Since(began) < shortWatch {
		err = r.newError(OpWatch, opts.ResourceVersion, ErrShortWatch)
	}
	return err
}

// drain ends a watch and waits for what produces its events: the contract of
// watch.Interface is that the channel is closed after Stop.
func drain(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() { //nolint:revive // there is nothing to do with them
	}
}

// consume applies events until there are no more, ctx ends or a list is due. It
// reports whether there was news: an object of another version than before.
func (r *KubernetesResourceReflector[T]) consume(ctx context.Context, w watch.Interface) (news bool, err error) {
	timer := relistTimer{}
	defer timer.stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-timer.at(r.relistAt):
			return news, nil
		case event, ok := <-w.ResultChan():
			if !ok {
				return news, nil
			}
			before := r.position
			if err := r.apply(ctx, event); err != nil {
				return news, err
			}
			news = news || event.Type != watch.Bookmark && r.position != before
		}
	}
	return news, nil
}

// apply puts one event into the store. An error ends the watch.
func (r *KubernetesResourceReflector[T]) apply(ctx context.Context, event watch.Event) error {
	r.status.contact()
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		return r.change(ctx, event)
	case watch.Bookmark:
		return r.bookmark(ctx, event)
	case watch.Error:
		if isNil(event.Object) {
			break
		}
		err := apierrors.FromObject(event.Object)
		// Whatever it is, the server could not tell what happened next: an
		// object that was deleted because it cannot be read any more, say.
		// Being too busy says nothing of that kind.
		r.relist = !apierrors.IsTooManyRequests(err)
		return r.newError(OpWatch, r.position, err)
	}
	r.relist = true
	if event.Type == watch.Error {
		return r.newError(OpWatch, r.position, newTypeError[*metav1.Status](event.Object))
	}
	return r.newError(OpWatch, r.position, &EventTypeError{Type: string(event.Type)})
}

func (r *KubernetesResourceReflector[T]) change(ctx context.Context, event watch.Event) error {
	object, err := r.object(event)
	if err != nil {
		return err
	}
	version := object.GetResourceVersion()
	switch event.Type {
	case watch.Added:
		err = r.store.Add(object)
	case watch.Modified:
		err = r.store.Update(object)
	case watch.Deleted:
		err = r.store.Delete(object)
	}
	if err != nil {
		r.lack(ctx, r.storeError(object, err))
	}
	r.advance(version)
	return nil
}

// object returns the object of an event. One that is not a T says that the
// server and this program do not mean the same resource, so the watch ends, and
// the version stays before it.
func (r *KubernetesResourceReflector[T]) object(event watch.Event) (T, error) {
	var none T
	if object, ok := any(event.Object).(T); ok && object != none {
		return object, nil
	}
	r.relist = true
	failure := r.newError(OpWatch, r.position, newTypeError[T](event.Object))
	if metadata := metadataOf(event.Object); metadata != nil {
		failure.Key = store.Key{Namespace: metadata.GetNamespace(), Name: metadata.GetName()}
	}
	return none, failure
}

// metadataOf returns the metadata of an object, or nil if it has none.
func metadataOf(object runtime.Object) metav1.Object {
	if isNil(object) {
		return nil
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return metadata
}

func (r *KubernetesResourceReflector[T]) bookmark(ctx context.Context, event watch.Event) error {
	metadata := metadataOf(event.Object)
	if metadata == nil {
		return r.newError(OpWatch, r.position, newTypeError[T](event.Object))
	}
	version := metadata.GetResourceVersion()
	if version == "" {
		return nil
	}
	if err := r.store.Bookmark(version); err != nil {
		r.lack(ctx, r.newError(OpStore, version, err))
	}
	r.advance(version)
	return nil
}

// advance moves the place to watch from. Objects of client-go's fake clientset
// have no version: the place then stays, and the next watch repeats them.
func (r *KubernetesResourceReflector[T]) advance(version string) {
	if version != "" {
		r.position = version
	}
	r.status.stored(r.store.ResourceVersion())
}

// storeError wraps what the store said to an object.
func (r *KubernetesResourceReflector[T]) storeError(object T, err error) *Error {
	e := r.newError(OpStore, object.GetResourceVersion(), err)
	if e.Key == (store.Key{}) && object.GetName() != "" {
		e.Key = store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	}
	return e
}

// isRejection reports whether the store took everything but what the error names.
func isRejection(err error) bool {
	var rejected *store.RejectedError
	return errors.As(err, &rejected)
}
