package reflectortest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "s-"}}
}

// requireBookmark takes the next event: a bookmark at a version.
func requireBookmark(t *testing.T, w watch.Interface, version string) {
	t.Helper()
	event := <-w.ResultChan()
	require.Equal(t, watch.Bookmark, event.Type)
	require.Equal(t, version, event.Object.(metav1.Object).GetResourceVersion())
}

func TestABookmarkTellsOfChangesToOtherResources(t *testing.T) {
	for name, ask := range map[string]func(*reflectortest.Server){
		"asked for": (*reflectortest.Server).SendBookmarks,
		"periodic":  func(*reflectortest.Server) { <-time.After(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := seeded(t)
				cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
				w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "4", AllowWatchBookmarks: true})
				require.NoError(t, err)
				defer w.Stop()
				synctest.Wait()
				for range 100 {
					require.NoError(t, s.Create(secret()))
				}
				ask(s)
				requireBookmark(t, w, "104")
			})
		})
	}
}
