package storebench

import (
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// commitBatch stores pods in one commit. What it is made of is part of what is measured.
func commitBatch(c *store.Cache[*corev1.Pod], pods []*corev1.Pod) error {
	batch, _ := store.Begin[*corev1.Pod](c, false)
	for _, pod := range pods {
		if err := batch.Write(store.Write[*corev1.Pod]{Type: store.Modification, Object: pod}); err != nil {
			return err
		}
	}
	return batch.Commit("")
}
