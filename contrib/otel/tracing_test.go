package otel_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSpansOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		spans := tracetest.NewSpanRecorder()
		tracing := otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
		maps := informer.New(clientset.CoreV1().ConfigMaps(""), tracing.Options("maps")...)
		attempts := 0
		maps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(ctx context.Context, _ eventqueue.Event[*corev1.ConfigMap]) error {
			assert.True(t, api.SpanFromContext(ctx).IsRecording(), "the handler's own spans belong to it")
			<-time.After(time.Second)
			if attempts++; attempts == 1 {
				return errors.New("not now\xff")
			}
			return nil
		}), informer.WithName("worker"))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, maps.Run(ctx)) })
		<-time.After(time.Minute)
		stop()
		running.Wait()

		byName := map[string][]trace.ReadOnlySpan{}
		for _, s := range spans.Ended() {
			byName[s.Name()] = append(byName[s.Name()], s)
		}
		require.Len(t, byName["list maps"], 1)
		assert.Contains(t, byName["list maps"][0].Attributes(), attribute.Int("kubereflector.objects", 1))
		require.Len(t, byName["watch maps"], 1)
		watch := byName["watch maps"][0]
		assert.Equal(t, time.Minute, watch.EndTime().Sub(watch.StartTime()))
		assert.Equal(t, codes.Unset, watch.Status().Code)
		handled := byName["handle maps/worker"]
		require.Len(t, handled, 2)
		assert.Equal(t, codes.Error, handled[0].Status().Code)
		assert.Equal(t, "not now\uFFFD", handled[0].Status().Description, "text that can be sent")
		assert.Contains(t, handled[0].Events()[0].Attributes, attribute.String("exception.message", "not now\uFFFD"))
		assert.Equal(t, codes.Unset, handled[1].Status().Code)
		assert.Equal(t, time.Second, handled[1].EndTime().Sub(handled[1].StartTime()))
		assert.Contains(t, handled[1].Attributes(), attribute.String("kubereflector.object.name", "a"))
		assert.Contains(t, handled[1].Attributes(), attribute.String("k8s.namespace.name", "default"))
		assert.Contains(t, handled[1].Attributes(), attribute.String("kubereflector.event.type", "Addition"))
		assert.Len(t, spans.Ended(), 4)
		assert.Len(t, spans.Started(), 4, "all have ended")
	})
}

func TestAWatchThatFailsIsASpanThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(403))
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		spans := tracetest.NewSpanRecorder()
		maps := informer.New(clientset.CoreV1().ConfigMaps(""), otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans))).Options("maps")...)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.NoError(t, maps.Run(ctx))
		require.NotEmpty(t, spans.Ended())
		for _, s := range spans.Ended() {
			assert.Equal(t, "list maps", s.Name())
			assert.Equal(t, codes.Error, s.Status().Code)
			assert.Contains(t, s.Status().Description, "forbidden")
		}
	})
}

// traced is a program whose spans are kept.
type traced struct {
	t       *testing.T
	server  *reflectortest.Server
	spans   *tracetest.SpanRecorder
	tracer  api.Tracer
	tracing *otel.Tracing
	maps    *informer.Informer[*corev1.ConfigMap]
}

