package manager_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// A whole controller program: ConfigMaps that are to be painted get the color of their
// namespace. Its main function would begin with the context that manager.SignalContext returns,
// and pass manager.WithElection, manager.WithServer and manager.WithLogger.
func Example() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"color": "red"}}}
	door := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "door", Labels: map[string]string{"paint": "yes"}}}
	for _, object := range []metav1.Object{namespace, door} {
		if err := server.Create(object); err != nil {
			panic(err)
		}
	}
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	m := manager.New(server.Config())
	namespaces, err := manager.Informer[*corev1.Namespace](m, manager.Selection{})
	if err != nil {
		panic(err)
	}
	configMaps, err := manager.Informer[*corev1.ConfigMap](m, manager.Selection{LabelSelector: "paint=yes"})
	if err != nil {
		panic(err)
	}
	paint := func(ctx context.Context, key store.Key, held *corev1.ConfigMap) (reconcile.Result, error) {
		namespace, known := namespaces.Cache().Get(store.Key{Name: key.Namespace})
		if held == nil || !known {
			return reconcile.Result{}, nil
		}
		want := held.DeepCopy() // the cached one is everybody's
		want.Data = map[string]string{"color": namespace.Labels["color"]}
		written, err := write.Patch(ctx, clientset.CoreV1().ConfigMaps(key.Namespace), held, want)
		if err == nil && written != held {
			fmt.Println(key, "is", written.Data["color"])
		}
		return reconcile.Result{}, err
	}
	ofNamespace := func(n *corev1.Namespace) (keys []store.Key) {
		for key := range configMaps.Cache().Namespace(n.Name) {
			keys = append(keys, key)
		}
		return keys
	}
	manager.Reconcile(m, "painter", configMaps, paint, reconcile.Watch(namespaces, ofNamespace),
		reconcile.IgnoreOwnWrites()) // what it has painted itself is as it should be

	go func() { // somebody else
		defer stop()
		if _, err := server.WaitForRequests(ctx, 1, reflectortest.Verb("patch")); err != nil {
			panic(err)
		}
		namespace.Labels["color"] = "blue"
		if err := server.Update(namespace); err != nil {
			panic(err)
		}
		if _, err := server.WaitForRequests(ctx, 2, reflectortest.Verb("patch")); err != nil {
			panic(err)
		}
	}()
	fmt.Println(m.Run(ctx))
	// Output:
	// shop/door is red
	// shop/door is blue
	// <nil>
}

// A manager without a config runs informers that the program made itself.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	pods := informer.New(clientset.CoreV1().Pods(""))
	secrets := informer.New(clientset.CoreV1().Secrets(""))
	m := manager.New(nil)
	m.Add(pods)
	m.Add(secrets)
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	if err := m.WaitForSync(ctx); err != nil {
		panic(err)
	}
	fmt.Println("pods:", pods.Cache().Len(), "secrets:", secrets.Cache().Len(), "ready:", m.Ready() == nil)
	stop()
	fmt.Println(<-result)
	// Output:
	// pods: 0 secrets: 0 ready: true
	// <nil>
}

// A kind that the program knows by its name, without a Go type: its objects are maps. Selection.Kind needs
// the version, because the objects of each version look different.
func ExampleFor_unstructured() {
	ballKind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Ball"}
	server, err := reflectortest.NewServer(reflectortest.WithResource(reflectortest.Resource{
		Group: "example.com", Version: "v1", Kind: "Ball", Plural: "balls", Namespaced: true,
		Prototype: &unstructured.Unstructured{},
	})) // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ball := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(5), "maker": "acme"}}}
	ball.SetGroupVersionKind(ballKind)
	ball.SetNamespace("shop")
	ball.SetName("round")
	if err := server.Create(ball); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	m := manager.New(server.Config())
	balls, err := manager.For[*unstructured.Unstructured](m, manager.Selection{Kind: ballKind})
	if err != nil {
		panic(err)
	}
	grow := func(ctx context.Context, key store.Key, ball *unstructured.Unstructured) (reconcile.Result, error) {
		if ball == nil {
			return reconcile.Result{}, nil
		}
		want := write.Copy(ball)
		if err := unstructured.SetNestedField(want.Object, int64(7), "spec", "size"); err != nil {
			return reconcile.Result{}, err
		}
		written, err := write.Patch(ctx, balls.Client.In(key.Namespace), ball, want)
		if err == nil && written == ball { // nothing was left to do, so no request was sent
			fmt.Println(key, "has", ball.Object["spec"])
			stop()
		}
		return reconcile.Result{}, err
	}
	manager.Reconcile(m, "balls", balls.Informer, grow)
	fmt.Println(m.Run(ctx))
	// Output:
	// shop/round has map[maker:acme size:7]
	// <nil>
}

