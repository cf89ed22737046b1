package otel_test

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
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

// What a change leads to, down to what a reconcile function does, is one trace.
func ExampleAdd() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	spans := tracetest.NewSpanRecorder() // in place of an exporter
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	tracing := otel.New(provider)
	maps := informer.New(clientset.CoreV1().ConfigMaps(""), tracing.Options("maps")...)
	otel.Add(tracing, maps, 1) // every change; 100 would be one in a hundred
	painter := reconcile.New("painter", maps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		_, span := provider.Tracer("example.com/painter").Start(ctx, "paint "+key.Name)
		defer span.End()
		stop()
		return reconcile.Result{}, nil
	}, tracing.ReconcilerOptions()...)
	program := manager.New(nil)
	program.Add(maps)
	program.Add(painter)
	go func() {
		// A span of a commit leads to the handlers that subscribed before it.
		if err := program.WaitForSync(ctx); err != nil {
			panic(err)
		}
		if err := server.Create(named("door")); err != nil {
			panic(err)
		}
	}()
	if err := program.Run(ctx); err != nil {
		panic(err)
	}

	all := spans.Ended()
	sort.Slice(all, func(i, j int) bool { return all[i].StartTime().Before(all[j].StartTime()) })
	for _, span := range all {
		if strings.HasPrefix(span.Name(), "commit") {
			printTree(all, span, "")
		}
	}
	// Output:
	// commit maps
	//   queue maps/painter
	//   handle maps/painter
	//     queue painter
	//     reconcile painter
	//       paint door
}

func printTree(all []trace.ReadOnlySpan, span trace.ReadOnlySpan, indent string) {
	fmt.Println(indent + span.Name())
	for _, child := range all {
		if child.Parent().SpanID() == span.SpanContext().SpanID() {
			printTree(all, child, indent+"  ")
		}
	}
}
