package apiserver

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const few = 25

func start(t *testing.T, dataset, features string) (*rest.Config, *http.Client) {
	s, err := (&Servers{Objects: few}).Start(dataset, features)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return &rest.Config{Host: s.URL}, client
}

// inFormats calls do with clients of a server with pods.
func inFormats(t *testing.T, features string, do func(t *testing.T, host string, pods kubernetes.Interface)) {
	for _, f := range []Format{InJSON, InProtobuf} {
		t.Run(string(f), func(t *testing.T) {
			config, client := start(t, "pods", features)
			config.ContentType = string(f)
			clientset, err := kubernetes.NewForConfigAndClient(config, client)
			require.NoError(t, err)
			do(t, config.Host, clientset)
		})
	}
}

func open(t *testing.T, c kubernetes.Interface, opts metav1.ListOptions) watch.Interface {
	w, err := c.CoreV1().Pods("").Watch(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

func TestListHasThePods(t *testing.T) {
	inFormats(t, Lists, func(t *testing.T, _ string, c kubernetes.Interface) {
		list, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, few)
		for i, pod := range objects.Pods(few, objects.Templated) {
			pod.ResourceVersion = strconv.Itoa(objects.FirstVersion + i)
			want, err := pod.Marshal() // protobuf, because quantities remember how they were written
			require.NoError(t, err)
			got, err := list.Items[i].Marshal()
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
		assert.Equal(t, strconv.Itoa(objects.FirstVersion+few-1), list.ResourceVersion)
	})
}

func TestOrderedChangesAreOfDifferentObjects(t *testing.T) {
	inFormats(t, Lists, func(t *testing.T, host string, c kubernetes.Interface) {
		w := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
		require.NoError(t, Order(host, fmt.Sprint("modify?n=", few)))
		seen := map[string]bool{}
		for i := range few {
			e := <-w.ResultChan()
			require.Equal(t, watch.Modified, e.Type)
			pod, ok := e.Object.(*corev1.Pod)
			require.True(t, ok)
			assert.Equal(t, strconv.Itoa(objects.FirstVersion+few+i), pod.ResourceVersion)
			assert.Len(t, pod.Spec.Containers, 2)
			seen[pod.Name] = true
		}
		assert.Len(t, seen, few)

		list, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(objects.FirstVersion+2*few-1), list.ResourceVersion)
		for i := range list.Items {
			version, err := strconv.Atoi(list.Items[i].ResourceVersion)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, version, objects.FirstVersion+few)
		}
	})
}

func TestOrderToFailEndsWhenTheClientWatchesAgain(t *testing.T) {
	inFormats(t, Lists, func(t *testing.T, host string, c kubernetes.Interface) {
		w := open(t, c, metav1.ListOptions{})
		told := make(chan error)
		go func() { told <- Order(host, "fail") }()
		e := <-w.ResultChan()
		require.Equal(t, watch.Error, e.Type)
		assert.True(t, apierrors.IsInternalError(apierrors.FromObject(e.Object)), "%+v", e.Object)
		select {
		case <-told:
			t.Fatal("no client watches")
		default:
		}
		open(t, c, metav1.ListOptions{})
		assert.NoError(t, <-told)
	})
}

func TestWatchThatBeginsWithTheState(t *testing.T) {
	yes := true
	opts := metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	inFormats(t, Lists, func(t *testing.T, _ string, c kubernetes.Interface) {
		_, err := c.CoreV1().Pods("").Watch(t.Context(), opts)
		assert.True(t, apierrors.IsInvalid(err), "%v", err)
	})
	inFormats(t, Streams, func(t *testing.T, _ string, c kubernetes.Interface) {
		w := open(t, c, opts)
		for range few {
			require.Equal(t, watch.Added, (<-w.ResultChan()).Type)
		}
		last := <-w.ResultChan()
		require.Equal(t, watch.Bookmark, last.Type)
		pod, ok := last.Object.(*corev1.Pod)
		require.True(t, ok)
		assert.Equal(t, strconv.Itoa(objects.FirstVersion+few-1), pod.ResourceVersion)
		assert.Equal(t, "true", pod.Annotations[metav1.InitialEventsAnnotationKey])
	})
}

func TestCustomResources(t *testing.T) {
	config, client := start(t, "custom", Lists)
	c, err := dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	list, err := c.Resource(objects.ApplicationResource).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, few)
	assert.Equal(t, objects.ApplicationKind.Kind, list.Items[3].GetKind())
	assert.Equal(t, objects.NewApplication(3).Name, list.Items[3].GetName())
}

func TestUnknownDataSetAndUnknownResource(t *testing.T) {
	_, err := (&Servers{Objects: few}).Start("nothing", Lists)
	assert.ErrorContains(t, err, "nothing")
	config, _ := start(t, "pods", Lists)
	assert.ErrorContains(t, Order(config.Host, "modify?n=many"), "400")
	assert.ErrorContains(t, Order(config.Host, "stop"), "404")
}

func TestObjectThatHasNotOneVersion(t *testing.T) {
	for _, object := range []string{`{}`, `{"resourceVersion":"12345678","uid":"12345678"}`} {
		assert.ErrorContains(t, (&set{format: InJSON}).add([]byte(object), "12345678"), "12345678", object)
	}
	assert.Error(t, (&set{format: InJSON}).add([]byte(`"123"`), "123"), "other versions have more digits")
}
