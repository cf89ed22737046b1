package reflector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// benchPod has as many bytes as a pod usually has.
func benchPod(i, version int) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("service-%d", i), GenerateName: "service-", Namespace: fmt.Sprint("team-", i%50), UID: types.UID(fmt.Sprintf("%036d", i)), ResourceVersion: fmt.Sprint(version),
			Labels: map[string]string{"app.kubernetes.io/name": "service", "pod-template-hash": fmt.Sprint(i % 100)},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{` + strings.Repeat(`"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},`, 20) + `"f:phase":{}}}`),
			}},
		},
	}
	for c := range 12 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("main-%d", c), Image: "registry.example.com/shop/service:v1.2.3", ImagePullPolicy: "IfNotPresent",
			Env: []corev1.EnvVar{{Name: "LOG_FORMAT", Value: "json"}, {Name: "DATABASE_URL", Value: fmt.Sprintf("postgres://db-%d.example.com:5432/service", i%20)}},
		})
	}
	return pod
}

// replayed answers lists with one body, and hands out the bodies of watches.
type replayed struct {
	list  []byte
	watch func(context.Context) io.ReadCloser
}

func (p *replayed) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.NopCloser(bytes.NewReader(p.list))
	if r.URL.Query().Get("watch") != "" {
		body = p.watch(r.Context())
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}

func (p *replayed) client(b *testing.B) *client.Resource[*corev1.Pod] {
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	api, err := client.ForResource[*corev1.Pod](&rest.Config{Host: "http://localhost", Transport: p, QPS: -1}, resource, "", client.WithoutProtobuf())
	require.NoError(b, err)
	return api
}

const benchPods = 5000

func benchList(b *testing.B) []byte {
	var list bytes.Buffer
	list.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`)
	for i := range benchPods {
		if i > 0 {
			list.WriteByte(',')
		}
		text, err := json.Marshal(benchPod(i, 5))
		require.NoError(b, err)
		list.Write(text)
	}
	list.WriteString("]}\n")
	return list.Bytes()
}

// BenchmarkList lists pods: an operation is one of them.
func BenchmarkList(b *testing.B) {
	server := &replayed{list: benchList(b)}
	api := server.client(b)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += benchPods {
		_, err := api.List(b.Context(), metav1.ListOptions{})
		require.NoError(b, err)
	}
}

// silent is the end of a body that does not end.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// BenchmarkWatch reflects events: an operation is one of them.
func BenchmarkWatch(b *testing.B) {
	var events bytes.Buffer
	for i := range b.N {
		text, err := json.Marshal(benchPod(i%benchPods, i+6))
		require.NoError(b, err)
		events.WriteString(jsonEvent(watch.Modified, string(text)))
	}
	server := &replayed{list: benchList(b), watch: func(ctx context.Context) io.ReadCloser {
		return io.NopCloser(io.MultiReader(&events, silent{ctx}))
	}}
	s := store.New(store.ObjectKey[*corev1.Pod])
	b.ReportAllocs()
	runBench(b, server.client(b), s, func(ctx context.Context) {
		require.NoError(b, await.Version(ctx, s, fmt.Sprint(b.N+5)))
	})
}

// BenchmarkEvent reflects events that come alone: an operation is one of them, from when it is
// sent until it is stored.
func BenchmarkEvent(b *testing.B) {
	r, w := io.Pipe()
	server := &replayed{list: benchList(b), watch: func(context.Context) io.ReadCloser { return r }}
	s := store.New(store.ObjectKey[*corev1.Pod])
	texts := make([][]byte, 1000)
	for i := range texts {
		texts[i], _ = json.Marshal(benchPod(i, 1234567))
	}
	b.ReportAllocs()
	runBench(b, server.client(b), s, func(ctx context.Context) {
		for i := range b.N {
			version := fmt.Sprint(1234568 + i)
			text := bytes.Replace(texts[i%len(texts)], []byte("1234567"), []byte(version), 1)
			_, err := io.WriteString(w, jsonEvent(watch.Modified, string(text)))
			require.NoError(b, err)
			require.NoError(b, await.Version(ctx, s, version))
		}
		require.NoError(b, w.Close())
	})
}

// runBench runs a reflector while do runs, and counts what do takes.
func runBench(b *testing.B, api *client.Resource[*corev1.Pod], s *store.Cache[*corev1.Pod], do func(context.Context)) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := reflector.New(api, s, reflector.WithoutWatchList())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	<-r.Synced()
	b.ResetTimer()
	do(ctx)
	b.StopTimer()
	cancel()
	require.NoError(b, <-result)
}
