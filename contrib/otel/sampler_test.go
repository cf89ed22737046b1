package otel_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/kubernetes"
)

// refusing is a sampler that takes nothing, and keeps what it was told.
type refusing struct {
	mu   sync.Mutex
	seen map[string][]string // names of attributes, by those of spans
}

func (r *refusing) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[p.Name] = nil
	for _, a := range p.Attributes {
		r.seen[p.Name] = append(r.seen[p.Name], string(a.Key))
	}
	return trace.SamplingResult{Decision: trace.Drop}
}

func (r *refusing) Description() string { return "refusing" }

func TestNothingIsSaidOfAnObjectUnlessTheSpanIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		sampler := &refusing{seen: map[string][]string{}}
		tracing := otel.New(trace.NewTracerProvider(trace.WithSampler(sampler)))
		p := &traced{t: t, server: server, maps: informer.New(clientset.CoreV1().ConfigMaps(""), tracing.Options("maps")...)}
		defer otel.Add(tracing, p.maps, 1)()
		r := controller.NewReconciler("painter", p.maps, func(context.Context, store.Key) (controller.Result, error) {
			return controller.Result{}, eventqueue.Permanent(errors.New("no"))
		}, tracing.ReconcilerOptions()...)
		stop := p.run(p.maps, r)
		require.NoError(t, server.Create(named("a")))
		synctest.Wait()
		stop()
		sampler.mu.Lock()
		defer sampler.mu.Unlock()
		assert.Equal(t, []string{"kubereflector.informer"}, sampler.seen["commit maps"])
		assert.Equal(t, []string{"kubereflector.informer", "kubereflector.subscriber"}, sampler.seen["handle maps/painter"])
		assert.Equal(t, []string{"kubereflector.reconciler"}, sampler.seen["reconcile painter"])
	})
}

// A retry belongs to the trace of its change; what nobody chose has no span, and its context none either.
func TestOnlyWhatBelongsToAChosenChangeHasSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		spans := tracetest.NewSpanRecorder()
		tracing := otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans)), otel.WithChosenOnly())
		p := &traced{t: t, server: server, maps: informer.New(clientset.CoreV1().ConfigMaps(""), tracing.Options("maps")...)}
		defer otel.Add(tracing, p.maps, 3)()
		var mu sync.Mutex
		within := map[string]bool{}
		r := controller.NewReconciler("painter", p.maps, func(ctx context.Context, key store.Key) (controller.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			within[key.Name] = api.SpanContextFromContext(ctx).IsValid()
			return controller.Result{}, nil
		}, tracing.ReconcilerOptions()...)
		stop := p.run(p.maps, r)
		for _, name := range []string{"a", "b", "c", "d"} {
			require.NoError(t, server.Create(named(name)))
			synctest.Wait()
		}
		stop()
		count := map[string]int{}
		for _, span := range spans.Ended() {
			count[span.Name()]++
		}
		assert.Equal(t, map[string]int{
			"list maps": 1, "watch maps": 1,
			"commit maps": 1, "queue maps/painter": 1, "handle maps/painter": 1, "queue painter": 1, "reconcile painter": 1,
		}, count)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, map[string]bool{"a": false, "b": false, "c": true, "d": false}, within)
	})
}
