package storebench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Topic is the subcommand "store".
var Topic = measure.Topic{Name: "store", Summary: "the cache beside client-go's indexer", Cases: func(run *measure.World) []measure.Case {
	if run.Size == measure.Tiny {
		return newWorld(tiny).cases()
	}
	return newWorld(full).cases()
}}

// cases are in the order in which they are measured. Those that only read come first: caches that
// were written to are filled again for the next case, which takes a second.
func (w *world) cases() []measure.Case {
	return slices.Concat(w.readCases(), w.walkCases(), w.updateCases(), w.listCases(), w.typeCases(), w.lagCases())
}

func (w *world) walkCases() []measure.Case {
	return measure.Omitting("the snapshot that the first reader after a commit makes",
		measure.Case{Name: "walk/all", Omits: "a cold walk: all but the first find warm CPU caches", Unit: "ms", Goal: measure.RatioAtMost(0.6), Sides: w.sides(w.walking)},
		measure.Case{Name: "walk/node", Omits: "a cold walk, and nodes without pods", Unit: "µs", Goal: measure.RatioAtMost(0.25), Sides: w.sides(w.walkingNodes)},
		measure.Case{Name: "walk/once-cold", Unit: "ms", Goal: measure.RatioAtMost(1), Sides: w.sides(w.walkingOnce(subject.walk))},
		measure.Case{Name: "walk/once-cold-keys", Unit: "ms", Goal: measure.RatioAtMost(1.3), Sides: w.sides(w.walkingOnce(subject.walkKeys))},
		measure.Case{Name: "walk/once-cold-half-updated", Unit: "ms", Goal: measure.RatioAtMost(1.8), Sides: w.halfUpdated(w.walkingOnce(subject.walk))},
		measure.Case{Name: "walk/once-cold-keys-half-updated", Unit: "ms", Sides: w.halfUpdated(w.walkingOnce(subject.walkKeys))},
	)
}

// walking runs for so long that the runtime has to collect the garbage of the walks. That garbage
// is most of the cost of a List, which makes a slice of all pods each time. Without a collection in
// the measured time, a List would look several times as fast as in a program.
func (w *world) walking(s subject) (float64, error) {
	found := 0
	figure := measure.PerOp(w.walks, time.Millisecond, func() {
		for range w.walks {
			found += s.walk()
		}
	})
	return figure, enough(found, w.walks*len(w.set.Pods))
}

// walkingNodes measures how long it takes to read the pods of one node, as the mean of all nodes.
func (w *world) walkingNodes(s subject) (float64, error) {
	found := 0
	figure := measure.PerOp(w.sweeps*len(w.set.Nodes), time.Microsecond, func() {
		for range w.sweeps {
			found += s.walkNodes(w.set.Nodes)
		}
	})
	return figure, enough(found, w.sweeps*len(w.set.Pods))
}

// walkingOnce walks all pods once, which the CPU's caches have forgotten: what a resync, a health check or a metric costs.
func (w *world) walkingOnce(walk func(subject) int) round {
	return func(s subject) (float64, error) {
		walk(s) // the first walk after a commit makes a snapshot
		runtime.GC()
		for i := range w.flush {
			w.flush[i]++
		}
		found := 0
		figure := measure.PerOp(1, time.Millisecond, func() { found = walk(s) })
		return figure, enough(found, len(w.set.Pods))
	}
}

// halfUpdated makes sides in which every second pod has changed since the cache was filled, in no
// order.
func (w *world) halfUpdated(r round) func() (ours, peer measure.Round, err error) {
	prepared := w.sides(r)
	return func() (ours, peer measure.Round, err error) {
		if ours, peer, err = prepared(); err != nil {
			return nil, nil, err
		}
		half := len(w.set.Pods) / 2
		return ours, peer, errors.Join(updateAll(w.ours, w.changes(half)), updateAll(w.peer, w.changes(half)))
	}
}

func (w *world) updateCases() []measure.Case {
	const snapshots = "reading the snapshot, and readers that keep old ones"
	return measure.Omitting("additions, deletions, and pods that change their node",
		measure.Case{Name: "update/2-indexes", Unit: "µs", Goal: measure.RatioAtMost(0.9), Sides: w.sides(w.updating(w.changes, updateAll))},
		measure.Case{Name: "update/2-indexes-hot", Unit: "µs", Goal: measure.RatioAtMost(1), Sides: w.sides(w.updating(w.hotChanges, updateAll))},
		measure.Case{Name: "update/no-index", Unit: "µs", Goal: measure.RatioAtMost(1.2), Sides: w.plainSides(w.updating(w.changes, updateAll))},
		measure.Case{Name: "update+snapshot", Omits: snapshots, Unit: "µs", Goal: measure.RatioAtMost(4), Sides: w.sides(w.updating(w.changes, lookEvery(1)))},
		measure.Case{Name: "update+snapshot-every-100", Omits: snapshots, Unit: "µs", Goal: measure.RatioAtMost(2), Sides: w.sides(w.updating(w.changes, lookEvery(100)))},
		measure.Case{Name: "batch/in-order", Unit: "µs/object", Goal: measure.RatioAtMost(0.9), Sides: w.sides(w.updatingBatches(w.changesInOrder))},
		measure.Case{Name: "batch/random", Unit: "µs/object", Goal: measure.RatioAtMost(1.2), Sides: w.sides(w.updatingBatches(w.changes))},
	)
}

func (w *world) updating(changes func(int) []*corev1.Pod, update func(subject, []*corev1.Pod) error) round {
	return func(s subject) (float64, error) {
		return timeUpdates(s, changes(w.updates), func(updates []*corev1.Pod) error { return update(s, updates) })
	}
}

