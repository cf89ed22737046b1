package storebench

import (
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

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
