package storebench

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// place is what a program may keep of a pod, as a struct and not as a pointer.
type place struct{ namespace, name, node string }

// typeCases measure updates and reads of caches of different T, without indexes. client-go's keeps the
// same values as interfaces.
func (w *world) typeCases() []measure.Case {
	return measure.Omitting("indexes, additions and deletions", slices.Concat(
		typed(w, "pointer", func(pod *corev1.Pod) *corev1.Pod { return pod },
			func(pod *corev1.Pod) store.Key { return store.Key{Namespace: pod.Namespace, Name: pod.Name} }),
		typed(w, "struct", func(pod *corev1.Pod) place { return place{pod.Namespace, pod.Name, pod.Spec.NodeName} },
			func(p place) store.Key { return store.Key{Namespace: p.namespace, Name: p.name} }),
		typed(w, "string", func(pod *corev1.Pod) string { return pod.Name },
			func(s string) store.Key { return store.Key{Name: s} }),
		typed(w, "interface", func(pod *corev1.Pod) metav1.Object { return pod },
			func(o metav1.Object) store.Key { return store.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }),
	)...)
}

// typed returns the cases of one T.
func typed[T any](w *world, name string, of func(*corev1.Pod) T, key func(T) store.Key) []measure.Case {
	sides := func(round func(update func(T) error, get func(T) bool, values []T) (float64, error)) func() (ours, peer measure.Round, err error) {
		return func() (ours, peer measure.Round, err error) {
			c := store.New(func(v T) (store.Key, error) { return key(v), nil })
			x := cache.NewIndexer(func(object any) (string, error) {
				v, ok := object.(T)
				if !ok {
					return "", fmt.Errorf("%T is no %s", object, name)
				}
				k := key(v)
				return k.Namespace + "/" + k.Name, nil
			}, cache.Indexers{})
			first := make([]T, len(w.set.Pods))
			for i, pod := range w.set.Pods {
				first[i] = of(pod)
				if err := x.Add(first[i]); err != nil {
					return nil, nil, err
				}
			}
			if err := c.Replace(first, w.set.Version()); err != nil {
				return nil, nil, err
			}
			again := func() []T { // new objects in each round: a cache need not store the same one again
				values := make([]T, w.updates)
				for i, pod := range w.changes(w.updates) {
					values[i] = of(pod)
				}
				return values
			}
			return func() (float64, error) {
					return round(c.Update, func(v T) bool { _, ok := c.Get(key(v)); return ok }, again())
				}, func() (float64, error) {
					return round(func(v T) error { return x.Update(v) }, func(v T) bool { _, ok, err := x.Get(v); return ok && err == nil }, again())
				}, nil
		}
	}
	return []measure.Case{
		{Name: "update/of-" + name, Unit: "µs", Sides: sides(func(update func(T) error, _ func(T) bool, values []T) (figure float64, err error) {
			figure = measure.PerOp(len(values), time.Microsecond, func() {
				for _, v := range values {
					if err = update(v); err != nil {
						return
					}
				}
			})
			return figure, err
		})},
		{Name: "get/of-" + name, Unit: "ns", Sides: sides(func(_ func(T) error, get func(T) bool, values []T) (float64, error) {
			found := 0
			figure := measure.PerOp(len(values), time.Nanosecond, func() {
				for _, v := range values {
					if get(v) {
						found++
					}
				}
			})
			return figure, enough(found, len(values))
		})},
	}
}