func newTraced(t *testing.T) *traced {
	spans := tracetest.NewSpanRecorder()
	p := newTracedBy(t, trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	p.spans = spans
	return p
}

// newTracedBy returns a program whose spans a provider keeps, or does not.
func newTracedBy(t *testing.T, provider *trace.TracerProvider, opts ...otel.Option) *traced {
	p := &traced{t: t, server: reflectortest.Start(t), tracer: provider.Tracer("test"), tracing: otel.New(provider, opts...)}
	clientset, err := kubernetes.NewForConfig(p.server.Config())
	require.NoError(t, err)
	p.maps = informer.New(clientset.CoreV1().ConfigMaps(""), p.tracing.Options("maps")...)
	return p
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// run runs members until the returned function is called.
func (p *traced) run(members ...informer.Runnable) (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	all := manager.New(nil)
	for _, m := range members {
		all.Add(m)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = all.Run(ctx) })
	<-time.After(time.Minute)
	return func() { cancel(); running.Wait() }
}

// paths returns the spans that are not of lists and watches, with those that they belong
// to, as they ended.
func (p *traced) paths() []string {
	byID := map[api.SpanID]trace.ReadOnlySpan{}
	for _, s := range p.spans.Ended() {
		byID[s.SpanContext().SpanID()] = s
	}
	var path func(trace.ReadOnlySpan) string
	path = func(s trace.ReadOnlySpan) string {
		if above, ok := byID[s.Parent().SpanID()]; ok {
			return path(above) + " > " + s.Name()
		}
		return s.Name()
	}
	var all []string
	for _, s := range p.spans.Ended() {
		if s.Name() != "list maps" && s.Name() != "watch maps" {
			all = append(all, path(s))
		}
	}
	return all
}

func (p *traced) find(name string) trace.ReadOnlySpan {
	i := slices.IndexFunc(p.spans.Ended(), func(s trace.ReadOnlySpan) bool { return s.Name() == name })
	require.GreaterOrEqual(p.t, i, 0, name)
	return p.spans.Ended()[i]
}

func TestTraceLeadsFromTheCommitToTheReconcileFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t)
		defer otel.Add(p.tracing, p.maps, 1)()
		painted := 0
		r := reconcile.New("painter", p.maps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			_, span := p.tracer.Start(ctx, "paint")
			defer span.End()
			if painted++; painted == 1 {
				return reconcile.Result{}, errors.New("not now")
			}
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}, p.tracing.ReconcilerOptions()...)
		stop := p.run(p.maps, r)
		require.NoError(t, p.server.Create(named("a")))
		<-time.After(time.Minute)
		stop()
		assert.ElementsMatch(t, []string{ // the reconciler's worker may be quicker than the end of the handler's call
			"commit maps",
			"commit maps > queue maps/painter",
			"commit maps > handle maps/painter",
			"commit maps > handle maps/painter > queue painter",
			"commit maps > handle maps/painter > reconcile painter > paint",
			"commit maps > handle maps/painter > reconcile painter",
			"reconcile painter > paint", // again, because it failed
			"reconcile painter",
		}, p.paths())
		commit := p.find("commit maps")
		assert.Subset(t, commit.Attributes(), []attribute.KeyValue{
			attribute.String("kubereflector.object.name", "a"), attribute.String("kubereflector.event.origin", "Watch"),
			attribute.String("kubereflector.event.type", "Addition"), attribute.String("k8s.namespace.name", "default"),
		})
		assert.Contains(t, p.find("reconcile painter").Attributes(), attribute.Int("kubereflector.attempt", 1))
		assert.Equal(t, "not now", p.find("reconcile painter").Status().Description)
	})
}

func TestTimeInTheQueueIsASpanOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t)
		otel.Add(p.tracing, p.maps, 1)
		attempts := 0
		p.maps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
			<-time.After(10 * time.Second)
			if attempts++; attempts == 1 {
				return errors.New("not now")
			}
			return nil
		}), informer.WithName("slow"), informer.WithQueue(eventqueue.WithBackoff(time.Millisecond, time.Millisecond)))
		stop := p.run(p.maps)
		require.NoError(t, p.server.Create(named("a")))
		synctest.Wait()
		<-time.After(5 * time.Second)
		require.NoError(t, p.server.Create(named("b")))
		<-time.After(time.Minute)
		stop()
		assert.Equal(t, []string{
			"commit maps", "commit maps > queue maps/slow", "commit maps", "commit maps > handle maps/slow",
			"commit maps > queue maps/slow", "commit maps > handle maps/slow",
			"commit maps > handle maps/slow",
		}, p.paths(), "what is tried again does not wait anew")
		var waited []time.Duration
		for _, s := range p.spans.Ended() {
			if s.Name() == "queue maps/slow" {
				waited = append(waited, s.EndTime().Sub(s.StartTime()).Round(time.Second))
			}
		}
		assert.Equal(t, []time.Duration{0, 5 * time.Second}, waited)
	})
}

// A program may subscribe a handler on demand, or once it has won an election.
func TestAHandlerThatComesLaterDoesNotBelongToEarlierTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t)
		defer otel.Add(p.tracing, p.maps, 1)()
		worker := func(name string) {
			attempts := 0
			p.maps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(context.Context, eventqueue.Event[*corev1.ConfigMap]) error {
				if attempts++; attempts == 1 {
					return errors.New("not now")
				}
				return nil
			}), informer.WithName(name))
		}
		worker("early")
		require.NoError(t, p.server.Create(named("listed")))
		stop := p.run(p.maps)
		require.NoError(t, p.server.Create(named("watched")))
		<-time.After(time.Hour)
		before := len(p.paths())
		worker("late")
		<-time.After(time.Minute)
		assert.Equal(t, []string{"handle maps/late", "handle maps/late", "handle maps/late"}, p.paths()[before:])
		require.NoError(t, p.server.Create(named("new")))
		<-time.After(time.Minute)
		stop()
		for _, name := range []string{"early", "late"} {
			assert.Contains(t, p.paths()[before+3:], "commit maps > queue maps/"+name)
			assert.Contains(t, p.paths()[before+3:], "commit maps > handle maps/"+name)
		}
	})
}

