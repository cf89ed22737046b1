package wirebench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// contender is a way to get from the bytes of a server to a store and a handler, in a process of its own.
type contender interface {
	// run lists and watches until ctx ends, and then returns after everything it started has ended. The handler of the contender calls handled for
	// each object of the first list, and for each change.
	run(ctx context.Context, handled func()) error
	// version returns the resource version that is held.
	version() string
}

// builder makes a contender for a server with one data set.
type builder func(config *rest.Config, d dataset) (contender, error)

// contenders are all of them, by the names that the cases use.
var contenders = map[string]builder{
	"ours-json":               oursTyped(false, asJSON()...),
	"ours-json-unshared":      oursTyped(false, asJSON(unshared)...),
	"ours-json-unmanaged":     oursTyped(false, asJSON(unmanaged)...),
	"ours-protobuf":           oursTyped(false),
	"ours-protobuf-unshared":  oursTyped(false, unshared),
	"ours-protobuf-unmanaged": oursTyped(false, unmanaged),
	"ours-unstructured":       oursUnstructured,
	"ours-struct":             oursApplications,
	"ours-few-fields":         oursFewFields,

	// Without a queue and a handler: the same work as the floors.
	"store-json":          oursTyped(true, asJSON()...),
	"store-json-unshared": oursTyped(true, asJSON(unshared)...),
	"store-protobuf":      oursTyped(true),

	"typed-json":     typedInformer(inJSON),
	"typed-protobuf": typedInformer(inProtobuf),
	"dynamic":        dynamicInformer,

	"factory":           factoryInformer(func(c *kubernetes.Clientset) kubernetes.Interface { return c }),
	"factory-generated": factoryInformer(func(c *kubernetes.Clientset) kubernetes.Interface { return struct{ kubernetes.Interface }{c} }),

	"controller-runtime": controllerRuntime(crcache.New, ""),
	"ours-in-runtime":    controllerRuntime(controllerruntime.NewCache, ""),

	"floor-json":     floor(floorJSON{}),
	"floor-protobuf": floor(floorProtobuf{}),
}

// running is a contender that runs.
type running struct {
	contender
	counter *counter
	stop    context.CancelFunc
	ended   chan error
}

// start begins to run a contender.
func start(c contender) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{contender: c, counter: newCounter(), stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- c.run(ctx, r.counter.handled) }()
	return r
}

// wait waits until the handler was called so many times since the last call of wait, or the contender has failed.
func (r *running) wait(calls int) error {
	select {
	case <-r.counter.reach(calls):
		return nil
	case err := <-r.ended:
		r.ended <- err
		return fmt.Errorf("it ended after %d of %d calls: %w", r.counter.calls.Load(), calls, err)
	}
}

// close stops the contender, and waits for its end.
func (r *running) close() error {
	r.stop()
	return <-r.ended
}

// counter counts the calls of a handler.
type counter struct {
	calls  atomic.Int64
	target atomic.Int64 // the count that reached waits for; 0 for none

	mu      sync.Mutex // protects reached
	reached chan struct{}
	done    int64
}

func newCounter() *counter { return &counter{} }

// handled is what a handler does.
func (c *counter) handled() {
	if n := c.calls.Add(1); n == c.target.Load() {
		c.tell()
	}
}

func (c *counter) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached != nil {
		close(c.reached)
		c.reached = nil
	}
}

// reach returns a channel that is closed after so many further calls.
func (c *counter) reach(calls int) <-chan struct{} {
	c.mu.Lock()
	reached := make(chan struct{})
	c.reached = reached
	c.done += int64(calls)
	target := c.done
	c.mu.Unlock()
	c.target.Store(target)
	if c.calls.Load() >= target {
		c.tell()
	}
	return reached
}

// forget counts from now on.
func (c *counter) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = c.calls.Load()
}
