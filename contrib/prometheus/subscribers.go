package prometheus

import (
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	prom "github.com/prometheus/client_golang/prometheus"
)

var _ informer.QueueObserver = observer{}

// subscriber is the labels of what is measured of one.
type subscriber struct{ informer, name string }

func (s subscriber) labels() prom.Labels {
	return prom.Labels{"informer": s.informer, "subscriber": s.name}
}

// measure is something that is measured of a subscriber.
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

// series are those of one subscriber that have been used, so that none is looked up for each
// event.
type series [measures]atomic.Pointer[prom.Observer]

// subscribers are those of which something was measured.
type subscribers struct {
	// mu is held while series are made and deleted: none is known that was deleted, and none
	// is there that is not known.
	mu    sync.Mutex
	known sync.Map // the *series of a subscriber
}

// observerOf returns where something is measured of a subscriber. What is not used at once may
// have been deleted meanwhile, with a subscriber that is gone.
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

// gone returns those that are not there any more. there says of the names of an informer's
// subscribers which are, or nothing if it does not know the informer.
func (s *subscribers) gone(there func(informer string) (names map[string]bool, known bool)) (gone []subscriber) {
	var all []subscriber
	for key := range s.known.Range {
		all = append(all, key.(subscriber))
	}
	for _, one := range all {
		// Asked after the fact: who was measured before was there, or is gone.
		if names, known := there(one.informer); known && !names[one.name] {
			gone = append(gone, one)
		}
	}
	return gone
}

// forget deletes what was measured of a subscriber.
func (m *Metrics) forget(one subscriber) {
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	m.subscribers.known.Delete(one)
	m.handlers.DeletePartialMatch(one.labels())
	m.waits.DeletePartialMatch(one.labels())
}

// forgetAll deletes what was measured of the subscribers of an informer.
func (m *Metrics) forgetAll(informer string) {
	for key := range m.subscribers.known.Range {
		if one := key.(subscriber); one.informer == informer {
			m.forget(one)
		}
	}
}

// tidy deletes what was measured of subscribers that are gone.
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

// namesOf returns the names of the subscribers of the informers of a name; nil if there
// is no such informer.
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

// Queues implements [informer.QueueObserver].
func (o observer) Queues(_, subscription string) eventqueue.Observer {
	return queues{o.of, subscriber{o.name, label(subscription)}}
}

// queues measures how long a subscriber's event queues wait.
type queues struct {
	of         *Metrics
	subscriber subscriber
}

// Taken implements [eventqueue.Observer]. What failed is not counted again: it waits for
// its back-off.
func (q queues) Taken(t eventqueue.Taking) {
	if t.Attempt > 1 {
		return
	}
	q.of.observerOf(q.subscriber, waited).Observe(t.Waited.Seconds())
}

// Settled implements [eventqueue.Observer].
func (queues) Settled(eventqueue.Settling) {}
