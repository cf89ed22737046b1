// Package shim makes factories whose informers are those of this library. The tests copy it into packages of Kubernetes' controllers.
package shim

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// newSharedInformerFactory replaces informers.NewSharedInformerFactory.
func newSharedInformerFactory(client kubernetes.Interface, resync time.Duration) informers.SharedInformerFactory {
	f := informers.NewSharedInformerFactory(client, resync)
	replace(f, &appsv1.Deployment{}, func(c kubernetes.Interface) lister[*appsv1.DeploymentList] { return c.AppsV1().Deployments("") })
	replace(f, &appsv1.ReplicaSet{}, func(c kubernetes.Interface) lister[*appsv1.ReplicaSetList] { return c.AppsV1().ReplicaSets("") })
	replace(f, &corev1.Pod{}, func(c kubernetes.Interface) lister[*corev1.PodList] { return c.CoreV1().Pods("") })
	return f
}

type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func replace[L runtime.Object](f informers.SharedInformerFactory, example runtime.Object, of func(kubernetes.Interface) lister[L]) {
	f.InformerFor(example, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return of(c).List(ctx, opts)
			},
			WatchFuncWithContext: of(c).Watch,
		}, c), example, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}
