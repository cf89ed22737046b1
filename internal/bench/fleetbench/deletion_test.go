package fleetbench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubernetes-sigs/kro/pkg/watch"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var output = flag.String("results", "", "write the figures to this `file`, as JSON")

// logged counts the lines that the libraries log with their default verbosity.
var logged atomic.Int64

func count(string, string) { logged.Add(1) }

var logger = funcr.New(count, funcr.Options{})

func TestMain(m *testing.M) {
	measure.Main()
	klog.SetLogger(logger)
	log.SetLogger(logger)
	// The default handlers also remember the time of the last failure, which may be in an earlier bubble.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(context.Context, error, string, ...any) { count("", "") },
	}
	goleak.VerifyTestMain(m)
}

var (
	widgets = schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	widget  = widgets.GroupVersion().WithKind("Widget")
)

// TestHourAfterDeletion counts what a kind costs in the hour after its CustomResourceDefinition was
// deleted, while somebody still wants it. It runs in fake time.
func TestHourAfterDeletion(t *testing.T) {
	report := measure.NewReport(fmt.Sprintf("go test -C internal/bench ./fleetbench -run HourAfterDeletion -v -results %s", *output))
	requests, lines := hour(t, wantByFleet)
	for _, peer := range []struct {
		name string
		want want
	}{{"client-go", wantByFactory}, {"controller-runtime", wantByRuntime}, {"kro", wantByKro}} {
		theirRequests, theirLines := hour(t, peer.want)
		for _, m := range []measure.Measured{
			{Name: peer.name + "/requests", Unit: "requests for the kind", Ours: requests, Peer: theirRequests},
			{Name: peer.name + "/log", Unit: "lines", Ours: lines, Peer: theirLines},
		} {
			goal := measure.AtMost(1)
			m.Goal, m.Met = goal.String(), goal.Met(m.Ours, m.Peer)
			report.Cases = append(report.Cases, m)
			t.Logf("%-28s ours %3.0f, peer %4.0f %s", m.Name, m.Ours, m.Peer, m.Unit)
		}
	}
	require.Zero(t, requests)
	if *output != "" {
		require.NoError(t, report.WriteFile(*output))
	}
}

// want keeps an informer of widgets until ctx ends, and returns after everything that it started has ended.
type want func(ctx context.Context, config *rest.Config) error

// hour returns what the informer cost in the hour after the deletion.
func hour(t *testing.T, informer want) (requests, lines float64) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		definition := definitionOfWidget()
		require.NoError(t, server.Create(definition))
		only := &unstructured.Unstructured{}
		only.SetGroupVersionKind(widget)
		only.SetNamespace("a")
		only.SetName("only")
		require.NoError(t, server.Create(only))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- informer(ctx, server.Config()) }()
		<-time.After(time.Minute)
		require.NotEmpty(t, server.Requests(reflectortest.ForResource(widgets.Resource)))

		server.ForgetRequests()
		logged.Store(0)
		require.NoError(t, server.Delete(definition))
		<-time.After(time.Hour)
		requests, lines = float64(len(server.Requests(reflectortest.ForResource(widgets.Resource)))), float64(logged.Load())
		stop()
		require.NoError(t, <-ended)
	})
	return requests, lines
}

func definitionOfWidget() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": widgets.Resource + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": widget.Kind, "listKind": widget.Kind + "List", "plural": widgets.Resource, "singular": "widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

func wantByFleet(ctx context.Context, config *rest.Config) error {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel)
	f, err := fleet.New(config, fleet.WithLogger(zap.New(core, zap.Hooks(func(zapcore.Entry) error {
		count("", "")
		return nil
	}))))
	if err != nil {
		return err
	}
	if _, err := fleet.Want[*unstructured.Unstructured](f.NewOwner(ctx, "bench"), widget, fleet.Selection{}); err != nil {
		return err
	}
	return f.Run(ctx)
}

func wantByFactory(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	factory.ForResource(widgets).Informer()
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

func wantByRuntime(ctx context.Context, config *rest.Config) error {
	c, err := cache.New(config, cache.Options{})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(widget)
	if _, err := c.GetInformer(ctx, object); err != nil {
		return err
	}
	return <-ended
}

func wantByKro(ctx context.Context, config *rest.Config) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	m := watch.NewManager(client, 0, func(watch.Event) {}, logger)
	if err := m.EnsureWatch(widgets, "bench"); err != nil {
		return err
	}
	<-ctx.Done()
	m.Shutdown()
	return nil
}
