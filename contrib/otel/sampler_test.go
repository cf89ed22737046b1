package otel_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
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
		sampler := &refusing{seen: map[string][]string{}}
		p := newTracedBy(t, trace.NewTracerProvider(trace.WithSampler(sampler)))
		defer otel.Add(p.tracing, p.maps, 1)()
		r := reconcile.New("painter", p.maps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, eventqueue.Permanent(errors.New("no"))
		}, p.tracing.ReconcilerOptions()...)
		stop := p.run(p.maps, r)
		require.NoError(t, p.server.Create(named("a")))
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
		spans := tracetest.NewSpanRecorder()
		p := newTracedBy(t, trace.NewTracerProvider(trace.WithSpanProcessor(spans)), otel.WithChosenOnly())
		defer otel.Add(p.tracing, p.maps, 3)()
		var mu sync.Mutex
		within := map[string]bool{}
		r := reconcile.New("painter", p.maps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			within[key.Name] = api.SpanContextFromContext(ctx).IsValid()
			return reconcile.Result{}, nil
		}, p.tracing.ReconcilerOptions()...)
		stop := p.run(p.maps, r)
		for _, name := range []string{"a", "b", "c", "d"} {
			require.NoError(t, p.server.Create(named(name)))
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
