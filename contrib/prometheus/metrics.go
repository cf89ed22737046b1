package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const namespace = "kubereflector"

// Metrics are the metrics of informers. Register them: they are a [prom.Collector]. See the package
// documentation for the list.
//
// Create one with [New].
type Metrics struct {
	lists      *prom.HistogramVec
	listed     *prom.GaugeVec
	watches    *prom.HistogramVec
	events     *prom.CounterVec
	lag        *prom.HistogramVec
	waits      *prom.HistogramVec
	handlers   *prom.HistogramVec
	reconciles *prom.HistogramVec
	keyWaits   *prom.HistogramVec
	own        []prom.Collector

	subscribers subscribers
	reconcilers sync.Map // the names of reconcilers that have made a call

	// mu protects the fields below it.
	mu      sync.Mutex
	sources []*source
	queues  []*queue
}

var (
	_ prom.Collector     = (*Metrics)(nil)
	_ informer.Observer  = observer{}
	_ reflector.Observer = observer{}
)

// source is an informer of any type in the metrics.
type source struct {
	name    string // the label of the state
	label   string // the label of measurements by the informer's observer
	collect func(chan<- prom.Metric)
	names   func(map[string]bool) // adds the names of the subscribers
}

// New returns empty metrics.
func New() *Metrics {
	histogram := func(name, help string, buckets []float64, labels ...string) *prom.HistogramVec {
		return prom.NewHistogramVec(prom.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		lists: histogram("list_duration_seconds", "How long lists and watch-lists took.",
			prom.ExponentialBuckets(0.01, 4, 9), "informer", "reason", "streamed"),
		listed: prom.NewGaugeVec(prom.GaugeOpts{
			Namespace: namespace, Name: "list_objects", Help: "How many objects the last list brought.",
		}, []string{"informer"}),
		watches: histogram("watch_duration_seconds", "How long watches lasted.",
			[]float64{1, 10, 60, 300, 420, 600, 900}, "informer", "reason"),
		events: prom.NewCounterVec(prom.CounterOpts{
			Namespace: namespace, Name: "events_total", Help: "Changes of the cache.",
		}, []string{"informer", "type", "origin"}),
		lag: histogram("event_lag_seconds", "How long after an object was written the cache had it, by the server's clock of whole seconds.",
			[]float64{1, 2, 3, 5, 10, 30, 60, 300}, "informer"),
		waits: histogram("queue_wait_seconds", "How long objects with events waited for the subscriber.",
			prom.ExponentialBuckets(0.0001, 10, 8), "informer", "subscriber"),
		handlers: histogram("handler_duration_seconds", "How long calls of handlers took.",
			prom.ExponentialBuckets(0.0001, 10, 7), "informer", "subscriber", "result"),
		reconciles: histogram("reconcile_duration_seconds", "How long calls of reconcile functions took.",
			prom.ExponentialBuckets(0.001, 4, 10), "reconciler", "result"),
		keyWaits: histogram("reconcile_wait_seconds", "How long keys waited for the first call of the reconcile function.",
			prom.ExponentialBuckets(0.0001, 10, 8), "reconciler"),
	}
	m.own = []prom.Collector{m.lists, m.listed, m.watches, m.events, m.lag, m.waits, m.handlers, m.reconciles, m.keyWaits}
	return m
}

// Describe implements [prom.Collector].
func (m *Metrics) Describe(to chan<- *prom.Desc) {
	for _, c := range m.own {
		c.Describe(to)
	}
	for _, d := range states {
		to <- d
	}
	for _, q := range queueMetrics {
		to <- q.subscriber
		to <- q.reconciler
	}
}

// Collect implements [prom.Collector].
func (m *Metrics) Collect(to chan<- prom.Metric) {
	m.mu.Lock()
	sources, queues := m.sources, m.queues
	m.mu.Unlock()
	m.tidy(sources)
	for _, c := range m.own {
		c.Collect(to)
	}
	for _, s := range sources {
		s.collect(to)
	}
	for _, q := range queues {
		stats := q.stats()
		collect(to, &stats, func(m *queueMetric) *prom.Desc { return m.reconciler }, q.name)
	}
}

// Options returns options for an informer. They measure its lists, its watches and the calls of its
// handlers. name becomes the informer's name, which is the label of its metrics: give each informer
// another name.
func (m *Metrics) Options(name string) []informer.Option {
	o := observer{m, label(name)}
	return []informer.Option{
		informer.WithName(name), informer.WithObserver(o), informer.WithReflector(reflector.WithObserver(o)),
	}
}

// Add shows the state of an informer, and counts the changes of its cache, until remove is called.
// Call remove when the informer's Run has returned. It deletes all series of the informer. The
// series of a subscriber are deleted when the subscription is closed. If another informer has the
// same name, this one is shown as name#2, and so on. The same holds for two subscribers of one
// informer.
func Add[T any](m *Metrics, i *informer.Informer[T]) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := unique(label(i.Name()), func(name string) bool {
		return slices.ContainsFunc(m.sources, func(s *source) bool { return s.name == name })
	})
	stop := i.Follow(&counts[T]{all: m.events, lag: m.lag.WithLabelValues(name), name: name, known: map[kind]prom.Counter{}})
	show := &shown[T]{name: name, informer: i}
	added := &source{name: name, label: label(i.Name()), collect: show.collect, names: show.addNames}
	m.sources = append(slices.Clone(m.sources), added)
	return func() {
		stop()
		m.mu.Lock()
		defer m.mu.Unlock()
		if n := slices.Index(m.sources, added); n >= 0 {
			m.sources = slices.Delete(slices.Clone(m.sources), n, n+1)
			m.deleteLocked(added)
		}
	}
}

