package reconcilebench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/client-go/rest"
)

// contender is a reconciler of applications with a cache of them.
type contender interface {
	// run reconciles until ctx ends.
	run(ctx context.Context, workers int, w *work) error
}

// contenders are all of them, by the names of sides.
var contenders = map[string]func(*rest.Config) (contender, error){"ours": newOurs, "peer": newPeer}

// work is what a reconciliation does: it waits at a gate and is counted.
type work struct {
	*measure.Counter
	gate measure.Gate
	// reads is true if a reconciliation is to read its object.
	reads atomic.Bool
}

// begin is what a reconciliation begins with: it says whether the object is to be read.
func (w *work) begin() (reads bool) {
	w.gate.Pass()
	return w.reads.Load()
}

// end is what a reconciliation ends with.
func (w *work) end() { w.Handled(0) }

// measurement is what goes on in the process of a contender.
type measurement struct {
	assignment
	*work
	running    *measure.Running
	connection *connection
	orders     *http.Client
}

var measureInProcess = measure.InProcess("reconcile", measureContender)

// measureContender does what an assignment says.
func measureContender(a assignment) (f measure.Figures, err error) {
	build, ok := contenders[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	config := &rest.Config{Host: a.Host, QPS: -1}
	m := &measurement{assignment: a, work: &work{Counter: measure.NewCounter(1)}, connection: watchReads(config), orders: &http.Client{}}
	defer m.orders.CloseIdleConnections()
	made, err := build(config)
	if err != nil {
		return nil, err
	}
	f = measure.Figures{}
	empty := measure.LiveHeap()
	err = f.Phase(a.Profiles, "start", a.Objects, func() error {
		m.Expect(a.Objects)
		m.running = measure.Start(func(ctx context.Context) error { return made.run(ctx, a.Workers, m.work) })
		return m.wait()
	})
	defer func() {
		if m.running != nil {
			err = errors.Join(err, m.running.Close())
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	measure.Settle()
	f[heap.Name] = (float64(measure.LiveHeap()) - float64(empty)) / megabyte
	if err := a.Profiles.Heap("start"); err != nil {
		return nil, err
	}
	if a.Alone > 0 {
		if err := f.Phase(a.Profiles, "event", a.Objects, func() error { return errors.Join(m.modify(a.Objects), m.wait()) }); err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
		if err := m.rest(f); err != nil {
			return nil, fmt.Errorf("lone changes: %w", err)
		}
	}
	if err := m.rate(f, idleRate.Name); err != nil {
		return nil, fmt.Errorf("rate: %w", err)
	}
	m.reads.Store(true)
	if err := m.rate(f, readingRate.Name); err != nil {
		return nil, fmt.Errorf("rate of readers: %w", err)
	}
	runtime.KeepAlive(made)
	return f, nil
}

func (m *measurement) wait() error {
	_, err := measure.Wait(m.running, m.Reached)
	return err
}

// modify has the server change objects, as soon as it is being watched.
func (m *measurement) modify(n int) error {
	m.Expect(n)
	return apiserver.Order(m.orders, m.Host, fmt.Sprint("modify?n=", n))
}

// rest has objects change one after the other.
func (m *measurement) rest(f measure.Figures) error {
	measure.Settle()
	times := make([]float64, 0, m.Alone)
	for range m.Alone {
		if err := m.modify(1); err != nil {
			return err
		}
		at, err := measure.Wait(m.running, m.Reached)
		if err != nil {
			return err
		}
		times = append(times, measure.Microseconds(m.connection.since(at)))
	}
	slices.Sort(times)
	f[restP50.Name], f[restP99.Name] = times[len(times)/2], times[len(times)*99/100]
	return nil
}

// rate has all keys wait, and then be reconciled. It measures how many are in a second, and the CPU
// time of one: the medians of some passes.
func (m *measurement) rate(f measure.Figures, name string) (err error) {
	var rates, times []float64
	stop := func() error { return nil }
	for pass := range m.Passes {
		open := m.gate.Shut()
		defer open()
		if err := m.modify(m.Objects); err != nil {
			return err
		}
		measure.Settle()
		runtime.GC()
		if pass == m.Passes-1 {
			if stop, err = m.Profiles.CPU(name[len("rate/"):]); err != nil {
				return err
			}
		}
		used, begin := measure.Used(), time.Now()
		open()
		if err := m.wait(); err != nil {
			return err
		}
		rates = append(rates, float64(m.Objects)/time.Since(begin).Seconds())
		times = append(times, measure.Microseconds(measure.Used()-used)/float64(m.Objects))
	}
	f[name], f[name+"-cpu"] = measure.Median(rates), measure.Median(times)
	return stop()
}
