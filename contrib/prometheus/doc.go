// Package prometheus exports metrics of informers to Prometheus.
//
//	metrics := prometheus.New()
//	registry.MustRegister(metrics)
//	pods := informer.New(client, metrics.Options("pods")...)
//	prometheus.Add(metrics, pods)
//
// [Metrics.Options] measures operations, so the informer needs it from its start. [Add] reads the
// current state at each scrape. For reconcilers, use [Metrics.ReconcilerOptions] and
// [AddReconciler]. Register [NewLeader] for a leader election and [NewShards] for a member of a
// shard group.
//
// A manager passes the options to all informers and reconcilers that it makes. Also call [Add] for
// each informer and [AddReconciler] for each reconciler: without these calls, the series of their
// state and their queues are missing, and the alerts on these series never fire.
//
//	m := manager.New(config, manager.WithInformerOptions(metrics.Options),
//		manager.WithReconcilerOptions(metrics.ReconcilerOptions()...))
//	pods, err := manager.Informer[*corev1.Pod](m, manager.Selection{})
//	prometheus.Add(metrics, pods)
//	prometheus.AddReconciler(metrics, manager.Reconcile(m, "pods", pods, reconcile))
//	registry.MustRegister(prometheus.NewLeader("pods", m))
//
// # Metrics
//
// All names begin with kubereflector_. Metrics of informers have the label informer, those of a
// subscriber also the label subscriber, and those of a reconciler only the label reconciler. No label
// contains the key of an object or a message, so the number of series depends only on the number of
// informers, subscribers and reconcilers. A manager names an informer after its type and selection,
// so there the label may contain a namespace and selectors.
//
//	list_duration_seconds{reason, streamed}   histogram of lists and watch-lists
//	list_objects                              gauge: objects in the last list
//	watch_duration_seconds{reason}            histogram of watches
//	events_total{type, origin}                changes of the cache
//	event_lag_seconds                         histogram: from a write to the cache, for watch events of
//	                                          objects with managed fields, in whole seconds of the
//	                                          server's clock
//	cache_objects                             objects in the cache
//	cache_rejected_objects                    objects that the cache rejected: it lacks them, or their last state
//	cache_resource_version                    the cache's resource version, if it is a number
//	synced, ready                             1 or 0
//	reflectors{phase}                         reflectors by phase
//	contact_age_seconds                       since the last contact with the server; the longest of several
//	                                          reflectors; no series before the first contact
//	watch_broken_seconds                      since there has been no watch; the longest of several reflectors
//	queue_keys, queue_waiting, queue_delayed,
//	queue_out, queue_held, queue_events       gauges of a subscriber's event queues
//	queue_oldest_seconds                      age of the oldest event
//	queue_merged_total, queue_dropped_total,
//	queue_retries_total, queue_panics_total,
//	queue_given_up_total                      counters of events by outcome
//	queue_wait_seconds                        histogram: from an event to the first delivery of its
//	                                          object
//	handler_duration_seconds{result}          histogram of calls: ok, error, permanent or panic
//	reconcile_duration_seconds{result}        histogram of calls: ok, requeue_after, error, permanent or panic
//	reconcile_wait_seconds                    histogram: from an event to the first call for its key
//	reconcile_queue_keys, ...                 the state of a reconciler's queue, as queue_keys and the other
//	                                          metrics of a subscriber's queues. A key with an event that
//	                                          waits for its own writes to be seen counts as out and as held
//	leading{lease}                            1 or 0, by NewLeader
//	shards{group}, shards_held{group},
//	shards_ending{group},
//	shards_overdue{group},
//	shards_free{group}                        gauges of shards, by NewShards
//	shard_members{group}                      members of the group, this one included
//	shard_lease_age_seconds{group}            since the last renewal of the member's lease
//
// The label reason is ok or the kind of failure: expired, throttled, forbidden, not_found,
// unauthorized, timeout, connection, malformed, cut_off, server or other.
//
// When a subscription of an added informer is closed, its series are deleted, and the counters of a
// new subscriber begin at zero. The functions that Add and AddReconciler return delete the series of
// an informer or a reconciler: call them if your informers or reconcilers come and go.
//
// # Concurrency
//
// Every function and method may be called from any goroutine.
package prometheus