func TestEventsBelongToTheTraceOfTheirOwnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t)
		stopTracing := otel.Add(p.tracing, p.maps, 2)
		p.maps.Handle(informer.HandlerFuncs[*corev1.ConfigMap]{}, informer.WithName("worker"), informer.WithResync(time.Hour))
		stop := p.run(p.maps)
		object := named("a")
		require.NoError(t, p.server.Create(object)) // the first of two
		synctest.Wait()
		for range 3 {
			require.NoError(t, p.server.Get(object))
			object.Data = map[string]string{"at": time.Now().String()}
			require.NoError(t, p.server.Update(object)) // the second begins a trace, as the fourth
			synctest.Wait()
			<-time.After(time.Second)
		}
		assert.Equal(t, []string{
			"handle maps/worker", "commit maps", "commit maps > queue maps/worker", "commit maps > handle maps/worker",
			"handle maps/worker", "commit maps", "commit maps > queue maps/worker", "commit maps > handle maps/worker",
		}, p.paths())
		assert.Contains(t, p.find("commit maps").Attributes(), attribute.String("kubereflector.event.type", "Modification"))
		<-time.After(time.Hour)
		assert.Len(t, p.paths(), 9)
		assert.Equal(t, "handle maps/worker", p.paths()[8], "a resync is no change")
		require.NoError(t, p.server.Delete(object))
		require.NoError(t, p.server.Create(named("b")))
		synctest.Wait()
		assert.Contains(t, p.find("commit maps").Attributes(), attribute.String("kubereflector.event.origin", "Watch"))
		stopTracing()
		stopTracing()
		assert.Zero(t, p.tracing.Remembered("maps"))
		before := len(p.paths())
		require.NoError(t, p.server.Create(named("c")))
		require.NoError(t, p.server.Create(named("d")))
		synctest.Wait()
		assert.Equal(t, []string{"handle maps/worker", "handle maps/worker"}, p.paths()[before:])
		stop()
	})
}

func TestContextOfRunIsLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t)
		otel.Add(p.tracing, p.maps, 1)
		require.NoError(t, p.server.Create(named("a")))
		ctx, whole := p.tracer.Start(t.Context(), "whole")
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		p.maps.Handle(informer.HandlerFuncs[*corev1.ConfigMap]{}, informer.WithName("worker"))
		require.NoError(t, p.maps.Run(ctx))
		whole.End()
		links := p.find("handle maps/worker").Links()
		require.Len(t, links, 1)
		assert.Equal(t, whole.SpanContext().SpanID(), links[0].SpanContext.SpanID())
	})
}

func TestCallThatSeveralEventsMadeIsLinkedToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t)
		first := true
		r := reconcile.New("painter", p.maps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			if first {
				first = false
				<-time.After(time.Hour)
			}
			return reconcile.Result{}, nil
		}, p.tracing.ReconcilerOptions()...)
		require.NoError(t, p.server.Create(named("a")))
		stop := p.run(p.maps, r)
		for range 20 {
			object := named("a")
			require.NoError(t, p.server.Get(object))
			object.Data = map[string]string{"at": time.Now().String()}
			require.NoError(t, p.server.Update(object))
			<-time.After(time.Second)
		}
		<-time.After(time.Hour)
		stop()
		var links []int
		for _, s := range p.spans.Ended() {
			if s.Name() == "reconcile painter" {
				links = append(links, len(s.Links()))
			}
		}
		assert.Equal(t, []int{0, 8}, links, "and not to more than that")
	})
}

func TestUnsampledChangesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		spans := tracetest.NewSpanRecorder()
		tracing := otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans), trace.WithSampler(trace.NeverSample())))
		maps := informer.New(clientset.CoreV1().ConfigMaps(""), tracing.Options("maps")...)
		otel.Add(tracing, maps, 1)
		handled := 0
		maps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(ctx context.Context, _ eventqueue.Event[*corev1.ConfigMap]) error {
			handled++
			assert.False(t, api.SpanContextFromContext(ctx).IsSampled())
			return nil
		}))
		require.NoError(t, server.Create(named("a")))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.NoError(t, maps.Run(ctx))
		assert.Equal(t, 1, handled)
		assert.Empty(t, spans.Ended())
	})
}

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
