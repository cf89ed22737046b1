package otel_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// What a handler does is part of the span of its call.
func Example() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "door"}}); err != nil {
		panic(err)
	}
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	spans := tracetest.NewSpanRecorder() // in place of an exporter
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	tracer := provider.Tracer("example.com/painter")
	tracing := otel.New(provider)
	maps := informer.New(clientset.CoreV1().ConfigMaps(""), tracing.Options("maps")...)
	maps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(ctx context.Context, event eventqueue.Event[*corev1.ConfigMap]) error {
		_, span := tracer.Start(ctx, "paint "+event.Key.Name)
		defer span.End()
		stop()
		return nil
	}), informer.WithName("painter"))
	if err := maps.Run(ctx); err != nil {
		panic(err)
	}

	for _, span := range spans.Ended() {
		for _, child := range spans.Ended() {
			if child.Parent().SpanID() == span.SpanContext().SpanID() {
				fmt.Println(span.Name(), "has", child.Name())
			}
		}
	}
	// Output:
	// handle maps/painter has paint door
}
