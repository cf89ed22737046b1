package storebench

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// scale says how much is measured at once. A round should take tens of milliseconds: less is lost in the noise, more in waiting.
type scale struct {
	size objects.Size

	flushed int           // bytes that are written to empty the CPU's caches
	lists   []int         // sizes of first lists
	lag     time.Duration // how long events are committed beside listing readers
	reads   int           // point reads of one reader
	writing time.Duration // at most this long do readers read beside a writer
	walks   int           // full walks over the pods: see walking
	sweeps  int           // walks of every node
	updates int           // single updates
	batches int           // batches of updates
	batch   int           // updates in a batch
}

var full = scale{
	size: objects.Size{Pods: 100_000, Namespaces: 100, Nodes: 500}, flushed: 256 << 20, lists: []int{1_000, 10_000, 100_000},
	lag: 2 * time.Second, reads: 300_000, writing: 150 * time.Millisecond, walks: 300, sweeps: 10, updates: 20_000,
	batches: 20, batch: 1_000,
}

var tiny = scale{
	size: objects.Size{Pods: 300, Namespaces: 4, Nodes: 6}, flushed: 1 << 10, lists: []int{10, 100},
	lag: 20 * time.Millisecond, reads: 1_000, writing: 10 * time.Millisecond, walks: 2, sweeps: 2, updates: 100,
	batches: 2, batch: 50,
}

// world is the pods, and the two caches that hold them. One case uses it at a time.
type world struct {
	scale
	set *objects.Set
	// names are keys as an event, an index or a queue hands them out: their strings are the
	// objects' strings. The strings of foreign come from elsewhere, such as the wire.
	names   []name
	foreign []name
	random  *rand.Rand

	flush []byte // larger than the CPU's caches

	ours, peer subject
	used       bool // something was written since the caches were filled
}

// distinctNames is the number of point reads before they repeat. More names would fill the CPU's
// caches and distort the measurement.
const distinctNames = 1 << 16

func newWorld(s scale) *world {
	w := &world{scale: s, set: objects.NewSet(s.size), random: rand.New(rand.NewPCG(3, 4)), flush: make([]byte, s.flushed), used: true}
	namespaces := map[string]string{} // a caller has many names of one namespace
	for range min(s.reads, distinctNames) {
		pod := w.anyPod()
		namespace, ok := namespaces[pod.Namespace]
		if !ok {
			namespace = strings.Clone(pod.Namespace)
			namespaces[namespace] = namespace
		}
		w.names = append(w.names, name{namespace: pod.Namespace, name: pod.Name})
		w.foreign = append(w.foreign, name{namespace: namespace, name: strings.Clone(pod.Name)})
	}
	return w
}

// round measures a cache once.
type round func(subject) (float64, error)

// sides makes a round for each cache, which are as they were after they had been filled.
func (w *world) sides(r round) func() (ours, peer measure.Round, err error) {
	return func() (ours, peer measure.Round, err error) {
		if w.used {
			w.used = false
			if w.ours, err = w.filled(newOurs); err != nil {
				return nil, nil, err
			}
			if w.peer, err = w.filled(newPeer); err != nil {
				return nil, nil, err
			}
		}
		o, p := w.ours, w.peer
		return func() (float64, error) { return r(o) }, func() (float64, error) { return r(p) }, nil
	}
}

// plainSides is sides with caches that have no index.
func (w *world) plainSides(r round) func() (ours, peer measure.Round, err error) {
	return func() (ours, peer measure.Round, err error) {
		o, err := w.filled(newPlainOurs)
		if err != nil {
			return nil, nil, err
		}
		p, err := w.filled(newPlainPeer)
		return func() (float64, error) { return r(o) }, func() (float64, error) { return r(p) }, err
	}
}

// emptySides makes rounds that make their caches themselves.
func emptySides(r func(empty func() (subject, error)) (float64, error)) func() (ours, peer measure.Round, err error) {
	return func() (ours, peer measure.Round, err error) {
		return func() (float64, error) { return r(newOurs) }, func() (float64, error) { return r(newPeer) }, nil
	}
}

func (w *world) filled(empty func() (subject, error)) (subject, error) {
	s, err := empty()
	if err != nil {
		return nil, err
	}
	if err := s.replace(w.set.Pods, w.set.Version()); err != nil {
		return nil, err
	}
	return s, enough(s.len(), len(w.set.Pods)) // a walk would leave a snapshot and change the case
}

func (w *world) anyPod() *corev1.Pod { return w.set.Pods[w.random.IntN(len(w.set.Pods))] }

// changed returns n pods as a watch would report them.
func (w *world) changed(n int, pick func(i int) *corev1.Pod) []*corev1.Pod {
	w.used = true
	changed := make([]*corev1.Pod, n)
	for i := range changed {
		changed[i] = w.set.Changed(pick(i))
	}
	return changed
}

// changes returns random pods.
func (w *world) changes(n int) []*corev1.Pod {
	return w.changed(n, func(int) *corev1.Pod { return w.anyPod() })
}

// hotChanges returns changes of few pods, in no order: 1,000 objects that controllers are at work on.
func (w *world) hotChanges(n int) []*corev1.Pod {
	hot := min(1000, len(w.set.Pods))
	step := len(w.set.Pods) / hot
	return w.changed(n, func(int) *corev1.Pod { return w.set.Pods[w.random.IntN(hot)*step] })
}

// changesInOrder returns pods that follow each other in the order of keys, from a random one on.
func (w *world) changesInOrder(n int) []*corev1.Pod {
	n = min(n, len(w.set.Pods))
	first := w.random.IntN(len(w.set.Pods) - n + 1)
	return w.changed(n, func(i int) *corev1.Pod { return w.set.Pods[first+i] })
}
