package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// WorkQueues are the metrics of client-go's work queues, such as those of reconcilers. They have
// the names that Kubernetes' own components use, so existing dashboards work. Register them: they
// are a [prom.Collector], and a [workqueue.MetricsProvider].
//
// Create them with [NewWorkQueues].
type WorkQueues struct {
	depth, unfinished, longest *prom.GaugeVec
	adds, retries              *prom.CounterVec
	latency, work              *prom.HistogramVec
}

var (
	_ prom.Collector            = (*WorkQueues)(nil)
	_ workqueue.MetricsProvider = (*WorkQueues)(nil)
)

// NewWorkQueues returns metrics without queues.
func NewWorkQueues() *WorkQueues {
	labels := []string{"name"}
	gauge := func(name, help string) *prom.GaugeVec {
		return prom.NewGaugeVec(prom.GaugeOpts{Subsystem: "workqueue", Name: name, Help: help}, labels)
	}
	counter := func(name, help string) *prom.CounterVec {
		return prom.NewCounterVec(prom.CounterOpts{Subsystem: "workqueue", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prom.HistogramVec {
		return prom.NewHistogramVec(prom.HistogramOpts{Subsystem: "workqueue", Name: name, Help: help, Buckets: prom.ExponentialBuckets(1e-6, 10, 10)}, labels)
	}
	return &WorkQueues{
		depth:      gauge("depth", "Keys that wait."),
		adds:       counter("adds_total", "Keys that were added."),
		latency:    histogram("queue_duration_seconds", "How long keys waited."),
		work:       histogram("work_duration_seconds", "How long keys were worked on."),
		unfinished: gauge("unfinished_work_seconds", "How long the keys have been worked on that are not done, all together."),
		longest:    gauge("longest_running_processor_seconds", "How long the slowest worker has been at its key."),
		retries:    counter("retries_total", "Keys that were added again after a failure."),
	}
}

func (w *WorkQueues) all() []prom.Collector {
	return []prom.Collector{w.depth, w.adds, w.latency, w.work, w.unfinished, w.longest, w.retries}
}

// Describe implements [prom.Collector].
func (w *WorkQueues) Describe(to chan<- *prom.Desc) {
	for _, c := range w.all() {
		c.Describe(to)
	}
}

// Collect implements [prom.Collector].
func (w *WorkQueues) Collect(to chan<- prom.Metric) {
	for _, c := range w.all() {
		c.Collect(to)
	}
}

// NewDepthMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewDepthMetric(name string) workqueue.GaugeMetric {
	return w.depth.WithLabelValues(label(name))
}

// NewAddsMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewAddsMetric(name string) workqueue.CounterMetric {
	return w.adds.WithLabelValues(label(name))
}

// NewLatencyMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return w.latency.WithLabelValues(label(name))
}

// NewWorkDurationMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return w.work.WithLabelValues(label(name))
}

// NewUnfinishedWorkSecondsMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return w.unfinished.WithLabelValues(label(name))
}

// NewLongestRunningProcessorSecondsMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return w.longest.WithLabelValues(label(name))
}

// NewRetriesMetric implements [workqueue.MetricsProvider].
func (w *WorkQueues) NewRetriesMetric(name string) workqueue.CounterMetric {
	return w.retries.WithLabelValues(label(name))
}
