package clientgo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	kuberest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// docs/from-client-go.md repeats parts of this file; a test compares them.

// before is a program of client-go's, with its parts in the order in which they move.
func before(ctx context.Context, clientset kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(clientset, 10*time.Minute)
	return rest(ctx, factory)
}

// rest is what does not change in the first step.
func rest(ctx context.Context, factory informers.SharedInformerFactory) error {
	pods := factory.Core().V1().Pods()
	handle, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			fmt.Println("added", obj.(*corev1.Pod).Name)
		},
		DeleteFunc: func(obj any) {
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				tombstone, ok := obj.(cache.DeletedFinalStateUnknown)
				if !ok {
					return
				}
				if pod, ok = tombstone.Obj.(*corev1.Pod); !ok {
					return
				}
			}
			fmt.Println("deleted", pod.Name)
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced, handle.HasSynced) {
		return context.Cause(ctx)
	}
	running, err := pods.Lister().Pods("default").List(labels.Everything())
	if err != nil {
		return err
	}
	fmt.Println(len(running), "pod(s)")
	return nil
}

// putIn is the first step: the informer of pods is one of ours.
func putIn(ctx context.Context, clientset kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(clientset, 10*time.Minute)
	// Before other code requests the informer of pods:
	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.NewTyped(client.CoreV1().Pods(""), clientgo.WithResync(resync))
	})
	return rest(ctx, factory)
}

// ownKind registers an informer that decodes by itself in a factory that is generated for a kind of the
// program, which is Pod here.
func ownKind(ctx context.Context, config *kuberest.Config, factory informers.SharedInformerFactory) error {
	resource, err := client.ForType[clientgo.Object](config, corev1.SchemeGroupVersion.WithResource("pods"), &corev1.Pod{})
	if err != nil {
		return err
	}
	factory.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.FromClient(resource, cache.SharedIndexInformerOptions{ResyncPeriod: resync})
	})
	return rest(ctx, factory)
}

// side is the second step: code that is typed beside code that is not.
func side(ctx context.Context, clientset kubernetes.Interface) error {
	shared := clientgo.NewTyped(clientset.CoreV1().Pods(""))

	// Code that has not moved yet.
	lister := listers.NewPodLister(shared.GetIndexer())

	// Code that has: the same cache, the same watch.
	pods := shared.Informer()
	byNode, err := store.AddIndex(pods.Cache(), "node", func(pod *corev1.Pod) []string {
		return []string{pod.Spec.NodeName}
	})
	if err != nil {
		return err
	}
	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, initial bool) {
			fmt.Println("added", pod.Name)
		},
		OnDelete: func(pod *corev1.Pod, finalStateKnown bool) {
			fmt.Println("deleted", pod.Name)
		},
	})

	go shared.RunWithContext(ctx)
	if err := pods.WaitForSync(ctx); err != nil {
		return err // names what is missing, and why
	}
	all, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, pod := range byNode.Get("node-1") {
		fmt.Println(pod.Name, "is one of", len(all))
	}
	return nil
}

// after is the last step: nothing of client-go's caches is left.
func after(ctx context.Context, clientset kubernetes.Interface) error {
	m := manager.New(nil)
	pods := informer.New(clientset.CoreV1().Pods(""))
	m.Add(pods)
	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, initial bool) {
			fmt.Println("added", pod.Name)
		},
		OnDelete: func(pod *corev1.Pod, finalStateKnown bool) {
			fmt.Println("deleted", pod.Name)
		},
	})
	go func() {
		if err := m.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	if err := m.WaitForSync(ctx); err != nil {
		return err
	}
	running := 0
	for range pods.Cache().Namespace("default") {
		running++
	}
	fmt.Println(running, "pod(s)")
	return nil
}

// otherWay takes an informer that has another owner.
func otherWay(ctx context.Context, shared cache.SharedIndexInformer) error {
	pods := clientgo.FromSharedInformer(shared, store.ObjectKey[*corev1.Pod])
	go pods.Run(ctx)
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}
	for key := range pods.Cache().All() {
		fmt.Println(key)
	}
	return nil
}

// onOnePod runs a program on a server that has one pod.
func onOnePod(program func(context.Context, kubernetes.Interface) error) {
	onServer(func(ctx context.Context, _ *kuberest.Config, clientset kubernetes.Interface) error {
		return program(ctx, clientset)
	})
}

// onServer is onOnePod for a program that needs the config of the clientset.
func onServer(program func(context.Context, *kuberest.Config, kubernetes.Interface) error) {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	if err := server.Create(pod); err != nil {
		panic(err)
	}
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := program(ctx, server.Config(), clientset); err != nil {
		panic(err)
	}
}

// A program of client-go's goes on with an informer of ours, which it gets from its
// factory.
func Example() {
	onOnePod(before)
	onOnePod(putIn)
	// Output:
	// added web
	// 1 pod(s)
	// added web
	// 1 pod(s)
}

// A factory that is generated for a kind of the program has an informer of ours, which decodes by itself.
func ExampleFromClient() {
	onServer(func(ctx context.Context, config *kuberest.Config, clientset kubernetes.Interface) error {
		return ownKind(ctx, config, informers.NewSharedInformerFactory(clientset, 10*time.Minute))
	})
	// Output:
	// added web
	// 1 pod(s)
}

// A program changes the name of a package.
func ExampleNewSharedIndexInformer() {
	onOnePod(func(ctx context.Context, clientset kubernetes.Interface) error {
		listWatcher := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", "", fields.Everything())
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		pods := clientgo.NewSharedIndexInformer(listWatcher, &corev1.Pod{}, 10*time.Minute, byNamespace)
		go pods.RunWithContext(ctx)
		cache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
		fmt.Println(pods.GetStore().ListKeys())
		return nil
	})
	// Output: [default/web]
}

// A program keeps its own store, such as one of metrics.
func ExampleIntoStore() {
	onOnePod(func(ctx context.Context, clientset kubernetes.Interface) error {
		metrics := cache.NewStore(cache.MetaNamespaceKeyFunc)
		report := reflector.WithErrorHandler(func(_ context.Context, err error) { log.Print(err) })
		pods := reflector.New(clientset.CoreV1().Pods(""), clientgo.IntoStore[*corev1.Pod](metrics), report)
		ended := make(chan error, 1)
		go func() { ended <- pods.Run(ctx) }()
		<-pods.Synced()
		fmt.Println(metrics.ListKeys())
		return nil
	})
	// Output: [default/web]
}

// Some code has moved over, some has not.
func ExampleSharedIndexInformer_Informer() {
	onOnePod(side)
	onOnePod(after)
	// Output:
	// added web
	// web is one of 1
	// added web
	// 1 pod(s)
}

// Typed readers need no watch of their own.
func ExampleFromSharedInformer() {
	onOnePod(func(ctx context.Context, clientset kubernetes.Interface) error {
		shared := informers.NewSharedInformerFactory(clientset, 0).Core().V1().Pods().Informer()
		go shared.RunWithContext(ctx)
		return otherWay(ctx, shared)
	})
	// Output: default/web
}

// A generated lister reads a cache in a test, without a server.
func ExampleAsIndexer() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	lister := listers.NewPodLister(clientgo.AsIndexer(pods))
	if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}); err != nil {
		panic(err)
	}
	pod, err := lister.Pods("default").Get("web")
	fmt.Println(pod.Name, err)
	// Output: web <nil>
}
