package otel_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
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
