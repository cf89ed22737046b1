package refer_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/refer"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// Each ConfigMap with a kind and a name waits for the object that it names. It needs no mapping from that
// object back to itself.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	config := server.Config()
	create := func(object metav1.Object) {
		if err := server.Create(object); err != nil {
			panic(err)
		}
	}
	create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"},
		Data:       map[string]string{"kind": "Secret", "name": "drawer"},
	})

	kinds, err := fleet.New(config)
	if err != nil {
		panic(err)
	}
	said := make(chan string, 100)
	say := func(format string, values ...any) { said <- fmt.Sprintf(format, values...) }
	configMaps := informer.New(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("shop"))
	r := refer.New("waiting", configMaps, kinds, func(ctx context.Context, key store.Key, configMap *corev1.ConfigMap) (reconcile.Result, error) {
		if configMap == nil {
			return reconcile.Result{}, nil // what it referred to is left
		}
		kind := schema.GroupVersionKind{Version: "v1", Kind: configMap.Data["kind"]}
		part := store.Key{Namespace: key.Namespace, Name: configMap.Data["name"]}
		_, found, err := refer.Get[*metav1.PartialObjectMetadata](ctx, kind, part)
		switch {
		case err != nil: // it is unknown whether the part exists, so nothing is done until the cache shows it
			return reconcile.Result{}, nil
		case !found:
			say("%s waits for %s %s", key.Name, kind.Kind, part.Name)
			return reconcile.Result{}, nil
		}
		selector := labels.SelectorFromSet(labels.Set{"shop": "open"})
		pods, err := refer.List[*metav1.PartialObjectMetadata](ctx, podKind, key.Namespace, selector)
		if err == nil {
			say("%s has %s %s and %d pods", key.Name, kind.Kind, part.Name, len(pods))
		}
		return reconcile.Result{}, nil
	})

	all := manager.New(nil)
	all.Add(kinds) // runs the informers of the kinds that somebody refers to
	all.Add(configMaps)
	all.AddLeaderElected(r) // runs in each process if there is no election
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- all.Run(ctx) }()
	until := func(line string) {
		for one := range said {
			if one == line {
				fmt.Println(line)
				return
			}
		}
	}
	until("till waits for Secret drawer")
	create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "drawer"}})
	until("till has Secret drawer and 0 pods")
	create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"shop": "open"}}})
	until("till has Secret drawer and 1 pods")
	stop()
	fmt.Println(<-ended)
	// Output:
	// till waits for Secret drawer
	// till has Secret drawer and 0 pods
	// till has Secret drawer and 1 pods
	// <nil>
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")
