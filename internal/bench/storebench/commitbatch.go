package storebench

import (
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// commitBatch stores pods in one commit. As long as a cache has no commit of many changes, it is one commit a pod.
func commitBatch(c *store.Cache[*corev1.Pod], pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := c.Update(pod); err != nil {
			return err
		}
	}
	return nil
}
