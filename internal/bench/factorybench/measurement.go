package factorybench

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var measureInProcess = measure.InProcess("factory", measureContender)

var contenders = map[string]func(kubernetes.Interface) informers.SharedInformerFactory{
	"client-go": func(c kubernetes.Interface) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactory(c, 0)
	},
	"ours": func(c kubernetes.Interface) informers.SharedInformerFactory {
		return factory.NewSharedInformerFactory(c, 0)
	},
	// A clientset that is not client-go's own decodes by its generated methods.
	"ours-generated": func(c kubernetes.Interface) informers.SharedInformerFactory {
		return factory.NewSharedInformerFactory(struct{ kubernetes.Interface }{c}, 0)
	},
}

func measureContender(a assignment) (f measure.Figures, err error) {
	create, ok := contenders[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	config := &rest.Config{Host: a.Host, QPS: -1}
	config.ContentType = string(apiserver.InProtobuf)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all, counter := create(clientset), measure.NewCounter(1)
	handled := func() { counter.Handled(0) }
	for _, kind := range objects.ClusterKinds {
		i, err := all.ForResource(kind.Resource)
		if err != nil {
			return nil, err
		}
		if _, err := i.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled() }}); err != nil {
			return nil, err
		}
	}
	f = measure.Figures{}
	empty := measure.LiveHeap()
	var running *measure.Running
	err = f.Phase(a.Profiles, "start", a.Objects, func() error {
		counter.Expect(a.Objects)
		running = measure.Start(func(ctx context.Context) error {
			all.StartWithContext(ctx)
			<-ctx.Done()
			all.Shutdown()
			return nil
		})
		_, err := measure.Wait(running, counter.Reached)
		return err
	})
	if err == nil {
		f["start/peak-rss"] = measure.PeakRSS() / 1e6
		f["start/live-heap"] = (float64(measure.LiveHeap()) - float64(empty)) / float64(a.Objects) / 1e3
		err = a.Profiles.Heap("start")
	}
	runtime.KeepAlive(all)
	return f, errors.Join(err, running.Close())
}
