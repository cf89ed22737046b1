// Package shim makes the caches of controller-runtime's specs. The tests copy it into the package of the specs.
package shim

import (
	"os"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// newCache makes a cache with the constructor that the environment names.
func newCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	if os.Getenv("KUBEREFLECTOR_CONSTRUCTOR") == "NewCache" {
		return controllerruntime.NewCache(config, opts)
	}
	if opts.NewInformer == nil {
		opts.NewInformer = clientgo.NewSharedIndexInformer
	}
	return cache.New(config, opts)
}
