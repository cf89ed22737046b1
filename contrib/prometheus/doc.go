// Package prometheus has metrics of informers for Prometheus.
//
//	metrics := prometheus.New()
//	registry.MustRegister(metrics)
//	pods := informer.New(client, metrics.Options("pods")...)
//	prometheus.Add(metrics, pods)
//
// [Metrics.Options] measures what happens, and has to be there from the informer's
// beginning. [Add] shows what is the case when somebody asks. Reconcilers take
// [Metrics.ReconcilerOptions] and, as their work queues are those of client-go,
// [WorkQueues] by controller.WithMetrics.
//
// # Metrics
//
// All begin with kubereflector_, and have the label informer; those about a subscriber
// have the label subscriber too, and those about a reconciler the label reconciler alone.
// There are no labels of keys, namespaces or messages: how many series there are is known
// beforehand, if the names are. The series of subscribers that were closed, and of informers
// that were removed, are deleted; a counter of a subscriber begins anew with each.
//
//	list_duration_seconds{reason, streamed}   histogram of lists and watch-lists
//	list_objects                              gauge: how many the last list brought
//	watch_duration_seconds{reason}            histogram of watches
//	events_total{type, origin}                changes of the cache
//	event_lag_seconds                         histogram: from a write to the cache, for changes that a watch
//	                                          brought of objects whose managed fields say when that was, in
//	                                          whole seconds of the server's clock
//	cache_objects                             objects in the cache
//	cache_resource_version                    the cache's resource version, if it is a number
//	synced, ready                             1 or 0
//	reflectors{phase}                         reflectors by what they do
//	contact_age_seconds                       since the server was heard of; of several reflectors the longest;
//	                                          none before it was
//	watch_broken_seconds                      since there has been no watch; of several the longest
//	queue_keys, queue_waiting, queue_delayed,
//	queue_out, queue_events                   gauges of a subscriber's event queues
//	queue_oldest_seconds                      age of the oldest event
//	queue_merged_total, queue_dropped_total,
//	queue_retries_total, queue_panics_total,
//	queue_given_up_total                      what became of events
//	queue_wait_seconds                        histogram: from an event to when its object was first
//	                                          handed out
//	handler_duration_seconds{result}          histogram of calls: ok, error, permanent or panic
//	reconcile_duration_seconds{result}        histogram of calls: ok, requeue_after, error, permanent or panic
//
// A reason is ok, or what kind of failure it was: expired, throttled, forbidden,
// not_found, unauthorized, timeout, connection, malformed, cut_off, server or other.
//
// Work queues have client-go's own metrics, workqueue_depth and the like, with the label
// name.
//
// # Concurrency
//
// Everything may be used from any goroutine.
package prometheus
