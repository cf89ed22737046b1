package eventqueuetest_test

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/eventqueue/eventqueuetest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newPod(version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till", UID: "1", ResourceVersion: version}}
}

// expectations is the test: in a program it is called TestPods.
func expectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepAll))
		recorder := eventqueuetest.Record(t, pods)
		till := store.Key{Namespace: "shop", Name: "till"}

		_ = pods.Add(newPod("1"))
		_ = pods.Update(newPod("2"))
		recorder.Expect(till, eventqueuetest.Added(newPod("1")), eventqueuetest.Modified(newPod("1"), newPod("2")))
		recorder.ExpectNothing()

		_ = pods.DeleteKey(till)
		recorder.Expect(till, eventqueuetest.Where("a deletion that nobody saw", func(event eventqueue.Event[*corev1.Pod]) bool {
			return event.Type == eventqueue.Deletion && !event.FinalStateKnown
		}))
	})
}

// A test expects exactly these events.
func ExampleRecord() {
	_ = expectations // go test calls it
}