// addresses is what a cache keeps of a Node.
type addresses struct {
	Node string
	All  []string
}

func (a *addresses) GetNamespace() string { return "" }
func (a *addresses) GetName() string      { return a.Node }

func addressesOf(node *corev1.Node) (*addresses, error) {
	a := &addresses{Node: node.Name}
	for _, address := range node.Status.Addresses {
		a.All = append(a.All, address.Address)
	}
	return a, nil
}

// A cache with few fields, in a type of the program's own. The heartbeats of Nodes are Modifications of equal
// objects, so a predicate drops them.
func ExampleManager_Add() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}}
	if err := server.Create(node); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	config := server.Config()

	m := manager.New(config)
	resource, err := client.For[*corev1.Node](config, client.WithoutManagedFields())
	if err != nil {
		panic(err)
	}
	nodes := informer.NewTransformed(resource, addressesOf, store.ObjectKey[*addresses], informer.WithName("nodes"))
	m.Add(nodes)
	changed := func(event eventqueue.Event[*addresses]) bool {
		return event.Type != eventqueue.Modification || !store.EqualContent(event.Prior, event.Object)
	}

	publish := func(_ context.Context, key store.Key, of *addresses) (reconcile.Result, error) {
		if of == nil {
			stop()
			return reconcile.Result{}, nil
		}
		fmt.Println(key, "has", of.All)
		go func() { // the kubelet
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			if err := server.Update(node); err != nil {
				panic(err)
			}
			if err := server.Delete(node); err != nil {
				panic(err)
			}
		}()
		return reconcile.Result{}, nil
	}
	manager.Reconcile(m, "publisher", nodes, publish, reconcile.Where(changed))
	fmt.Println(m.Run(ctx))
	// Output:
	// one has [192.0.2.1]
	// <nil>
}

// An account that has a Role in each of two namespaces, and no ClusterRole: an informer of package scoped
// takes the place of that of For. It lists and watches each of its namespaces by itself.
func ExampleFor_namespaces() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	for _, namespace := range []string{"bank", "farm", "shop"} {
		door := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "door"}}
		if err := server.Create(door); err != nil {
			panic(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	config, namespaces := server.Config(), []string{"bank", "shop"}

	m := manager.New(config)
	resource, err := client.For[*corev1.ConfigMap](config)
	if err != nil {
		panic(err)
	}
	scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap], informer.WithName("configmaps"))
	for _, namespace := range namespaces {
		if err := scoped.Add(scopes, store.Scope{Namespace: namespace}, resource.In(namespace)); err != nil {
			panic(err)
		}
	}
	m.Add(scopes.Informer())
	configMaps := &manager.Objects[*corev1.ConfigMap]{Informer: scopes.Informer(), Client: resource}

	left := len(namespaces)
	paint := func(ctx context.Context, key store.Key, configMap *corev1.ConfigMap) (reconcile.Result, error) {
		if configMap == nil || configMap.Data["color"] == "red" {
			return reconcile.Result{}, nil
		}
		want := write.Copy(configMap)
		want.Data = map[string]string{"color": "red"}
		written, err := write.Patch(ctx, configMaps.Client, configMap, want)
		if err != nil {
			return reconcile.Result{}, err
		}
		fmt.Println(key, "is", written.Data["color"])
		if left--; left == 0 {
			stop()
		}
		return reconcile.Result{}, nil
	}
	manager.Reconcile(m, "painter", configMaps.Informer, paint)
	if err := m.Run(ctx); err != nil {
		panic(err)
	}
	for _, request := range server.Requests(reflectortest.ForResource("configmaps")) {
		if request.Namespace == "" {
			fmt.Println("a Role does not permit", request.Verb, request.Path)
		}
	}
	// Unordered output:
	// bank/door is red
	// shop/door is red
}
