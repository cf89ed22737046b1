package prometheus

import (
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/eventqueue"
	prom "github.com/prometheus/client_golang/prometheus"
)

// subscriber has the labels of a subscriber's series.
type subscriber struct{ informer, name string }

func (s subscriber) labels() prom.Labels {
	return prom.Labels{"informer": s.informer, "subscriber": s.name}
}

// measure is one measurement of a subscriber.
type measure uint8

const (
	waited measure = iota
	succeeded
	failed
	givenUp
	panicked
	measures
)

// results are the labels of the calls of handlers.
var results = [measures]string{succeeded: "ok", failed: "error", givenUp: "permanent", panicked: "panic"}

// series caches the series of one subscriber, so that an event needs no lookup by labels.
type series [measures]atomic.Pointer[prom.Observer]

// subscribers are the subscribers with series.
type subscribers struct {
	// mu is held while series are created and deleted, so that known always matches the existing
	// series.
	mu    sync.Mutex
	known sync.Map // the *series of a subscriber
}

// observerOf returns the series of a subscriber for a measurement. Use it at once: it may be
// deleted later, when its subscriber is closed.
func (m *Metrics) observerOf(of subscriber, what measure) prom.Observer {
	if known, ok := m.subscribers.known.Load(of); ok {
		if o := known.(*series)[what].Load(); o != nil {
			return *o
		}
	}
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	known, _ := m.subscribers.known.LoadOrStore(of, &series{})
	place := &known.(*series)[what]
	if o := place.Load(); o != nil {
		return *o
	}
	var o prom.Observer
	if what == waited {
		o = m.waits.WithLabelValues(of.informer, of.name)
	} else {
		o = m.handlers.WithLabelValues(of.informer, of.name, results[what])
	}
	place.Store(&o)
	return o
}

// gone returns the closed subscribers. there returns the names of an informer's open subscribers,
// and false for an unknown informer.
func (s *subscribers) gone(there func(informer string) (names map[string]bool, known bool)) (gone []subscriber) {
	var all []subscriber
	for key := range s.known.Range {
		all = append(all, key.(subscriber))
	}
	for _, one := range all {
		// Read the names after known: a subscriber with series is then either open or closed.
		if names, known := there(one.informer); known && !names[one.name] {
			gone = append(gone, one)
		}
	}
	return gone
}

// forget deletes the series of a subscriber.
func (m *Metrics) forget(one subscriber) {
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	m.subscribers.known.Delete(one)
	m.handlers.DeletePartialMatch(one.labels())
	m.waits.DeletePartialMatch(one.labels())
}

// forgetAll deletes the series of all subscribers of an informer.
func (m *Metrics) forgetAll(informer string) {
	for key := range m.subscribers.known.Range {
		if one := key.(subscriber); one.informer == informer {
			m.forget(one)
		}
	}
}

// tidy deletes the series of closed subscribers.
func (m *Metrics) tidy(sources []*source) {
	all := map[string]map[string]bool{}
	for _, one := range m.subscribers.gone(func(informer string) (map[string]bool, bool) {
		if names, asked := all[informer]; asked {
			return names, names != nil
		}
		all[informer] = namesOf(sources, informer)
		return all[informer], all[informer] != nil
	}) {
		m.forget(one)
	}
}

// namesOf returns the names of the subscribers of all informers with a name; nil if there is no
// such informer.
func namesOf(sources []*source, informer string) map[string]bool {
	var names map[string]bool
	for _, s := range sources {
		if s.label != informer {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		s.names(names)
	}
	return names
}

// Queues implements [informer.Observer].
func (o observer) Queues(_, subscription string) func(eventqueue.TakeInfo) {
	return queues{o.of, subscriber{o.name, label(subscription)}}.taken
}

// queues measures how long a subscriber's event queues wait.
type queues struct {
	of         *Metrics
	subscriber subscriber
}

// taken observes a queue. It skips retries, because they wait for their back-off.
func (q queues) taken(t eventqueue.TakeInfo) {
	if t.Attempt > 1 {
		return
	}
	q.of.observerOf(q.subscriber, waited).Observe(t.Waited.Seconds())
}
