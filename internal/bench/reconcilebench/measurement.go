package reconcilebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/client-go/rest"
)

// reconcilers are caches of applications with a reconciler that works until its context ends.
var reconcilers = map[string]func(config *rest.Config, workers int, w *work) (run func(context.Context) error, err error){"ours": newOurs, "peer": newPeer}

// work is what a reconciliation does.
type work struct {
	*measure.Counter
	gate  measure.Gate
	reads atomic.Bool // a reconciliation reads its object
}

// do passes the gate, reads, and counts the reconciliation.
func (w *work) do(read func() error) error {
	w.gate.Pass()
	if w.reads.Load() {
		if err := read(); err != nil {
			return err
		}
	}
	w.Handled(0)
	return nil
}

// measurement is the state of a contender's process.
type measurement struct {
	assignment
	*work
	running  *measure.Running
	begin    time.Time
	lastRead atomic.Int64 // when the client last read from the server, since begin
}

var measureInProcess = measure.InProcess("reconcile", measureReconciler)

func measureReconciler(a assignment) (f measure.Figures, err error) {
	build, ok := reconcilers[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	config := &rest.Config{Host: a.Host, QPS: -1}
	m := &measurement{assignment: a, work: &work{Counter: measure.NewCounter(1)}, begin: time.Now()}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil {
				response.Body = body{response.Body, m}
			}
			return response, err
		})
	})
	run, err := build(config, a.Workers, m.work)
	if err != nil {
		return nil, err
	}
	f = measure.Figures{}
	empty := measure.LiveHeap()
	err = f.Phase(a.Profiles, "start", a.Objects, func() error {
		m.Expect(a.Objects)
		m.running = measure.Start(run)
		return m.wait()
	})
	defer func() { err = errors.Join(err, m.running.Close()) }()
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
	return f, nil
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// body notes the time of each read.
type body struct {
	io.ReadCloser
	*measurement
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.lastRead.Store(int64(time.Since(b.begin)))
	}
	return n, err
}

func (m *measurement) wait() error {
	_, err := measure.Wait(m.running, m.Reached)
	return err
}

// modify has the server change objects.
func (m *measurement) modify(n int) error {
	m.Expect(n)
	return apiserver.Order(m.Host, fmt.Sprint("modify?n=", n))
}

// rest changes objects one after the other.
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
		times = append(times, measure.Microseconds(at.Sub(m.begin)-time.Duration(m.lastRead.Load())))
	}
	slices.Sort(times)
	f[restP50.Name], f[restP99.Name] = times[len(times)/2], times[len(times)*99/100]
	return nil
}

// rate queues all keys, and then lets them be reconciled. It measures the reconciliations in a
// second, and the CPU time of one: the medians of some passes.
func (m *measurement) rate(f measure.Figures, name string) (err error) {
	var rates, times []float64
	for pass := range m.Passes {
		open := m.gate.Shut()
		defer open()
		if err := m.modify(m.Objects); err != nil {
			return err
		}
		measure.Settle()
		phase := fmt.Sprintf("%s-%d", name[len("rate/"):], pass)
		err := f.Phase(m.Profiles, phase, m.Objects, func() error {
			open()
			return m.wait()
		})
		if err != nil {
			return err
		}
		rates, times = append(rates, 1e6/f[phase+"/wall"]), append(times, f[phase+"/cpu"])
	}
	f[name], f[name+"-cpu"] = measure.Median(rates), measure.Median(times)
	return nil
}
