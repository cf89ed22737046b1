package latebench

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// side runs an informer of ConfigMaps until ctx ends. It calls appeared with the name of each object
// that enters the cache, and returns after everything that it started has ended.
type side func(ctx context.Context, appeared func(name string))

// ours returns an informer with the recommended client, or with a generated one if the config has a
// Timeout: the recommended client does not apply it to watches.
func ours(t *testing.T, config *rest.Config) side {
	resource, err := client.For[*corev1.ConfigMap](config)
	require.NoError(t, err)
	generated := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("")
	return func(ctx context.Context, appeared func(string)) {
		i := informer.New(resource)
		if config.Timeout > 0 {
			i = informer.New(generated)
		}
		defer i.Cache().Follow(follower(appeared))()
		_ = i.Run(ctx)
	}
}

// follower tells of additions.
type follower func(name string)

func (follower) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (f follower) Commit(c *store.Commit[*corev1.ConfigMap]) {
	for _, change := range c.Changes {
		f(change.Key.Name)
	}
}

func clientGo(_ *testing.T, config *rest.Config) side {
	clientset := kubernetes.NewForConfigOrDie(config)
	return func(ctx context.Context, appeared func(string)) {
		f := informers.NewSharedInformerFactory(clientset, 0)
		i := f.Core().V1().ConfigMaps().Informer()
		_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			appeared(object.(*corev1.ConfigMap).Name)
		}})
		f.Start(ctx.Done())
		<-ctx.Done()
		f.Shutdown()
	}
}
