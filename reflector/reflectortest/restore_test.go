package reflectortest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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
		e := <-w.ResultChan()
		for e.Type == watch.Bookmark { // of the version that was reached
			e = <-w.ResultChan()
		}
		require.Equal(t, "5", e.Object.(*corev1.ConfigMap).ResourceVersion)
	})
}
