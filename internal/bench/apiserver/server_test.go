package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const few = 25

// newServer returns the roots of two API servers, in this process.
func newServer(t *testing.T, dataset string) (listing, streaming string) {
	s := httptest.NewServer(&server{shelf: shelf{objects: few}, clients: map[string]*replay{}})
	t.Cleanup(s.Close)
	return s.URL + "/a/" + dataset + "/" + Lists, s.URL + "/b/" + dataset + "/" + Streams
}

func newClientset(t *testing.T, host string, f Format) kubernetes.Interface {
	config := &rest.Config{Host: host}
	config.ContentType = string(f)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return clientset
}

func tell(t *testing.T, host, what string) {
	for {
		response, err := http.Post(host+"/-/"+what, "", nil)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if response.StatusCode != http.StatusConflict { // it is not being watched yet
			require.Equal(t, http.StatusOK, response.StatusCode, string(text))
			return
		}
	}
}

// inFormats calls do with each format.
func inFormats(t *testing.T, do func(t *testing.T, f Format)) {
	for _, f := range []Format{InJSON, InProtobuf} {
		t.Run(string(f), func(t *testing.T) { do(t, f) })
	}
}

func TestListIsWhatThePodsAre(t *testing.T) {
	inFormats(t, func(t *testing.T, f Format) {
		host, _ := newServer(t, "pods")
		list, err := newClientset(t, host, f).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		want := objects.Pods(few, objects.Templated)
		require.Len(t, list.Items, few)
		for i, pod := range want {
			pod.TypeMeta, pod.ResourceVersion = metav1.TypeMeta{}, strconv.Itoa(FirstVersion+i)
			requireSamePod(t, pod, &list.Items[i])
		}
		assert.Equal(t, strconv.Itoa(FirstVersion+few-1), list.ResourceVersion)
	})
}

// requireSamePod compares pods in protobuf: quantities remember how they were written.
func requireSamePod(t *testing.T, want, got *corev1.Pod) {
	a, err := want.Marshal()
	require.NoError(t, err)
	b, err := got.Marshal()
	require.NoError(t, err)
	if string(a) != string(b) {
		require.Equal(t, want, got)
	}
}

func TestWatchBringsChangesOfDifferentObjects(t *testing.T) {
	inFormats(t, func(t *testing.T, f Format) {
		host, _ := newServer(t, "pods")
		clientset := newClientset(t, host, f)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, err := clientset.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
		require.NoError(t, err)
		defer w.Stop()
		tell(t, host, fmt.Sprintf("modify?n=%d", few))
		seen := map[string]bool{}
		for i := range few {
			e := <-w.ResultChan()
			require.Equal(t, watch.Modified, e.Type)
			pod, ok := e.Object.(*corev1.Pod)
			require.True(t, ok)
			assert.Equal(t, strconv.Itoa(FirstVersion+few+i), pod.ResourceVersion)
			assert.Len(t, pod.Spec.Containers, 2)
			seen[pod.Name] = true
		}
		assert.Len(t, seen, few)

		list, err := clientset.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(FirstVersion+2*few-1), list.ResourceVersion)
		for i := range list.Items {
			version, err := strconv.Atoi(list.Items[i].ResourceVersion)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, version, FirstVersion+few, "the list has the changes")
		}
	})
}

func TestWatchThatFailsSaysSoOnceTheClientHasComeBack(t *testing.T) {
	inFormats(t, func(t *testing.T, f Format) {
		host, _ := newServer(t, "pods")
		clientset := newClientset(t, host, f)
		w, err := clientset.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		told := make(chan struct{})
		go func() {
			defer close(told)
			tell(t, host, "fail")
		}()
		e := <-w.ResultChan()
		require.Equal(t, watch.Error, e.Type)
		assert.True(t, apierrors.IsInternalError(apierrors.FromObject(e.Object)), "%+v", e.Object)
		select {
		case <-told:
			t.Fatal("nobody has come back")
		default:
		}
		again, err := clientset.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer again.Stop()
		<-told
	})
}

func TestWatchThatBeginsWithTheState(t *testing.T) {
	inFormats(t, func(t *testing.T, f Format) {
		listing, streaming := newServer(t, "pods")
		yes := true
		opts := metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
		_, err := newClientset(t, listing, f).CoreV1().Pods("").Watch(t.Context(), opts)
		assert.True(t, apierrors.IsInvalid(err), "%v", err)

		w, err := newClientset(t, streaming, f).CoreV1().Pods("").Watch(t.Context(), opts)
		require.NoError(t, err)
		defer w.Stop()
		for range few {
			require.Equal(t, watch.Added, (<-w.ResultChan()).Type)
		}
		last := <-w.ResultChan()
		require.Equal(t, watch.Bookmark, last.Type)
		pod, ok := last.Object.(*corev1.Pod)
		require.True(t, ok)
		assert.Equal(t, strconv.Itoa(FirstVersion+few-1), pod.ResourceVersion)
		assert.Equal(t, "true", pod.Annotations[metav1.InitialEventsAnnotationKey])
	})
}

func TestCustomResources(t *testing.T) {
	host, _ := newServer(t, "custom")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	c, err := dynamic.NewForConfigAndClient(&rest.Config{Host: host}, client)
	require.NoError(t, err)
	list, err := c.Resource(Applications).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, few)
	assert.Equal(t, "Application", list.Items[3].GetKind())
	assert.Equal(t, NewApplication(3).Name, list.Items[3].GetName())
}

func TestWhatTheServerDoesNotHave(t *testing.T) {
	host, _ := newServer(t, "pods")
	root, _, _ := strings.Cut(host, "/a/")
	for _, path := range []string{"/", "/prepare/nothing", "/a/nothing/lists/api/v1/pods", "/a/pods/lists/api/v1/nodes"} {
		response, err := http.Get(root + path)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, http.StatusNotFound, response.StatusCode, path)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestObjectThatCannotBeCanned(t *testing.T) {
	for _, data := range []string{`{}`, `{"resourceVersion":"12345678","uid":"12345678"}`} {
		_, err := can([]byte(data), "12345678")
		assert.ErrorContains(t, err, "12345678", data)
	}
	_, err := can([]byte(`"123"`), "123")
	assert.Error(t, err, "its digits have no place for others")
}
