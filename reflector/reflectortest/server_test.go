package reflectortest_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func protobuf(c *rest.Config) *rest.Config {
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = c.ContentType + ",application/json"
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func clientset(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	require.NoError(t, err)
	return client
}

func TestClientsetInBothEncodings(t *testing.T) {
	for name, encode := range map[string]func(*rest.Config) *rest.Config{
		"json":     func(c *rest.Config) *rest.Config { return c },
		"protobuf": protobuf,
	} {
		t.Run(name, func(t *testing.T) {
			s := reflectortest.Start(t)
			ctx := t.Context()
			cms := clientset(t, encode(s.Config())).CoreV1().ConfigMaps("default")
			created, err := cms.Create(ctx, configMap("a"), metav1.CreateOptions{})
			require.NoError(t, err)
			require.NotEmpty(t, created.UID)
			w, err := cms.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion})
			require.NoError(t, err)
			defer w.Stop()
			created.Data = map[string]string{"k": "v"}
			updated, err := cms.Update(ctx, created, metav1.UpdateOptions{})
			require.NoError(t, err)
			event := <-w.ResultChan()
			require.Equal(t, watch.Modified, event.Type)
			require.Equal(t, updated, event.Object)
			list, err := cms.List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			require.Equal(t, []corev1.ConfigMap{*updated}, list.Items)
			require.NoError(t, cms.Delete(ctx, "a", metav1.DeleteOptions{}))
			event = <-w.ResultChan()
			require.Equal(t, watch.Deleted, event.Type)
		})
	}
}

func TestOnPort(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.OnPort())
	require.NoError(t, s.Create(configMap("a")))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.URL() + "/api/v1/configmaps")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestTimeoutSecondsAndBookmarksByTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
		began := time.Now()
		w, err := cms.Watch(context.Background(), metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(150))})
		require.NoError(t, err)
		var at []time.Duration
		for event := range w.ResultChan() {
			require.Equal(t, watch.Bookmark, event.Type)
			at = append(at, time.Since(began))
		}
		require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 148 * time.Second}, at)
		require.Equal(t, 150*time.Second, time.Since(began))
	})
}
