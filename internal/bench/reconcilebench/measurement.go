package reconcilebench

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	"k8s.io/client-go/rest"
)

// measurement is what goes on in the process of a contender.
type measurement struct {
	assignment
	*running
	connection *connection
	orders     *http.Client
}

// measureContender does what an assignment says.
func measureContender(a assignment) (s sample, err error) {
	build, ok := contenders[a.Contender]
	if !ok {
		return s, fmt.Errorf("there is no contender %q", a.Contender)
	}
	config := &rest.Config{Host: a.Host, QPS: -1}
	m := &measurement{assignment: a, connection: watchReads(config), orders: &http.Client{}}
	defer m.orders.CloseIdleConnections()
	made, err := build(config)
	if err != nil {
		return s, err
	}
	empty := measure.LiveHeap()
	s.Start, err = m.Profiles.Phase("start", a.Objects, func() error {
		m.running = start(made, a.Workers, a.Objects)
		return m.wait()
	})
	if m.running != nil {
		defer func() { err = errors.Join(err, m.close()) }()
	}
	if err != nil {
		return s, fmt.Errorf("start: %w", err)
	}
	measure.Settle()
	s.Heap = float64(measure.LiveHeap()) - float64(empty)
	if err := m.Profiles.Heap("start"); err != nil || a.Passes == 0 {
		return s, err
	}
	if a.Alone > 0 {
		if s.Event, err = m.Profiles.Phase("event", a.Objects, m.events); err != nil {
			return s, fmt.Errorf("changes: %w", err)
		}
		if s.P50, s.P99, err = m.rest(); err != nil {
			return s, fmt.Errorf("lone changes: %w", err)
		}
	}
	if s.Idle, err = m.rate("no-op"); err != nil {
		return s, fmt.Errorf("rate: %w", err)
	}
	m.reads.Store(true)
	if s.Reading, err = m.rate("read"); err != nil {
		return s, fmt.Errorf("rate of readers: %w", err)
	}
	runtime.KeepAlive(made)
	return s, nil
}

// events has each object change once.
func (m *measurement) events() error {
	m.expect(m.Objects)
	if err := m.modify(m.Objects); err != nil {
		return err
	}
	return m.wait()
}

// rest has objects change one after the other.
func (m *measurement) rest() (p50, p99 float64, err error) {
	measure.Settle()
	times := make([]float64, 0, m.Alone)
	for range m.Alone {
		m.expect(1)
		if err := m.modify(1); err != nil {
			return 0, 0, err
		}
		select {
		case at := <-m.reached:
			times = append(times, measure.Microseconds(m.connection.since(at)))
		case err := <-m.ended:
			m.ended <- err
			return 0, 0, err
		}
	}
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100], nil
}

// rate has all keys wait, and then be reconciled, and returns how many are in a second, and what one takes: the medians of some passes.
func (m *measurement) rate(name string) (r rate, err error) {
	var rates, times []float64
	stop := func() error { return nil }
	for pass := range m.Passes {
		open := m.shut()
		m.expect(m.Objects)
		if err := m.modify(m.Objects); err != nil {
			open()
			return r, err
		}
		measure.Settle()
		runtime.GC()
		if pass == m.Passes-1 {
			if stop, err = m.Profiles.CPU(name); err != nil {
				open()
				return r, err
			}
		}
		used, begin := measure.Used(), time.Now()
		open()
		if err := m.wait(); err != nil {
			return r, err
		}
		rates = append(rates, float64(m.Objects)/time.Since(begin).Seconds())
		times = append(times, measure.Microseconds(measure.Used()-used)/float64(m.Objects))
	}
	return rate{Second: measure.Median(rates), CPU: measure.Median(times)}, stop()
}

// modify has the server change objects, as soon as it is being watched.
func (m *measurement) modify(n int) error {
	return wirebench.Order(m.orders, m.Host, fmt.Sprint("modify?n=", n))
}
