package wirebench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"k8s.io/client-go/rest"
)

var measureInProcess = measure.InProcess("wire", measureContender)

// measurement is the state of a contender's process.
type measurement struct {
	assignment
	*contender
	running *measure.Running
	counter *measure.Counter
	newest  int // version of the newest change
}

func measureContender(a assignment) (f measure.Figures, err error) {
	build, ok := contenders[a.Contender]
	resource, known := apiserver.Resource(a.Dataset)
	if !ok || !known {
		return nil, fmt.Errorf("there is no contender %q, or no data set %q", a.Contender, a.Dataset)
	}
	made, err := build(&rest.Config{Host: a.Host, QPS: -1}, resource)
	if err != nil {
		return nil, err
	}
	m := &measurement{assignment: a, contender: made, counter: measure.NewCounter(1), newest: objects.FirstVersion + a.Objects - 1}
	f = measure.Figures{}
	empty := measure.LiveHeap()
	err = f.Phase(a.Profiles, "first-list", a.Objects, func() error {
		m.counter.Expect(a.Objects)
		m.running = measure.Start(func(ctx context.Context) error { return made.run(ctx, func() { m.counter.Handled(0) }) })
		return m.wait()
	})
	defer func() { err = errors.Join(err, m.running.Close()) }()
	if err != nil {
		return nil, fmt.Errorf("first list: %w", err)
	}
	f[listRSS.Name] = measure.PeakRSS() / megabyte
	f[listLive.Name] = (float64(measure.LiveHeap()) - float64(empty)) / float64(a.Objects) / kilobyte
	if err := a.Profiles.Heap("list"); err != nil {
		return nil, err
	}
	if a.Features == apiserver.Streams {
		if err := m.events(f); err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
	}
	if made.reads != nil {
		if err := made.reads.measure(a, f); err != nil {
			return nil, fmt.Errorf("reads: %w", err)
		}
	}
	if made.version != nil && a.Dataset == "pods" {
		if err := m.relist(f); err != nil {
			return nil, fmt.Errorf("relist: %w", err)
		}
	}
	runtime.KeepAlive(made)
	return f, nil
}

func (m *measurement) wait() error {
	_, err := measure.Wait(m.running, m.counter.Reached)
	return err
}

// events changes all objects, and then some of them alone.
func (m *measurement) events(f measure.Figures) error {
	n := m.Objects * m.Turns
	if err := f.Phase(m.Profiles, "event", n, func() error { return m.change(n) }); err != nil {
		return err
	}
	var times []float64
	for range m.Alone {
		begin := time.Now()
		if err := m.change(1); err != nil {
			return err
		}
		times = append(times, measure.Microseconds(time.Since(begin)))
	}
	f[eventAlone.Name] = measure.Median(times)
	return nil
}

// change changes objects, and waits until the handler was called for each.
func (m *measurement) change(objects int) error {
	m.newest += objects
	m.counter.Expect(objects)
	if err := apiserver.Order(m.Host, "modify?n="+strconv.Itoa(objects)); err != nil {
		return err
	}
	return m.wait()
}

// patience is for work of milliseconds, on a busy machine.
const patience = time.Minute

// relist makes the watch fail. The wall time says nothing, because every client waits before it
// lists again. The phase ends when the newest version is held and the process is idle: handlers may
// be behind.
func (m *measurement) relist(f measure.Figures) error {
	before := measure.LiveHeap()
	m.newest++ // the server does the same, so that the end can be seen
	err := f.Phase(m.Profiles, "relist", m.Objects, func() error {
		if err := apiserver.Order(m.Host, "fail"); err != nil {
			return err
		}
		for late := time.Now().Add(patience); m.version() != strconv.Itoa(m.newest); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(late) {
				return fmt.Errorf("resource version %s is held after %v instead of %d", m.version(), patience, m.newest)
			}
		}
		measure.Settle()
		return nil
	})
	f[relistGrowth.Name] = (float64(measure.LiveHeap()) - float64(before)) / float64(m.Objects)
	return errors.Join(err, m.Profiles.Heap("relist"))
}