// timeUpdates returns the microseconds of an update. It verifies that the last one arrived.
func timeUpdates(s subject, updates []*corev1.Pod, do func([]*corev1.Pod) error) (float64, error) {
	var err error
	figure := measure.PerOp(len(updates), time.Microsecond, func() { err = do(updates) })
	if last := updates[len(updates)-1]; err == nil && !s.holds(last) {
		err = fmt.Errorf("update of %s/%s did not arrive", last.Namespace, last.Name)
	}
	return figure, err
}

// lookEvery updates pods one by one, and looks at one state for many reads after each n of them.
func lookEvery(n int) func(subject, []*corev1.Pod) error {
	return func(s subject, pods []*corev1.Pod) error {
		for chunk := range slices.Chunk(pods, n) {
			if err := updateAll(s, chunk); err != nil {
				return err
			}
			s.look()
		}
		return nil
	}
}

// updatingBatches measures commits of many updates. The measured time includes making the batch from the pods.
func (w *world) updatingBatches(changes func(int) []*corev1.Pod) round {
	return func(s subject) (float64, error) {
		var all []*corev1.Pod
		for range w.batches {
			all = append(all, changes(w.batch)...)
		}
		return timeUpdates(s, all, func([]*corev1.Pod) error {
			for batch := range slices.Chunk(all, len(all)/w.batches) {
				if err := s.updateAtOnce(batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// listCases measure the first list into an empty cache with two indexes: its time, and the memory of
// the cache.
func (w *world) listCases() []measure.Case {
	all := []measure.Case{{
		Name: "heap", Unit: "bytes/object", Omits: "the objects, and what updates leave behind", Goal: measure.RatioAtMost(1.05), Rounds: 1, Sides: emptySides(w.heap),
	}}
	for _, n := range w.lists {
		goal := measure.Goal{}
		if n == 1_000 {
			goal = measure.RatioAtMost(1.2)
		}
		all = append(all, measure.Case{
			Name: fmt.Sprintf("first-list/%d", n), Unit: "µs/object", Goal: goal, Omits: "decoding, and objects that the cache has already",
			Sides: emptySides(func(empty func() (subject, error)) (float64, error) { return w.firstList(n, empty) }),
		})
	}
	return all
}

// heap measures what a cache needs for an object, on top of the object itself, after it was filled in the order of keys.
func (w *world) heap(empty func() (subject, error)) (float64, error) {
	before := measure.LiveHeap()
	s, err := w.filled(empty)
	if err != nil {
		return 0, err
	}
	after := measure.LiveHeap()
	err = enough(s.walk(), len(w.set.Pods))
	runtime.KeepAlive(w.set)
	return (float64(after) - float64(before)) / float64(len(w.set.Pods)), err
}

// firstList fills several empty caches, so that a round of small lists is as long as one of large ones.
func (w *world) firstList(n int, empty func() (subject, error)) (float64, error) {
	caches := make([]subject, max(1, len(w.set.Pods)/n))
	for i := range caches {
		var err error
		if caches[i], err = empty(); err != nil {
			return 0, err
		}
	}
	var err error
	figure := measure.PerOp(n*len(caches), time.Microsecond, func() {
		for _, s := range caches {
			if err = s.replace(w.set.Pods[:n], w.set.Version()); err != nil {
				return
			}
		}
	})
	if err == nil {
		err = enough(caches[0].len(), n)
	}
	return figure, err
}

// place is what a program may keep of a pod, as a struct and not as a pointer.
type place struct{ namespace, name, node string }

// typeCases measure updates of caches whose T is no pointer, without indexes. client-go's keeps the
// same values as interfaces. The case update/no-index is the one of pointers.
func (w *world) typeCases() []measure.Case {
	return measure.Omitting("indexes, additions and deletions",
		typed(w, "struct", func(pod *corev1.Pod) place { return place{pod.Namespace, pod.Name, pod.Spec.NodeName} },
			func(p place) store.Key { return store.Key{Namespace: p.namespace, Name: p.name} }),
		typed(w, "string", func(pod *corev1.Pod) string { return pod.Name },
			func(s string) store.Key { return store.Key{Name: s} }),
		typed(w, "interface", func(pod *corev1.Pod) metav1.Object { return pod },
			func(o metav1.Object) store.Key { return store.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }),
	)
}

// typed returns the case of one T.
func typed[T any](w *world, name string, of func(*corev1.Pod) T, key func(T) store.Key) measure.Case {
	c := store.New(func(v T) (store.Key, error) { return key(v), nil })
	x := cache.NewIndexer(func(object any) (string, error) {
		v, ok := object.(T)
		if !ok {
			return "", fmt.Errorf("%T is no %s", object, name)
		}
		k := key(v)
		return k.Namespace + "/" + k.Name, nil
	}, cache.Indexers{})
	values := func(pods []*corev1.Pod) []T { // new objects in each round: a cache need not store the same one again
		all := make([]T, len(pods))
		for i, pod := range pods {
			all[i] = of(pod)
		}
		return all
	}
	updating := func(update func(T) error) measure.Round {
		return func() (float64, error) {
			updates := values(w.changes(w.updates))
			var err error
			figure := measure.PerOp(len(updates), time.Microsecond, func() {
				for _, v := range updates {
					if err = update(v); err != nil {
						return
					}
				}
			})
			return figure, err
		}
	}
	return measure.Case{Name: "update/of-" + name, Unit: "µs", Sides: func() (ours, peer measure.Round, err error) {
		first := values(w.set.Pods)
		for _, v := range first {
			if err := x.Add(v); err != nil {
				return nil, nil, err
			}
		}
		return updating(c.Update), updating(func(v T) error { return x.Update(v) }), c.Replace(first, w.set.Version())
	}}
}
