package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A cache of the Secrets of a small server: an owned one, and another one that is read twice.
func ExampleReference() {
	server, err := reflectortest.NewServer()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	for name, app := range map[string]string{"own": "shop", "tls": "ingress"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}}}
		if err := server.Create(secret); err != nil {
			log.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil) // a manager asks the server
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	secrets, err := controllerruntime.Options{ByReference: map[client.Object]controllerruntime.Reference{
		&corev1.Secret{}: {Owned: labels.SelectorFromSet(labels.Set{"app": "shop"}), MaxObjects: 100, MaxBytes: 1 << 20},
	}}.NewCache(server.Config(), cache.Options{Mapper: mapper})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- secrets.Start(ctx) }()
	secrets.WaitForCacheSync(ctx)

	for _, name := range []string{"own", "tls", "tls"} {
		var secret corev1.Secret
		if err := secrets.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &secret); err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, "after", len(server.Requests(reflectortest.Verb("get"))), "request(s)")
	}
	var list corev1.SecretList
	fmt.Println(errors.Is(secrets.List(ctx, &list), controllerruntime.ErrNotOwned))
	fmt.Println(secrets.List(ctx, &list, client.MatchingLabels{"app": "shop"}), len(list.Items))
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// own after 0 request(s)
	// tls after 1 request(s)
	// tls after 1 request(s)
	// true
	// <nil> 1
}

// controller-runtime keeps its requests and its decoding.
func Example_newInformer() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache: cache.Options{NewInformer: clientgo.NewSharedIndexInformer},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
