package fleetbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubernetes-sigs/kro/pkg/watch"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var measureInProcess = measure.InProcess("fleet", measureContender)

// contender wants all kinds, and returns when it has their objects. stop ends it.
type contender func(ctx context.Context, config *rest.Config, kinds int) error

var contenders = map[string]contender{
	"fleet":              startFleet[*unstructured.Unstructured],
	"dynamic-factory":    startFactory,
	"controller-runtime": startRuntime,

	"streams": startStreams,

	"fleet-metadata": startFleet[*metav1.PartialObjectMetadata],
	"kro":            startKro,
}

func measureContender(a assignment) (f measure.Figures, err error) {
	start, ok := contenders[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := &rest.Config{Host: a.Host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	heap, stacks, goroutines := used()
	f = measure.Figures{}
	if err := f.Phase(a.Profiles, "start", 1, func() error { return start(ctx, config, a.Kinds) }); err != nil {
		return nil, err
	}
	measure.Settle()
	heapNow, stacksNow, goroutinesNow := used()
	kinds := float64(a.Kinds)
	f["start-cpu"] = f["start/cpu"] / 1000
	f["heap"], f["stacks"], f["goroutines"] = (heapNow-heap)/kinds, (stacksNow-stacks)/kinds, (goroutinesNow-goroutines)/kinds
	return f, a.Profiles.Heap("start")
}

// used returns the bytes of the live heap and of stacks, and the number of goroutines.
func used() (heap, stacks, goroutines float64) {
	heap = float64(measure.LiveHeap())
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return heap, float64(stats.StackInuse), float64(runtime.NumGoroutine())
}

func startFleet[T reflector.Object](ctx context.Context, config *rest.Config, kinds int) error {
	f, err := fleet.New(config)
	if err != nil {
		return err
	}
	go func() { _ = f.Run(ctx) }()
	owner := f.NewOwner(ctx, "bench")
	for n := range kinds {
		kind := schema.GroupVersionKind{Group: group, Version: "v1", Kind: kindName(n)}
		if _, err := fleet.Want[T](owner, kind, fleet.Selection{}); err != nil {
			return err
		}
	}
	return owner.WaitForSync(ctx)
}

func startFactory(ctx context.Context, config *rest.Config, kinds int) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for n := range kinds {
		factory.ForResource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural(n)}).Informer()
	}
	factory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return errors.New("cache is not synced")
		}
	}
	return nil
}

// startStreams opens the same watches and reads what they begin with, without informers: the least that
// anybody pays.
func startStreams(ctx context.Context, config *rest.Config, kinds int) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for n := range kinds {
		url := fmt.Sprintf("%s/apis/%s/v1/%s?watch=true&sendInitialEvents=true", config.Host, group, plural(n))
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return errors.Join(errors.New(response.Status), response.Body.Close())
		}
		events := bufio.NewReaderSize(response.Body, 512)
		for range 2 { // the object and the bookmark
			if _, err := events.ReadSlice('\n'); err != nil {
				return errors.Join(err, response.Body.Close())
			}
		}
		go func() {
			defer response.Body.Close()
			_, _ = events.Peek(1) // until ctx ends
		}()
	}
	return nil
}

// startRuntime asks for the informers as an operator does that learns its kinds while it runs.
func startRuntime(ctx context.Context, config *rest.Config, kinds int) error {
	c, err := cache.New(config, cache.Options{})
	if err != nil {
		return err
	}
	go func() { _ = c.Start(ctx) }()
	for n := range kinds {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kindName(n)})
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	if !c.WaitForCacheSync(ctx) {
		return errors.New("cache is not synced")
	}
	return nil
}

// startKro uses the manager that kro has for the kinds that its resource graphs name.
func startKro(_ context.Context, config *rest.Config, kinds int) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	m := watch.NewManager(client, 0, func(watch.Event) {}, logr.Discard())
	for n := range kinds {
		if err := m.EnsureWatch(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural(n)}, "bench"); err != nil {
			return err
		}
	}
	return nil
}
