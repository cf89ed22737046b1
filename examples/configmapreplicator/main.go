// Program configmapreplicator copies ConfigMaps: one that says by an annotation which
// namespaces it is for is copied to all that have such labels, and its copies are kept as
// it is, until it is deleted or wants something else.
//
//	kubectl annotate configmap settings example.com/copy-to=team=blue
//
// On a cluster it runs until it is interrupted. Without one it shows what it does on an
// API server in memory: see demo.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory != nil {
		return demonstrate(ctx, out, c)
	}
	return control(ctx, c)
}

// replicator is the controller.
type replicator struct {
	client     *client.Resource[*corev1.ConfigMap] // reads and writes
	configMaps *informer.Informer[*corev1.ConfigMap]
	namespaces *informer.Informer[*corev1.Namespace]
	copies     *store.Index[store.Key, *corev1.ConfigMap] // by their source
}

// control runs the controller until ctx ends.
func control(ctx context.Context, c cluster.Cluster) error {
	configMaps, err := client.For[*corev1.ConfigMap](c.Config)
	if err != nil {
		return err
	}
	namespaces, err := client.For[*corev1.Namespace](c.Config)
	if err != nil {
		return err
	}
	r := &replicator{client: configMaps, configMaps: informer.New(configMaps), namespaces: informer.New(namespaces)}
	if r.copies, err = store.AddIndexFunc(r.configMaps.Cache(), "source", sourceOf, store.Key.Compare); err != nil {
		return err
	}
	sources, err := store.AddIndex(r.configMaps.Cache(), "is source", func(c *corev1.ConfigMap) []string { return []string{strconv.FormatBool(isSource(c))} })
	if err != nil {
		return err
	}
	reconciler := reconcile.New("configmaps", r.configMaps, r.reconcile,
		reconcile.Watch(r.configMaps, sourceOf), // a copy is its source's business
		reconcile.Watch(r.namespaces, reconcile.ByIndex(sources, func(*corev1.Namespace) []string { return []string{"true"} })),
		reconcile.Where(func(e eventqueue.Event[*corev1.ConfigMap]) bool {
			return isSource(e.Object) || e.PriorKnown && isSource(e.Prior)
		}),
		reconcile.WithTimeout(time.Minute))
	all := manager.New(nil)
	all.Add(r.configMaps)
	all.Add(r.namespaces)
	all.Add(reconciler)
	return all.Run(ctx)
}

// reconcile makes the copies of a source what they should be. The source has a finalizer
// before the first copy is made, and until the last one is gone.
func (r *replicator) reconcile(ctx context.Context, key store.Key, source *corev1.ConfigMap) (reconcile.Result, error) {
	wanted, selector := source != nil && source.DeletionTimestamp == nil && source.Annotations[copyTo] != "", labels.Nothing()
	if wanted {
		var err error
		if selector, err = labels.Parse(source.Annotations[copyTo]); err != nil {
			return reconcile.Result{}, eventqueue.Permanent(fmt.Errorf("annotation %s: %w", copyTo, err))
		}
	}
	for _, c := range r.copies.Get(key) {
		namespace, ok := r.namespaces.Cache().Get(store.Key{Name: c.Namespace})
		if ok && c.Name == key.Name && selector.Matches(labels.Set(namespace.Labels)) {
			continue
		}
		if err := write.Delete(ctx, r.client, c); err != nil {
			return reconcile.Result{}, err
		}
	}
	if source == nil {
		return reconcile.Result{}, nil
	}
	if err := r.finalize(ctx, source, wanted); err != nil {
		return reconcile.Result{}, err
	}
	var errs []error
	for _, namespace := range r.namespaces.Cache().All() {
		if selector.Matches(labels.Set(namespace.Labels)) && namespace.DeletionTimestamp == nil && namespace.Name != key.Namespace {
			errs = append(errs, r.ensure(ctx, source, namespace.Name))
		}
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// finalize sees to it that a source has the finalizer, or has it not.
func (r *replicator) finalize(ctx context.Context, source *corev1.ConfigMap, wanted bool) error {
	change := write.RemoveFinalizer[*corev1.ConfigMap]
	if wanted {
		change = write.AddFinalizer
	}
	_, err := change(ctx, r.client, source, finalizer)
	return err
}

// ensure creates or repairs the copy in a namespace.
func (r *replicator) ensure(ctx context.Context, source *corev1.ConfigMap, namespace string) error {
	key, from := store.Key{Namespace: namespace, Name: source.Name}, source.Namespace+"/"+source.Name
	held, ok := r.configMaps.Cache().Get(key)
	if ok && held.Annotations[copyOf] != from {
		return fmt.Errorf("there is a ConfigMap %s that is no copy", key)
	}
	_, err := write.CreateOrUpdate(ctx, r.client, held, key, func(c *corev1.ConfigMap) error {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, copyOf, from)
		c.Data, c.BinaryData = source.Data, source.BinaryData
		return nil
	})
	return err
}