// deleteLocked deletes the series of an informer, except for those that it shares with informers of
// the same name.
func (m *Metrics) deleteLocked(s *source) {
	m.events.DeletePartialMatch(prom.Labels{"informer": s.name})
	m.lag.DeletePartialMatch(prom.Labels{"informer": s.name})
	if slices.ContainsFunc(m.sources, func(other *source) bool { return other.label == s.label }) {
		return
	}
	labels := prom.Labels{"informer": s.label}
	m.lists.DeletePartialMatch(labels)
	m.listed.DeletePartialMatch(labels)
	m.watches.DeletePartialMatch(labels)
	for key := range m.subscribers.known.Range {
		if one := key.(subscriber); one.informer == s.label {
			m.forget(one)
		}
	}
}

// label returns a name as a valid label. Prometheus' client panics for a label that is not UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// unique returns a name, with a number if it is already taken.
func unique(name string, taken func(string) bool) string {
	free := name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s#%d", name, n)
	}
	return free
}

// observer measures the operations of one informer.
type observer struct {
	*Metrics
	name string
}

// Listed implements [reflector.Observer].
func (o observer) Listed(list reflector.ListDone) {
	o.lists.WithLabelValues(o.name, reasonOf(list.Err), strconv.FormatBool(list.Streamed)).Observe(list.Took.Seconds())
	if list.Err == nil {
		o.listed.WithLabelValues(o.name).Set(float64(list.Objects))
	}
}

// Watched implements [reflector.Observer].
func (o observer) Watched(watch reflector.WatchDone) {
	o.watches.WithLabelValues(o.name, reasonOf(watch.Err)).Observe(watch.Lasted.Seconds())
}

// Handling implements [informer.Observer].
func (o observer) Handling(ctx context.Context, call informer.Handling) (context.Context, func(error)) {
	began, name := time.Now(), subscriber{o.name, label(call.Subscription)} // so the closure does not hold the whole call
	return ctx, func(err error) {
		took := time.Since(began)
		o.observerOf(name, resultOf(err)).Observe(took.Seconds())
	}
}

func resultOf(err error) measure {
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, eventqueue.ErrAbandoned):
		return panicked
	case eventqueue.IsPermanent(err):
		return givenUp
	}
	return failed
}

// reasonOf returns the kind of a failure as a label value. There are few of them.
func reasonOf(err error) string {
	wrong, isProtocol := errors.AsType[*reflector.ProtocolError](err)
	_, isNet := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return "expired"
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	case apierrors.IsForbidden(err):
		return "forbidden"
	case apierrors.IsUnauthorized(err):
		return "unauthorized"
	case apierrors.IsNotFound(err):
		return "not_found"
	case apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err),
		isProtocol && (wrong.Reason == "NoAnswer" || wrong.Reason == "SilentWatch"):
		return "timeout"
	case errors.Is(err, client.ErrMalformed) || errors.Is(err, client.ErrTooLarge) || errors.Is(err, client.ErrContentType):
		return "malformed"
	case errors.Is(err, client.ErrTruncated) || utilnet.IsProbableEOF(err):
		return "cut_off"
	case errors.As(err, new(apierrors.APIStatus)):
		return "server"
	case utilnet.IsTimeout(err):
		return "timeout"
	case isNet, utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err):
		return "connection"
	}
	return "other"
}

// counts counts the changes of a cache, and measures their lag.
type counts[T any] struct {
	all  *prom.CounterVec
	lag  prom.Observer
	name string
	// known caches the counters, so that a change needs no lookup by labels.
	known map[kind]prom.Counter
}

// kind groups changes for counting.
type kind struct {
	change store.ChangeType
	origin store.Origin
}

// Start implements [store.Follower].
func (c *counts[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (c *counts[T]) Commit(commit *store.Commit[T]) {
	for i := range commit.Changes {
		change := &commit.Changes[i]
		k := kind{change.Type, commit.Origin}
		counter := c.known[k]
		if counter == nil {
			counter = c.all.WithLabelValues(c.name, k.change.String(), k.origin.String())
			c.known[k] = counter
		}
		counter.Inc()
		if commit.Origin == store.Watch && change.Type != store.Deletion {
			if written := writtenAt(change.Object); !written.IsZero() {
				c.lag.Observe(max(time.Since(written), 0).Seconds())
			}
		}
	}
}

// writtenAt returns the time of the last write of an object, from its managed fields, in whole
// seconds of the server's clock. A pending deletion has no managed field; writtenAt derives its
// time from the deletion timestamp. It skips objects without Go fields for their metadata: that
// would take too long while the cache is written.
func writtenAt(object any) (last time.Time) {
	accessor, ok := object.(metav1.ObjectMetaAccessor)
	if !ok {
		return last
	}
	meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return last
	}
	for i := range meta.ManagedFields {
		if at := meta.ManagedFields[i].Time; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if at := meta.DeletionTimestamp; at != nil && !last.IsZero() {
		var grace int64
		if meta.DeletionGracePeriodSeconds != nil {
			grace = *meta.DeletionGracePeriodSeconds
		}
		if asked := at.Add(-time.Duration(grace) * time.Second); asked.After(last) {
			last = asked
		}
	}
	return last
}
