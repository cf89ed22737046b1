package reflectortest_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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

func TestWaitForState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		cm := func() *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		}
		waiting := func(done func() bool) <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- s.WaitFor(t.Context(), done) }()
			synctest.Wait()
			require.Empty(t, ended)
			return ended
		}

		existing := waiting(func() bool { return s.Get(cm()) == nil })
		require.NoError(t, s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}))
		synctest.Wait()
		require.Empty(t, existing)
		version := s.ResourceVersion()
		require.NoError(t, s.Create(cm()))
		require.NoError(t, <-existing)

		gone := func() bool { return apierrors.IsNotFound(s.Get(cm())) }
		deleted := waiting(gone)
		require.NoError(t, s.Delete(cm()))
		require.NoError(t, <-deleted)

		require.NoError(t, s.Create(cm()))
		restored := waiting(gone)
		require.NoError(t, s.Restore(version))
		require.NoError(t, <-restored)
	})
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.WaitFor(ctx, func() bool { return true }))
	err := s.WaitFor(ctx, func() bool { return false })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "version 1")
}

// FuzzHandler sends any request: the server answers, and never panics but to
// end a connection.
func FuzzHandler(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/default/configmaps", "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "", "")
	f.Add("POST", "/api/v1/namespaces/default/pods", "", "application/json", `{"metadata":{"name":"a"}}`)
	f.Add("PUT", "/api/v1/namespaces/default/pods/a/status", "", "application/json", `{"metadata":{"name":"a"}}`)
	f.Add("PATCH", "/apis/library.example.com/v1/namespaces/default/books/a", "", "application/merge-patch+json", `{"pages":{"a":null}}`)
	f.Add("PATCH", "/api/v1/namespaces/default/pods/a", "", "application/json-patch+json", `[{"op":"remove","path":"/metadata"}]`)
	f.Add("PATCH", "/api/v1/namespaces/default/pods/a", "", "application/strategic-merge-patch+json", `{"metadata":{"$patch":"delete"}}`)
	f.Add("PATCH", "/api/v1/namespaces/default/pods/a", "fieldManager=a&force=1", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}`)
	f.Add("PATCH", "/apis/library.example.com/v1/namespaces/default/books/a/status", "fieldManager=a", "application/apply-patch+yaml", `{"apiVersion":"library.example.com/v1","kind":"Book","metadata":{"name":"a","managedFields":[{}]},"pages":[null]}`)
	f.Add("DELETE", "/api/v1/namespaces/default/pods/a", "propagationPolicy=Orphan", "application/json", `{"gracePeriodSeconds":-1}`)
	f.Add("POST", "/api/v1/namespaces", "", "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x00\x12\x00")
	f.Add("GET", "/api/v1/watch/pods", "timeoutSeconds=1&resourceVersion=9", "", "")
	f.Add("GET", "/apis//v1/", "watch", "", "")
	s, err := reflectortest.NewServer(reflectortest.WithResource(books), reflectortest.WithHistory(100))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	if err := s.Create(&book{}); err == nil {
		f.Fatal("a book without a name was created")
	}
	f.Fuzz(func(t *testing.T, method, target, query, contentType, body string) {
		if strings.Contains(query, "imeoutSeconds") || strings.Contains(query, "%") {
			return // a watch that lasts
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x/", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL = &url.URL{Path: target, RawQuery: query}
		r.Header.Set("Content-Type", contentType)
		if r.URL.Query().Has("watch") || strings.Contains(target, "/watch") {
			ctx, cancel := cancelled(t)
			defer cancel()
			r = r.WithContext(ctx)
		}
		w := httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
			s.ForgetRequests()
		}()
		s.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 {
			t.Fatalf("answered %d", w.Code)
		}
	})
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

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

// TestFirstApplyNamesEarlierWriters repeats the writes before the first apply, with their times.
func TestFirstApplyNamesEarlierWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("ns")
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Finalizers: []string{"example.com/f"}}, Data: map[string]string{"k": "1"}}
		require.NoError(t, s.Create(cm))
		require.Empty(t, cm.ManagedFields)
		created := time.Now()
		<-time.After(time.Minute)
		cm.Data["m"] = "1"
		cm, err := client.Update(t.Context(), cm, metav1.UpdateOptions{FieldManager: "editor"})
		require.NoError(t, err)
		require.Empty(t, cm.ManagedFields)
		edited := time.Now()
		<-time.After(time.Minute)
		require.NoError(t, client.Delete(t.Context(), "a", metav1.DeleteOptions{})) // the finalizer holds it

		_, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"k": "2", "m": "2"}), metav1.ApplyOptions{FieldManager: "mine"})
		require.True(t, apierrors.IsConflict(err), err)
		require.ErrorContains(t, err, `conflicts with "editor" using v1`)
		require.ErrorContains(t, err, `conflicts with "reflectortest" using v1`)

		cm, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"n": "1"}), metav1.ApplyOptions{FieldManager: "mine"})
		require.NoError(t, err)
		times := map[string]time.Time{}
		for _, entry := range cm.ManagedFields {
			times[entry.Manager] = entry.Time.UTC()
		}
		require.Equal(t, map[string]time.Time{
			"reflectortest": created.UTC().Truncate(time.Second), "editor": edited.UTC().Truncate(time.Second), "mine": time.Now().UTC().Truncate(time.Second),
		}, times)
	})
}

// TestDirectWritesOwnNoStatus leaves the status to those who write it by its subresource, although
// Create and Update of the server write it with the rest of the object.
func TestDirectWritesOwnNoStatus(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("ns")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Message: "1"}}
	require.NoError(t, s.Create(pod))
	pod.Status.Message = "2"
	require.NoError(t, s.Update(pod))
	pod, err := client.ApplyStatus(t.Context(), applycorev1.Pod("a", "ns").WithStatus(applycorev1.PodStatus().WithMessage("3")), metav1.ApplyOptions{FieldManager: "mine"})
	require.NoError(t, err, "nobody owned the status")
	require.Equal(t, "3", pod.Status.Message)
	pod.Status.Message = "4"
	require.NoError(t, s.Update(pod))
	owned := map[string]string{}
	for _, entry := range pod.ManagedFields {
		owned[entry.Manager] = entry.FieldsV1.GetRawString()
	}
	require.Equal(t, map[string]string{"reflectortest": `{"f:spec":{"f:nodeName":{}}}`, "mine": `{"f:status":{"f:message":{}}}`}, owned)
}

// TestFirstApplyAfterCompaction gives the fields of the oldest known version to its writer.
func TestFirstApplyAfterCompaction(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("ns")
	cm, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{FieldManager: "first"})
	require.NoError(t, err)
	for _, manager := range []string{"second", "third"} {
		cm.Data[manager] = "1"
		cm, err = client.Update(t.Context(), cm, metav1.UpdateOptions{FieldManager: manager})
		require.NoError(t, err)
	}
	require.NoError(t, s.Compact(s.ResourceVersion()))
	cm, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns"), metav1.ApplyOptions{FieldManager: "mine"})
	require.NoError(t, err)
	require.Len(t, cm.ManagedFields, 2)
	require.Equal(t, "second", cm.ManagedFields[0].Manager)
	require.JSONEq(t, `{"f:data":{".":{},"f:k":{},"f:second":{}}}`, cm.ManagedFields[0].FieldsV1.GetRawString())
	require.Equal(t, "third", cm.ManagedFields[1].Manager)
}

// TestGivenManagedFieldsStay keeps the managedFields of an object that a test took from a cluster.
func TestGivenManagedFieldsStay(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	given := metav1.ManagedFieldsEntry{
		Manager: "cluster", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:k":{}}}`), Time: new(metav1.Unix(1, 0)),
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{given}}, Data: map[string]string{"k": "1"}}
	require.NoError(t, s.Create(cm))
	cm.Data["m"] = "1"
	require.NoError(t, s.Update(cm))
	require.Len(t, cm.ManagedFields, 1)

	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("ns")
	_, err := client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"k": "2"}), metav1.ApplyOptions{FieldManager: "mine"})
	require.ErrorContains(t, err, `conflict with "cluster"`)
	cm, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"k": "2"}), metav1.ApplyOptions{FieldManager: "mine", Force: true})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "2", "m": "1"}, cm.Data)
}

func TestSchemaIsChecked(t *testing.T) {
	t.Parallel()
	_, err := reflectortest.NewServer(reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Site", Plural: "sites", Schema: []byte("{bad")}))
	require.ErrorContains(t, err, "schema of sites")
}
