package controllerruntime

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/memsize"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// scrape returns the metrics of this package in controller-runtime's registry, by name and labels
// such as "objects typed Pod.v1.".
func scrape(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), "kubereflector_kind_")
		if !ok {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			require.Len(t, labels, 4)
			key := fmt.Sprintf("%s %s %s.%s.%s", name, labels["form"], labels["kind"], labels["version"], labels["group"])
			found[key] = metric.GetGauge().GetValue()
		}
	}
	return found
}

func TestMetricsOfKinds(t *testing.T) {
	server := siteServer(t)
	t.Run("running", func(t *testing.T) {
		c := started(t, server.Config(), cache.Options{Scheme: siteScheme()})
		require.NoError(t, c.List(t.Context(), &siteList{}))
		only := &metav1.PartialObjectMetadata{}
		only.SetGroupVersionKind(siteKind)
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "site-0"}, only))

		for _, form := range []string{"typed", "metadata"} {
			of := " " + form + " Site.v1.example.com"
			assert.Eventually(t, func() bool { return scrape(t)["cache_lag_seconds"+of] == 0 }, time.Minute, time.Millisecond, form)
			found := scrape(t)
			assert.Len(t, found, 8)
			assert.InDelta(t, siteCount, found["objects"+of], 0, form)
			assert.Greater(t, found["bytes"+of], 100.*siteCount, form)
			assert.Zero(t, found["handler_lag_seconds"+of], form)
		}
	})
	assert.Empty(t, scrape(t), "the caches have ended")
}

func TestMetricsOfAKindWithSeveralInformers(t *testing.T) {
	c := started(t, newServer(t).Config(), cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}})
	require.NoError(t, c.List(t.Context(), &corev1.PodList{}))
	assert.InDelta(t, 3, scrape(t)["objects typed Pod.v1."], 0)
}

func TestMetricsOfAKindByReference(t *testing.T) {
	c := startedWith(t, Options{ByReference: map[client.Object]Reference{
		&corev1.Pod{}: {Owned: labels.SelectorFromSet(labels.Set{"app": "none"}), MaxBytes: 1 << 20},
	}}, newServer(t).Config(), cache.Options{})
	const of = " reference Pod.v1."
	_, err := c.GetInformer(t.Context(), &corev1.Pod{})
	require.NoError(t, err)
	before := scrape(t)
	assert.InDelta(t, 3, before["objects"+of], 0)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{}))
	after := scrape(t)
	assert.InDelta(t, 3, after["objects"+of], 0)
	assert.Greater(t, after["bytes"+of], before["bytes"+of], "a requested object")
	assert.Eventually(t, func() bool { return scrape(t)["cache_lag_seconds"+of] == 0 }, time.Minute, time.Millisecond)
}

func TestMetricsOfAKindByReferenceWithoutOwnedObjects(t *testing.T) {
	c := startedWith(t, byReference(Reference{}), secretServer(t).Config(), cache.Options{})
	_, err := c.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return scrape(t)["cache_lag_seconds reference Secret.v1."] == 0 }, time.Minute, time.Millisecond)
}

func TestMetricsShowHandlersThatLag(t *testing.T) {
	c := started(t, newServer(t).Config(), cache.Options{})
	i, err := c.GetInformer(t.Context(), &corev1.Node{})
	require.NoError(t, err)
	handling, release := make(chan struct{}), make(chan struct{})
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		close(handling)
		<-release
	}})
	require.NoError(t, err)
	<-handling
	assert.Positive(t, scrape(t)["handler_lag_seconds typed Node.v1."])
	close(release)
}

func TestMetricsShowCachesWithoutAWatch(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{})
	require.NoError(t, c.List(t.Context(), &corev1.PodList{}))
	server.Close()
	assert.Eventually(t, func() bool { return scrape(t)["cache_lag_seconds typed Pod.v1."] > 0 }, time.Minute, time.Millisecond)
}

// Each of the two ways to run an informer works once, as in client-go.
func TestSecondRunChangesNothing(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	var failures []error
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) { failures = append(failures, err) }}
	for name, with := range map[string]Options{"typed": {}, "reference": byReference(Reference{Owned: mine, Selectors: &OwnedSelectors{}})} {
		t.Run(name, func(t *testing.T) {
			server := secretServer(t)
			c := startedWith(t, with, server.Config(), cache.Options{})
			i, err := c.GetInformer(t.Context(), &corev1.Secret{})
			require.NoError(t, err)
			failures = nil
			i.(toolscache.SharedIndexInformer).RunWithContext(t.Context())
			i.(toolscache.SharedIndexInformer).Run(t.Context().Done())
			require.Len(t, failures, 2)
			assert.ErrorIs(t, failures[0], reflector.ErrRunning)
			assert.InDelta(t, 4, scrape(t)["objects "+name+" Secret.v1."], 0)
			assert.Equal(t, "1", token(t, c, "a", "other"))
			for _, r := range with.ByReference {
				require.NoError(t, r.Selectors.Add(labels.SelectorFromSet(labels.Set{"app": "theirs"})))
				require.NoError(t, r.Selectors.WaitForSync(t.Context()))
				r.Selectors.mu.Lock()
				assert.Len(t, r.Selectors.running, 1)
				r.Selectors.mu.Unlock()
			}
		})
	}
}

func TestInformerThatAChannelStopsHasMetrics(t *testing.T) {
	i := newInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}, &site{}, 0, nil)
	i.series = seriesOf(&site{}, siteKind)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); i.Run(stop) }()
	assert.Eventually(t, func() bool { _, ok := scrape(t)["objects typed Site.v1.example.com"]; return ok }, time.Minute, time.Millisecond)
	close(stop)
	<-ended
	assert.Empty(t, scrape(t))
}

func TestSizesOfLargeCaches(t *testing.T) {
	c := store.New(store.ObjectKey[client.Object])
	var exact float64
	const count = 5*maxSample + 7
	for i := range count {
		object := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("secret-%05d", i), ResourceVersion: "1"},
			Data:       map[string][]byte{"data": make([]byte, 16*(i%100))},
		}
		exact += float64(memsize.Of[client.Object](object))
		require.NoError(t, c.Add(object))
	}
	s := &sampler{}
	assert.InEpsilon(t, exact, s.bytes(c.Snapshot()), 0.05, "the first sample")
	for range len(s.parts) - 1 {
		s.bytes(c.Snapshot())
	}
	assert.InDelta(t, exact, s.bytes(c.Snapshot()), 1, "all objects were measured")
	require.NoError(t, c.Replace(nil, "2"))
	assert.Zero(t, s.bytes(c.Snapshot()))
}
