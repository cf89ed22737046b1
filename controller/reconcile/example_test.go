package reconcile_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// This reconciler gives each ConfigMap a Secret with the same name. It reads only the current
// state. If a Secret is deleted, it creates the Secret again.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	configMaps := informer.New(clientset.CoreV1().ConfigMaps(""))
	secrets := informer.New(clientset.CoreV1().Secrets(""))
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	created := make(chan *corev1.Secret)
	reconciler := reconcile.New("secrets", configMaps, func(ctx context.Context, key store.Key, configMap *corev1.ConfigMap) (reconcile.Result, error) {
		if configMap == nil {
			return reconcile.Result{}, nil // the garbage collector does the rest
		}
		if _, ok := secrets.Cache().Get(key); ok {
			return reconcile.Result{}, nil // nothing to do
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: key.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(configMap, kind)},
		}}
		secret, err := clientset.CoreV1().Secrets(key.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		if err != nil {
			return reconcile.Result{}, err // the key is retried
		}
		reconcile.RecordWrite(ctx, secret) // the next call sees it
		created <- secret
		return reconcile.Result{}, nil
	}, reconcile.Owns(secrets, kind.GroupKind()))

	all := manager.New(nil)
	all.Add(configMaps)
	all.Add(secrets)
	all.AddLeaderElected(reconciler) // runs in each process if there is no election
	result := make(chan error, 1)
	go func() { result <- all.Run(ctx) }()
	secret := <-created
	fmt.Println("created", secret.Namespace, secret.Name)
	if err := server.Delete(secret); err != nil {
		panic(err)
	}
	fmt.Println("created again", (<-created).Name)
	stop()
	fmt.Println(<-result)
	// Output:
	// created shop till
	// created again till
	// <nil>
}

// Mappings say whose business an object is.
func ExampleOwnerKeys() {
	foo := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	kind := corev1.SchemeGroupVersion.WithKind("Foo")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-7", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, kind)},
		Labels: map[string]string{"site": "shop"},
	}}
	fmt.Println(reconcile.OwnerKeys[*appsv1.Deployment](kind.GroupKind())(deployment))
	fmt.Println(reconcile.ByLabel[*appsv1.Deployment]("site")(deployment))
	// Output:
	// [shop/web]
	// [shop/shop]
}
