package controllerruntime_test

import (
	"log"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Of Secrets, the manager holds its own ones, and the metadata of all others. It requests a Secret
// that it does not hold at the first Get.
func ExampleOptions_NewCache() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache: controllerruntime.Options{ByReference: map[client.Object]controllerruntime.Reference{
			&corev1.Secret{}: {Owned: labels.SelectorFromSet(labels.Set{"app": "shop"})},
		}}.NewCache,
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
