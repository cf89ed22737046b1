package reflectortest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestWatchFromTheFutureHearsNothingUntilItIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		configMap := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		}
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, s.Create(configMap(name)))
		}
		require.NoError(t, s.Restore(s.ResourceVersion()-2))
		w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: "4", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(600)),
		})
		require.NoError(t, err)
		defer w.Stop()
		for s.ResourceVersion() < 4 {
			s.SendBookmarks()
			<-time.After(2 * time.Minute)
			select {
			case e := <-w.ResultChan():
				t.Fatalf("at version %d it heard of %v", s.ResourceVersion(), e)
			default:
			}
			require.NoError(t, s.Create(configMap(time.Now().Format("after-150405"))))
		}
		require.NoError(t, s.Create(configMap("news")))
		heard := <-w.ResultChan()
		if heard.Type == watch.Bookmark { // its timer and the change that reached the version came at once
			heard = <-w.ResultChan()
		}
		require.Equal(t, watch.Added, heard.Type)
		require.Equal(t, "5", heard.Object.(*corev1.ConfigMap).ResourceVersion)
	})
}

func TestRestoreCutsAWatchThatIsBusy(t *testing.T) {
	for range 20 { // a select would choose between the news and the end
		synctest.Test(t, func(t *testing.T) {
			s := seeded(t)
			release := make(chan struct{})
			s.Inject(reflectortest.StallAfterEvents(1, release).On("watch", ""))
			w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "3"})
			require.NoError(t, err)
			defer w.Stop()
			require.Equal(t, "4", (<-w.ResultChan()).Object.(*corev1.ConfigMap).ResourceVersion)
			require.NoError(t, s.Restore(2))
			for i := range 4 {
				require.NoError(t, s.Create(configMap(fmt.Sprint("new-", i))))
			}
			close(release)
			for event := range w.ResultChan() {
				t.Errorf("it goes on in the new history: %v", event)
			}
		})
	}
}

func TestRestoreTakesBackTheLaterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		require.NoError(t, s.Restore(2))
		require.NoError(t, s.Create(configMap("new")))
		_, body, err := get(t, s, path+"?watch=1&resourceVersion=1&timeoutSeconds=1")
		require.NoError(t, err)
		require.Contains(t, body, `"name":"a"`)
		require.Contains(t, body, `"name":"new"`)
		require.NotContains(t, body, `"name":"b"`)
	})
}

func TestAPageFromTheFutureIsTooLargeAndNotExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // client-go waits for Retry-After
		s := seeded(t)
		cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
		page, err := cms.List(t.Context(), metav1.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.NoError(t, s.Restore(3))
		_, err = cms.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: page.Continue})
		require.ErrorContains(t, err, "Too large resource version: 4, current: 3")
		require.True(t, apierrors.IsTimeout(err))
	})
}
