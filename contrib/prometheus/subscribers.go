package prometheus

import (
	"sync"

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

// subscribers are those of which something was measured.
type subscribers struct{ measured sync.Map } // of subscriber

// note notes that something is measured.
func (s *subscribers) note(of subscriber) {
	if _, known := s.measured.Load(of); !known {
		s.measured.Store(of, nil)
	}
}

// gone forgets those that are not there any more, and returns them. there says of the
// names of an informer's subscribers which are, or nothing if it does not know the
// informer.
func (s *subscribers) gone(there func(informer string) (names map[string]bool, known bool)) []subscriber {
	var all, gone []subscriber
	for key := range s.measured.Range {
		all = append(all, key.(subscriber))
	}
	for _, one := range all {
		// Asked after the fact: who was measured before was there, or is gone.
		if names, known := there(one.informer); known && !names[one.name] {
			s.measured.Delete(one)
			gone = append(gone, one)
		}
	}
	return gone
}

// forget forgets those of an informer.
func (s *subscribers) forget(informer string) {
	for key := range s.measured.Range {
		if key.(subscriber).informer == informer {
			s.measured.Delete(key)
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
		m.handlers.DeletePartialMatch(one.labels())
		m.waits.DeletePartialMatch(one.labels())
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
	q.of.subscribers.note(q.subscriber)
	q.of.waits.WithLabelValues(q.subscriber.informer, q.subscriber.name).Observe(t.Waited.Seconds())
}

// Settled implements [eventqueue.Observer].
func (queues) Settled(eventqueue.Settling) {}
