package storebench

import (
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// commitBatch stores pods in one commit. What it is made of is part of what is measured.
func commitBatch(c *store.Cache[*corev1.Pod], pods []*corev1.Pod) error {
	var batch store.Batch[*corev1.Pod]
	for _, pod := range pods {
		batch.Update(pod)
	}
	return c.Apply(&batch)
}
