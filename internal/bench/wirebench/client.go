package wirebench

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/client-go/rest"
)

// contenderProcess is the process of a contender.
type contenderProcess struct {
	assignment
	running *running
	orders  *http.Client
	version int // of the newest change
}

// measureClient does what an assignment says.
func measureClient(a assignment) (s sample, err error) {
	build, ok := contenders[a.Contender]
	d, known := datasets[a.Dataset]
	if !ok || !known {
		return s, fmt.Errorf("there is no contender %q, or no data set %q", a.Contender, a.Dataset)
	}
	made, err := build(&rest.Config{Host: a.Host, QPS: -1}, d)
	if err != nil {
		return s, err
	}
	c := &contenderProcess{assignment: a, orders: &http.Client{}, version: firstVersion + a.Objects - 1}
	defer c.orders.CloseIdleConnections()
	empty := measure.LiveHeap()
	s.List, err = c.Profiles.Phase("list", a.Objects, func() error {
		c.running = start(made)
		return c.running.wait(a.Objects)
	})
	if err != nil {
		return s, fmt.Errorf("first list: %w", err)
	}
	defer func() { err = errors.Join(err, c.running.close()) }()
	s.RSS = measure.PeakRSS()
	s.Peak = peakHeap()
	s.Live = (float64(measure.LiveHeap()) - float64(empty)) / float64(a.Objects)
	if err := c.Profiles.Heap("list"); err != nil {
		return s, err
	}
	s.Events, err = c.Profiles.Phase("events", c.Objects, func() error {
		c.version += a.Objects
		if err := Order(c.orders, c.Host, "modify?n="+strconv.Itoa(a.Objects)); err != nil {
			return err
		}
		return c.running.wait(a.Objects)
	})
	if err != nil {
		return s, fmt.Errorf("changes: %w", err)
	}
	if s.Alone, err = c.alone(a.Alone); err != nil {
		return s, fmt.Errorf("lone changes: %w", err)
	}
	if a.Reads {
		if s.Reads, err = c.reads(made.(readable)); err != nil {
			return s, fmt.Errorf("reads: %w", err)
		}
	}
	if a.Relist {
		if err := c.relist(&s); err != nil {
			return s, fmt.Errorf("relist: %w", err)
		}
		if err := c.Profiles.Heap("relist"); err != nil {
			return s, err
		}
	}
	runtime.KeepAlive(made)
	return s, nil
}

// alone lets objects change one after the other.
func (c *contenderProcess) alone(changes int) (float64, error) {
	var times []float64
	for range changes {
		c.version++
		begin := time.Now()
		if err := Order(c.orders, c.Host, "modify?n=1"); err != nil {
			return 0, err
		}
		if err := c.running.wait(1); err != nil {
			return 0, err
		}
		times = append(times, measure.Microseconds(time.Since(begin)))
	}
	return measure.Median(times), nil
}

// relist makes the watch fail. Its duration says nothing, because every client waits for a moment
// before it lists again.
func (c *contenderProcess) relist(s *sample) (err error) {
	before := measure.LiveHeap()
	c.version++ // which the server does, so that the end can be seen
	s.Relist, err = c.Profiles.Phase("relist", c.Objects, func() error {
		if err := Order(c.orders, c.Host, "fail"); err != nil {
			return err
		}
		return c.settle()
	})
	s.Growth = (float64(measure.LiveHeap()) - float64(before)) / float64(c.Objects)
	return err
}

const (
	// patience is for what takes milliseconds, but on a busy machine.
	patience = time.Minute
	pause    = 5 * time.Millisecond
)

// settle waits until the newest version is held, and then until nothing is done any more: handlers
// may be behind.
func (c *contenderProcess) settle() error {
	late := time.Now().Add(patience)
	for c.running.version() != strconv.Itoa(c.version) {
		if time.Now().After(late) {
			return fmt.Errorf("resource version %s is held after %v instead of %d", c.running.version(), patience, c.version)
		}
		time.Sleep(pause)
	}
	measure.Settle()
	c.running.counter.forget()
	return nil
}

// peakHeap returns the most memory that the heap has had, in bytes.
func peakHeap() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapSys)
}
