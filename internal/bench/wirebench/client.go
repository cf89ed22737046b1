package wirebench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/client-go/rest"
)

var measureInProcess = measure.InProcess("wire", measureClient)

// contenderProcess is the process of a contender.
type contenderProcess struct {
	assignment
	contender
	running *measure.Running
	counter *measure.Counter
	orders  *http.Client
	newest  int // version of the newest change
}

// measureClient does what an assignment says.
func measureClient(a assignment) (f measure.Figures, err error) {
	build, ok := contenders[a.Contender]
	resource, known := apiserver.Resource(a.Dataset)
	if !ok || !known {
		return nil, fmt.Errorf("there is no contender %q, or no data set %q", a.Contender, a.Dataset)
	}
	made, err := build(&rest.Config{Host: a.Host, QPS: -1}, resource)
	if err != nil {
		return nil, err
	}
	c := &contenderProcess{assignment: a, contender: made, counter: measure.NewCounter(1), orders: &http.Client{}, newest: apiserver.FirstVersion + a.Objects - 1}
	defer c.orders.CloseIdleConnections()
	f = measure.Figures{}
	empty := measure.LiveHeap()
	err = f.Phase(a.Profiles, "first-list", a.Objects, func() error {
		c.counter.Expect(a.Objects)
		c.running = start(made, c.counter)
		return c.wait()
	})
	defer func() {
		if c.running != nil {
			err = errors.Join(err, c.running.Close())
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("first list: %w", err)
	}
	f[listRSS.Name] = measure.PeakRSS() / megabyte
	f[listLive.Name] = (float64(measure.LiveHeap()) - float64(empty)) / float64(a.Objects) / kilobyte
	if err := a.Profiles.Heap("list"); err != nil {
		return nil, err
	}
	if err := f.Phase(a.Profiles, "event", a.Objects, func() error { return c.change(a.Objects) }); err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	var times []float64
	for range a.Alone {
		begin := time.Now()
		if err := c.change(1); err != nil {
			return nil, fmt.Errorf("lone changes: %w", err)
		}
		times = append(times, measure.Microseconds(time.Since(begin)))
	}
	f[eventAlone.Name] = measure.Median(times)
	if a.Reads {
		if err := c.reads(f, made.(readable)); err != nil {
			return nil, fmt.Errorf("reads: %w", err)
		}
	}
	if a.Relist {
		if err := c.relist(f); err != nil {
			return nil, fmt.Errorf("relist: %w", err)
		}
	}
	runtime.KeepAlive(made)
	return f, nil
}

// start begins to run a contender. Its handler counts calls.
func start(c contender, counter *measure.Counter) *measure.Running {
	return measure.Start(func(ctx context.Context) error { return c.run(ctx, func() { counter.Handled(0) }) })
}

func (c *contenderProcess) wait() error {
	_, err := measure.Wait(c.running, c.counter.Reached)
	return err
}

// change lets objects change, and waits until the handler was called for each.
func (c *contenderProcess) change(objects int) error {
	c.newest += objects
	c.counter.Expect(objects)
	if err := apiserver.Order(c.orders, c.Host, "modify?n="+strconv.Itoa(objects)); err != nil {
		return err
	}
	return c.wait()
}

// relist makes the watch fail. Its duration says nothing, because every client waits for a moment
// before it lists again. Handlers may be called.
func (c *contenderProcess) relist(f measure.Figures) error {
	before := measure.LiveHeap()
	c.newest++ // which the server does, so that the end can be seen
	err := f.Phase(c.Profiles, "relist", c.Objects, func() error {
		if err := apiserver.Order(c.orders, c.Host, "fail"); err != nil {
			return err
		}
		return c.settle()
	})
	f[relistGrowth.Name] = (float64(measure.LiveHeap()) - float64(before)) / float64(c.Objects)
	return errors.Join(err, c.Profiles.Heap("relist"))
}

// settle waits until the newest version is held, and then until the process is idle: handlers may
// be behind.
func (c *contenderProcess) settle() error {
	late := time.Now().Add(apiserver.Patience)
	for c.version() != strconv.Itoa(c.newest) {
		if time.Now().After(late) {
			return fmt.Errorf("resource version %s is held after %v instead of %d", c.version(), apiserver.Patience, c.newest)
		}
		time.Sleep(5 * time.Millisecond)
	}
	measure.Settle()
	return nil
}
