package storebench

import (
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	corev1 "k8s.io/api/core/v1"
)

type ours struct {
	cache  *store.Cache[*corev1.Pod]
	byNode *store.Index[string, *corev1.Pod]
}

func newPlainOurs() (subject, error) {
	return &ours{cache: store.New(store.ObjectKey[*corev1.Pod])}, nil
}

func newOurs() (subject, error) {
	c := store.New(store.ObjectKey[*corev1.Pod])
	// Cache.Namespace needs no index; this one is here because the peer needs one, and both are to do the same work.
	_, err := store.AddIndex(c, "namespace", func(pod *corev1.Pod) []string { return []string{pod.Namespace} })
	if err != nil {
		return nil, err
	}
	byNode, err := store.AddIndex(c, "node", func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} })
	if err != nil {
		return nil, err
	}
	return &ours{cache: c, byNode: byNode}, nil
}

func (o *ours) read(names []name) (found int) {
	for _, n := range names {
		if pod, ok := o.cache.Get(store.Key{Namespace: n.namespace, Name: n.name}); ok && pod != nil {
			found++
		}
	}
	return found
}

func (o *ours) len() int { return o.cache.Len() }

func (o *ours) walk() (found int) {
	for _, pod := range o.cache.All() {
		if pod != nil {
			found++
		}
	}
	return found
}

func (o *ours) walkKeys() (found int) {
	for key, pod := range o.cache.All() {
		if pod != nil && key.Name != "" {
			found++
		}
	}
	return found
}

func (o *ours) walkNodes(nodes []string) (found int) {
	for _, node := range nodes {
		for _, pod := range o.byNode.Get(node) {
			if pod != nil {
				found++
			}
		}
	}
	return found
}

func (o *ours) walkSlowly(rest func()) (found int) {
	for _, pod := range o.cache.All() {
		rest()
		if pod != nil {
			found++
		}
	}
	return found
}

func (o *ours) update(pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := o.cache.Update(pod); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) updateAndLook(pods []*corev1.Pod) error {
	seen := 0
	for _, pod := range pods {
		if err := o.cache.Update(pod); err != nil {
			return err
		}
		seen += o.cache.Snapshot().Len()
	}
	return enough(seen, len(pods))
}

// updateAtOnce makes the batch in the measured time.
func (o *ours) updateAtOnce(pods []*corev1.Pod) error {
	batch, _ := decorate.Begin[*corev1.Pod](o.cache, false)
	for _, pod := range pods {
		if err := batch.Write(store.Write[*corev1.Pod]{Type: store.Modification, Object: pod}); err != nil {
			return err
		}
	}
	return batch.Commit("")
}

func (o *ours) holds(pod *corev1.Pod) bool {
	held, _ := o.cache.Get(store.Key{Namespace: pod.Namespace, Name: pod.Name})
	return held == pod
}

func (o *ours) replace(pods []*corev1.Pod, resourceVersion string) error {
	return o.cache.Replace(pods, resourceVersion)
}
