package controllerruntime_test

import (
	"log"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// The manager, its client and its controllers stay as they are.
func ExampleNewCache() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache: controllerruntime.NewCache,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

// controller-runtime keeps its requests and its decoding.
func ExampleNewInformer() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache: cache.Options{NewInformer: controllerruntime.NewInformer},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
