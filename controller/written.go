package controller

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is an object that a call wrote or deleted.
type written struct {
	object  metav1.Object
	version version
	deleted bool
}

// call is one call of the reconcile function, and its context.
type call struct {
	context.Context
	shift *shift
	key   store.Key

	// mu protects the fields below it.
	mu     sync.Mutex
	logger *zap.Logger // nil until somebody asks for it
	writes []written
}

type callKey struct{}

// callOf returns the call whose context it is, or nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Value implements [context.Context], hence any.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *call) log() *zap.Logger {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logger == nil {
		c.logger = c.shift.logger.With(zap.String("reconciler", c.shift.name), zap.Stringer("key", c.key))
	}
	return c.logger
}

// wrote notes a write. What the object says is asked here, in the user's own call.
func wrote[S metav1.Object](ctx context.Context, object S, deleted bool) {
	c := callOf(ctx)
	if c == nil || isNil(object) {
		return
	}
	w := written{object: object, version: versionOf(object), deleted: deleted}
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Wrote says that the reconcile function, whose context it is, has created or changed
// an object: pass it as the API server returned it. The key is then not reconciled
// again until the caches show the object in that state or a later one, and so no call
// sees less than the one before it has done.
//
// The caches are those of the reconciler's informers whose objects have the type S; an
// object of another type is not waited for, and so none that [informer.NewTransformed]
// makes something else of. Nor is one that a cache leaves out by what
// [informer.Informer.Selects] knows, but until that cache does not hold an earlier state.
// What else a cache will never show is waited for until it has seen so much else, a
// bookmark at the latest, or the time of [WithVisibilityTimeout] is over: such as an
// object outside of the namespace of a generated client. Use [informer.NewScoped] for such
// a namespace. If the object is deleted, that is enough too. Of a reconciler of several
// clusters, what is written for a key is taken to be in the key's cluster.
//
// Elsewhere than in a reconcile function it does nothing, nor for a nil object. It may be
// called from any goroutine until that returns.
func Wrote[S metav1.Object](ctx context.Context, object S) {
	wrote(ctx, object, false)
}

// Deleted is [Wrote] for an object that was deleted: pass it as it was last seen. The
// caches are waited for until they do not hold it any more, or show that it is about to
// go: it may have finalizers.
func Deleted[S metav1.Object](ctx context.Context, object S) {
	wrote(ctx, object, true)
}

// Logger returns the logger of the reconciler whose context it is, with its name and
// the key on every line; one that logs nothing elsewhere.
func Logger(ctx context.Context) *zap.Logger {
	if c := callOf(ctx); c != nil {
		return c.log()
	}
	return zap.NewNop()
}
