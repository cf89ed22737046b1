package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// source is an informer whose objects have keys reconciled.
type source interface {
	complete() bool
	of() anyInformer
	// subscribe begins to tell what happens in the informer, at first of all that is
	// in it.
	subscribe(o *reconcilerOptions, name string, tell func(trigger)) subscription
	// held returns the resource version of the object that the cache holds under a key;
	// empty if it holds none.
	held(key store.Key) string
	// has reports whether a written object is one of the source's.
	has(w written) bool
	// covers reports whether what the source's cache does not have under a key is not
	// there at all, and not somebody else's; lacks, whether it has nothing there.
	covers(key store.Key) bool
	lacks(key store.Key) bool
	// visible returns what waits until the cache shows a write for a key; nil if the
	// object is none of the source's.
	visible(key store.Key, w written) wait
}

// anyInformer is an [informer.Informer] of any type.
type anyInformer interface {
	informer.Member
	Name() string
	Stopped() <-chan struct{}
}

// subscription is an [informer.Subscription] of any type.
type subscription interface {
	Synced() <-chan struct{}
	Done() <-chan struct{}
	Close()
}

// trigger is why a key is reconciled.
type trigger struct {
	key      store.Key
	priority Priority
	of       version // of the object that changed
	gone     bool    // it was deleted
	left     bool    // and goes on to exist: it is somebody else's now
	primary  bool    // it is the object of the key
	listed   bool    // a list brought it to light: there may have been other changes before
	cause    *cause  // nil if nobody observes
}

func versionOf(object any) version {
	meta, ok := object.(metav1.Object)
	if !ok {
		return version{}
	}
	return version{uid: string(meta.GetUID()), resourceVersion: meta.GetResourceVersion()}
}

// ErrUnnamedKey means that a mapping of [Watch] returned a key without a name.
var ErrUnnamedKey = errors.New("mapping returned a key without a name: leave out what maps to no object")

// watching is the source of one informer.
type watching[S any] struct {
	informer *informer.Informer[S]
	keys     func(S) []store.Key // nil: the object's own key
	only     []func(eventqueue.Event[S]) bool
	resync   time.Duration
}

// Watch has keys reconciled when objects of a secondary informer change: those that
// keys returns, such as that of an owner: see [Owner], [Labelled] and [Indexed]. A
// modification is mapped twice, as it was and as it is, so that an object which moves
// from one owner to another is news for both.
//
// Keys without a cluster are those of the cluster of the object. A key without a name is
// reported as [ErrUnnamedKey] and not reconciled; the other keys of the event are.
//
// That objects left the informer, because a scope was dropped or they belong to another shard
// now, is no reason to reconcile anything. Where the primary informer has scopes or shards, a
// key of which it holds no object is reconciled only if one was deleted: there may be one that
// is somebody else's.
//
// Events for which one of the predicates returns false are ignored; a nil one accepts
// all. See [SpecChanged]. None of the functions may change objects. An event on which one of them panics is
// reported and given up, but for the keys that were found before.
func Watch[S any](secondary *informer.Informer[S], keys func(S) []store.Key, only ...func(eventqueue.Event[S]) bool) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) {
		w := &watching[S]{informer: secondary, keys: keys, only: only}
		if keys == nil {
			w.informer = nil // which Run reports
		}
		o.sources = append(o.sources, w)
	})
}

func (w *watching[S]) held(key store.Key) string {
	object, ok := w.informer.Cache().Get(key)
	if !ok {
		return ""
	}
	return versionOf(object).resourceVersion
}

func (w *watching[S]) complete() bool { return w.informer != nil }

func (w *watching[S]) covers(key store.Key) bool { return w.informer.Covers(key) }

func (w *watching[S]) lacks(key store.Key) bool {
	_, held := w.informer.Cache().Get(key)
	return !held
}

func (w *watching[S]) of() anyInformer { return w.informer }

func (w *watching[S]) subscribe(o *reconcilerOptions, name string, tell func(trigger)) subscription {
	opts := []informer.SubscriptionOption{
		informer.WithName(name),
		// Of two changes merged into one, an owner in between would not be heard of.
		// The handler is quick: there is no backlog that memory would have to be kept for.
		informer.WithCompaction(eventqueue.KeepAll), informer.WithResync(w.resync),
		informer.WithErrorHook(o.errorHook), // nil: the informer's
	}
	if o.logger.Core().Enabled(zapcore.ErrorLevel) { // else the informer's logger reports errors
		opts = append(opts, informer.WithLogger(o.logger.With(zap.String("reconciler", name))))
	}
	return w.informer.Handle(w.handler(o, tell), opts...)
}

func (w *watching[S]) handler(o *reconcilerOptions, tell func(trigger)) informer.HandlerFunc[S] {
	if o.observer == nil {
		return func(_ context.Context, event eventqueue.Event[S]) error { return w.handle(event, tell) }
	}
	return func(ctx context.Context, event eventqueue.Event[S]) error {
		return w.handle(event, withCause(ctx, event, tell))
	}
}

// handle tells what an event means. A panic is permanent: the same would happen again.
func (w *watching[S]) handle(event eventqueue.Event[S], tell func(trigger)) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = Permanent(&eventqueue.PanicError{Key: event.Key, Value: value, Stack: debug.Stack()})
		}
	}()
	for _, accepts := range w.only {
		if accepts != nil && !event.OutOfScope && !accepts(event) {
			return nil
		}
	}
	t := trigger{
		of: versionOf(event.Object), gone: event.Type == eventqueue.Deletion, left: event.OutOfScope,
		listed: event.Origin != eventqueue.Watch, primary: w.keys == nil,
	}
	if event.Initial || event.Origin == eventqueue.Resync {
		t.priority = Low
	}
	if w.keys == nil {
		t.key = event.Key
		tell(t)
		return nil
	}
	told := map[store.Key]bool{}
	tellOf := func(keys []store.Key) {
		for _, t.key = range keys {
			if t.key.Name == "" {
				err = Permanent(fmt.Errorf("map %s: key %q: %w", event.Key, t.key, ErrUnnamedKey))
				continue
			}
			if t.key.Cluster == "" {
				t.key.Cluster = event.Key.Cluster // the functions do not see it
			}
			if !told[t.key] {
				told[t.key] = true
				tell(t)
			}
		}
	}
	tellOf(w.keys(event.Object))
	if event.Type == eventqueue.Modification {
		tellOf(w.keys(event.Prior))
	}
	return err
}
