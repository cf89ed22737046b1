package clientgo

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/tools/cache"
)

// metrics feeds client-go's metrics of an informer.
type metrics[T any] struct {
	// version sets the metric of the store's resource version. Only a store of client-go reaches
	// the provider of SetInformerMetricsProvider.
	version cache.Store
	latency cache.HistogramMetric // nil without a provider in the options
}

// newMetrics returns the metrics of an informer, or nil if the options give it no name. The metrics
// of the queue and of handlers need a provider in the options: no function of client-go returns the
// one of SetInformerMetricsProvider.
func newMetrics[T any](options cache.SharedIndexInformerOptions) *metrics[T] {
	id, provider := options.Identifier, options.InformerMetricsProvider
	if !id.Reserved() {
		return nil
	}
	m := &metrics[T]{version: cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithStoreMetrics(id, provider))}
	if provider != nil {
		provider.NewQueuedItemMetric(id).Set(0) // there is no queue between the reflector and the cache
		m.latency = provider.NewProcessingLatencyMetric(id)
	}
	return m
}

// Start implements [store.Follower].
func (m *metrics[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (m *metrics[T]) Commit(commit *store.Commit[T]) {
	if commit.ResourceVersion != "" {
		m.version.Bookmark(commit.ResourceVersion)
	}
}

// Handling measures a call of a handler.
func (m *metrics[T]) Handling(ctx context.Context, _ informer.Handling) (context.Context, func(error)) {
	if m.latency == nil {
		return ctx, nil
	}
	began := time.Now()
	return ctx, func(error) { m.latency.Observe(time.Since(began).Seconds()) }
}

// Queues observes nothing.
func (m *metrics[T]) Queues(string, string) func(eventqueue.TakeInfo) { return nil }
