package series_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// The notes say that the informer notifies and then passes the object to the indexer.
func TestTextAHandlerReadsTheListerBeforeTheIndexerHasTheObject(t *testing.T) {
	found := func(order func(series.Store[*corev1.Pod], func(series.Event[*corev1.Pod])) func(*series.EventQueue[*corev1.Pod]) error) (found bool) {
		indexer := series.NewIndexer(nodeOf)
		lister := series.NewLister(indexer)
		process := order(indexer, func(event series.Event[*corev1.Pod]) { // the handler
			_, found = lister.Get(series.KeyOf(event.Object))
		})
		queue := series.NewEventQueueCollection[*corev1.Pod](indexer)
		require.NoError(t, queue.Add(newTextPod("web", "1", "node-1")))
		taken, err := queue.Pop(t.Context())
		require.NoError(t, err)
		require.NoError(t, process(taken))
		return found
	}
	t.Run("in the order of the notes", func(t *testing.T) { assert.False(t, found(series.NotifyThenStore)) })
	t.Run("the model", func(t *testing.T) { assert.True(t, found(series.Track)) })
	t.Run("the library", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(newTextPod("web", "", "node-1")))
			pods := informer.New(kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods(""))
			found := make(chan bool, 1)
			pods.Handle(informer.HandlerFuncs[*corev1.Pod]{OnAdd: func(pod *corev1.Pod, _ bool) {
				_, ok := pods.Cache().Get(store.Key{Namespace: pod.Namespace, Name: pod.Name})
				found <- ok
			}})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- pods.Run(ctx) }()
			assert.True(t, <-found)
			stop()
			require.NoError(t, <-ended)
		})
	})
}

// The whole flow: each pod gets a label. The first write fails, and its key comes again.
func TestTextTheFlowFromAWatchToAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(500).On("update", "pods").Times(1))
		client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
		flow := series.NewFlow(series.FromClient(client), client, func(pod *corev1.Pod) (*corev1.Pod, bool) {
			if pod.Labels["seen"] != "" {
				return pod, false
			}
			pod = pod.DeepCopy() // the cached object is for reading
			pod.Labels = map[string]string{"seen": "yes"}
			return pod, true
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); flow.Run(ctx, 2) }()
		web := newTextPod("web", "", "node-1")
		require.NoError(t, server.Create(web))
		<-time.After(time.Second)
		require.NoError(t, server.Get(web))
		assert.Equal(t, map[string]string{"seen": "yes"}, web.Labels)
		assert.Len(t, server.Requests(reflectortest.Verb("update")), 2)
		stop()
		<-ended
	})
}
