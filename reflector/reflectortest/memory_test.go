package reflectortest_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// manyPods makes n pods of about 2 kB.
func manyPods(n int) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for i := range n {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("ns-%d", i%100), Name: fmt.Sprintf("pod-%d", i),
				Labels:      map[string]string{"app": fmt.Sprint(i % 1000), "tier": "backend"},
				Annotations: map[string]string{"note": strings.Repeat("x", 1000)},
			}}
			pod.Spec.NodeName = fmt.Sprintf("node-%d", i%5000)
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/image:1", Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("y", 500)}}}}
			if !yield(pod) {
				return
			}
		}
	}
}

// TestManyObjectsAndWatchesStayInTheirMemory holds the server, its clients and the bytes between
// them within 20 KiB for each object.
func TestManyObjectsAndWatchesStayInTheirMemory(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes a second, and ten with the race detector")
	}
	const objects, watches, changes, budget = 20_000, 200, 20, 20_000 * 20 << 10
	s := reflectortest.Start(t)
	require.NoError(t, s.Seed(manyPods(objects)))
	seeded := memoryInUse()
	client, err := rest.HTTPClientFor(s.Config())
	require.NoError(t, err)
	// Every form of the list, so that every encoding is held.
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
		require.NoError(t, discard(t, client, s.URL()+"/api/v1/pods", accept))
	}
	var wg sync.WaitGroup
	var failed sync.Map
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	version := s.ResourceVersion()
	for i := range watches {
		wg.Go(func() {
			if err := readEvents(ctx, client, fmt.Sprintf("%s/api/v1/pods?watch=1&resourceVersion=%d", s.URL(), version), changes); err != nil {
				failed.Store(i, err)
			}
		})
	}
	_, err = s.WaitForRequests(t.Context(), watches, reflectortest.Verb("watch"), reflectortest.Answered(http.StatusOK))
	require.NoError(t, err)
	for i := range changes {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: fmt.Sprintf("pod-%d", i*100)}}
		require.NoError(t, s.Get(pod))
		pod.Labels["changed"] = "yes"
		require.NoError(t, s.Update(pod))
	}
	used := memoryInUse()
	wg.Wait()
	failed.Range(func(i, err any) bool { t.Errorf("watch %v: %v", i, err); return true })
	used = max(used, memoryInUse())
	t.Logf("seeded: %d MiB; with lists in three forms and %d watches: %d MiB", seeded>>20, watches, used>>20)
	require.Less(t, used, uint64(budget))
}

// memoryInUse is what the process has from the operating system.
func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

func discard(t *testing.T, client *http.Client, url, accept string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = bufio.NewReader(resp.Body).WriteTo(discardWriter{})
	return err
}

type discardWriter struct{}

func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// readEvents reads n events of a watch and hangs up.
func readEvents(ctx context.Context, client *http.Client, url string, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for range n {
		if !lines.Scan() {
			return fmt.Errorf("the watch ended: %w", lines.Err())
		}
		if !strings.HasPrefix(lines.Text(), `{"type":"MODIFIED"`) {
			return fmt.Errorf("an unexpected event: %.100s", lines.Text())
		}
	}
	return nil
}
