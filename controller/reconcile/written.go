package reconcile

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is an object that a call wrote or deleted.
type written struct {
	object  metav1.Object
	version version
	deleted bool

	created  bool   // there was no such object before the write
	replaced string // the resource version that the server found before the write, if that is certain
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

func (c *call) log() *zap.Logger {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logger == nil {
		c.logger = c.run.logger.With(zap.String("reconciler", c.run.name), zap.Stringer("key", c.key))
	}
	return c.logger
}

// Record implements [ownwrites.Recorder]. It reads the version here, during the user's own call.
func (c *call) Record(write ownwrites.Write) {
	if isNil(write.Object) {
		return
	}
	w := written{
		object: write.Object, version: versionOf(write.Object), deleted: write.Deleted,
		created: write.Created, replaced: write.Replaced,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.version.known() {
		// A client reports its writes, and its caller may report them again. A write that changes
		// nothing returns the state of an earlier one. Only one write made that state.
		for i := range c.writes {
			if one := &c.writes[i]; one.version == w.version && one.deleted == w.deleted {
				if _, certain := w.certain(); certain {
					one.created, one.replaced = w.created, w.replaced
				}
				return
			}
		}
	}
	c.writes = append(c.writes, w)
}

func isNil(object any) bool {
	value := reflect.ValueOf(object)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
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
// The caches are those of the reconciler's informers whose objects have the type S. The reconciler
// does not wait for objects of another type, and therefore not for an informer made by
// [informer.NewTransformed] with another type. If [informer.Informer.Selects] shows that a cache
// leaves the object out, the reconciler waits only until the cache holds no earlier state of the
// object.
//
// A cache may leave an object out for another reason, such as an object outside of the namespace of
// a generated client. The wait then ends when the cache has reached a later version, at the latest
// with a bookmark, or as [WithReadYourWritesTimeout] says. Use package scoped for such a namespace.
// The wait also ends when the object is deleted. In a reconciler of several clusters, RecordWrite
// assumes that the write went to the key's cluster.
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
// have finalizers.
func RecordDelete[S metav1.Object](ctx context.Context, object S) {
	ownwrites.Report(ctx, ownwrites.Write{Object: object, Deleted: true})
}

// Logger returns the reconciler's logger, with its name and the key on every line. Outside of a
// reconcile function the logger logs nothing.
func Logger(ctx context.Context) *zap.Logger {
	if c := callOf(ctx); c != nil {
		return c.log()
	}
	return zap.NewNop()
}
