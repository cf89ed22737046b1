package series_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// watchRaw opens a watch of pods by hand, as curl does.
func watchRaw(t *testing.T, server *reflectortest.Server, query string) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(server.Config())
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.Config().Host+"/api/v1/pods?watch=true&"+query, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestTextWatchEventsComeInChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(newTextPod("web", "", "")))
		response := watchRaw(t, server, "resourceVersion=0")
		assert.Equal(t, []string{"chunked"}, response.TransferEncoding)
		assert.EqualValues(t, -1, response.ContentLength, "nobody knows the length")

		known := &series.Map[*corev1.Pod]{}
		var types []watch.EventType
		for event, err := range series.ReadEvents[*corev1.Pod](response.Body) {
			require.NoError(t, err)
			require.NoError(t, event.Apply(known))
			if types = append(types, event.Type); event.Type == watch.Deleted {
				break
			}
			if event.Type == watch.Added {
				require.NoError(t, server.Delete(event.Object)) // is marked, and then removed
			}
		}
		assert.Equal(t, []watch.EventType{watch.Added, watch.Modified, watch.Deleted}, types)
		assert.Empty(t, known.List())
	})
}

func TestTextAnOldVersionEndsAWatchWithAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(newTextPod("web", "", "")))
		require.NoError(t, server.Update(newTextPod("web", "", "node-1")))
		require.NoError(t, server.Compact(server.ResourceVersion()))
		for event, err := range series.ReadEvents[*corev1.Pod](watchRaw(t, server, "resourceVersion=1").Body) {
			require.NoError(t, err)
			assert.EqualValues(t, http.StatusGone, event.Status.Code)
			assert.Error(t, event.Apply(&series.Map[*corev1.Pod]{}))
		}
	})
}

// The server has learnt a fifth type since: a BOOKMARK carries the current version alone.
func TestTextAFifthTypeBreaksAWatchOfFour(t *testing.T) {
	start := func(t *testing.T) *reflectortest.Server {
		server := reflectortest.Start(t, reflectortest.WithBookmarkInterval(time.Minute))
		require.NoError(t, server.Create(newTextPod("web", "", "")))
		return server
	}
	both(t, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := start(t)
			query := fmt.Sprintf("allowWatchBookmarks=true&resourceVersion=%d", server.ResourceVersion())
			for _, err := range series.ReadEvents[*corev1.Pod](watchRaw(t, server, query).Body) {
				assert.ErrorContains(t, err, "BOOKMARK")
			}
		})
	}, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := start(t)
			pods := store.New(store.ObjectKey[*corev1.Pod])
			r := reflector.New(kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods(""), pods)
			ended := make(chan error, 1)
			go func() { ended <- r.Run(t.Context()) }()
			<-r.Synced()
			// A change of another kind: the reflector of pods hears of its version by a bookmark alone.
			require.NoError(t, server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}}))
			<-time.After(2 * time.Minute)
			synctest.Wait()
			assert.Equal(t, fmt.Sprint(server.ResourceVersion()), r.State().ResourceVersion)
		})
	})
}
