package clientgo

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/listers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// controller gives each Foo its deployment. It does what the controller of kubernetes/sample-controller does, in the same way, and knows nothing of this
// library: interfaces of generated informers and listers, handlers, tombstones and a work queue.
type controller struct {
	kubernetes  kubernetes.Interface
	foos        dynamic.ResourceInterface
	deployments appslisters.DeploymentLister
	fooLister   FooLister
	synced      []cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newController(client kubernetes.Interface, foos dynamic.ResourceInterface, deployments appsinformers.DeploymentInformer, fooInformer FooInformer) (*controller, error) {
	c := &controller{
		kubernetes:  client,
		foos:        foos,
		deployments: deployments.Lister(),
		fooLister:   fooInformer.Lister(),
		synced:      []cache.InformerSynced{deployments.Informer().HasSynced, fooInformer.Informer().HasSynced},
		queue:       workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Second)),
	}
	if _, err := fooInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, foo any) { c.enqueue(foo) },
	}); err != nil {
		return nil, err
	}
	_, err := deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueueOwner,
		UpdateFunc: func(before, after any) {
			// A resync sends states that have been seen.
			if before.(*appsv1.Deployment).ResourceVersion != after.(*appsv1.Deployment).ResourceVersion {
				c.enqueueOwner(after)
			}
		},
		DeleteFunc: c.enqueueOwner,
	})
	return c, err
}

func (c *controller) enqueue(foo any) {
	name, err := cache.ObjectToName(foo)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	c.queue.Add(name)
}

// enqueueOwner enqueues the Foo that controls an object, if one does.
func (c *controller) enqueueOwner(object any) {
	owned, ok := object.(metav1.Object)
	if !ok {
		tombstone, isOne := object.(cache.DeletedFinalStateUnknown)
		if owned, ok = tombstone.Obj.(metav1.Object); !isOne || !ok {
			utilruntime.HandleError(fmt.Errorf("not an object: %T", object))
			return
		}
	}
	if owner := metav1.GetControllerOf(owned); owner != nil && owner.Kind == "Foo" {
		if foo, err := c.fooLister.Foos(owned.GetNamespace()).Get(owner.Name); err == nil {
			c.enqueue(foo)
		}
	}
}

// run works until ctx ends.
func (c *controller) run(ctx context.Context, workers int) {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		c.queue.ShutDown()
		return
	}
	var working wait.Group
	for range workers {
		working.Start(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait()
}

func (c *controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	if err := c.sync(ctx, name); err != nil {
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

// sync brings the deployment of a Foo, and then its status, to what they should be.
func (c *controller) sync(ctx context.Context, name cache.ObjectName) error {
	foo, err := c.fooLister.Foos(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	deployment, err := c.deployments.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	if apierrors.IsNotFound(err) {
		deployment, err = c.kubernetes.AppsV1().Deployments(foo.Namespace).Create(ctx, deploymentOf(foo), metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		return fmt.Errorf("deployment %s has another owner", deployment.Name)
	}
	if *foo.Spec.Replicas != *deployment.Spec.Replicas {
		changed := deployment.DeepCopy()
		changed.Spec.Replicas = foo.Spec.Replicas
		if deployment, err = c.kubernetes.AppsV1().Deployments(foo.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if foo.Status.AvailableReplicas == deployment.Status.AvailableReplicas {
		return nil
	}
	return c.report(ctx, foo.Name, deployment.Status.AvailableReplicas)
}

func (c *controller) report(ctx context.Context, name string, available int32) error {
	foo, err := c.foos.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(foo.Object, int64(available), "status", "availableReplicas"); err != nil {
		return err
	}
	_, err = c.foos.UpdateStatus(ctx, foo, metav1.UpdateOptions{})
	return err
}

func deploymentOf(foo *Foo) *appsv1.Deployment {
	label := map[string]string{"controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       foo.Namespace,
			Name:            foo.Spec.DeploymentName,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, foos.GroupVersion().WithKind("Foo"))},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: label},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: label},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}

// TestControllerForClientGoRunsOnOurInformers starts with one Foo, changes what it wants, what it has, and takes its deployment away.
func TestControllerForClientGoRunsOnOurInformers(t *testing.T) {
	w := newWorld(t)
	foo := w.createFoo("early", "early-pods", 1)
	c, err := newController(w.kubernetes, w.foos, w.factory.Apps().V1().Deployments(), fooInformer{w.fooInformer})
	require.NoError(t, err)
	stopFoos := w.start(w.fooInformer.RunWithContext)
	stopFactory := w.start(func(ctx context.Context) {
		w.factory.StartWithContext(ctx)
		<-ctx.Done()
		w.factory.Shutdown()
	})
	stop := w.start(func(ctx context.Context) { c.run(ctx, 2) })

	deployments := w.kubernetes.AppsV1().Deployments(w.namespace)
	wanted := func(name string, replicas int32) {
		w.eventually("deployment "+name, func(ctx context.Context) bool {
			deployment, err := deployments.Get(ctx, name, metav1.GetOptions{})
			return err == nil && *deployment.Spec.Replicas == replicas
		})
	}
	wanted("early-pods", 1)
	w.createFoo("late", "late-pods", 2)
	wanted("late-pods", 2)
	w.scaleFoo(foo, 3)
	wanted("early-pods", 3)

	// Nobody else makes pods here.
	deployment, err := deployments.Get(t.Context(), "early-pods", metav1.GetOptions{})
	require.NoError(t, err)
	deployment.Status.Replicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 3, 3, 3
	_, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
	require.NoError(t, err)
	// Code that has moved over reads the same cache, with types.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key := store.Key{Namespace: w.namespace, Name: "early"}
	for state := range w.fooInformer.Informer().Cache().WatchKey(ctx, key) {
		if current, ok := state.Get(key); ok && current.Status.AvailableReplicas == 3 {
			break
		}
	}
	require.NoError(t, ctx.Err(), "the status of the Foo is not brought up to date")

	require.NoError(t, deployments.Delete(t.Context(), "late-pods", metav1.DeleteOptions{}))
	wanted("late-pods", 2) // it comes back
	require.NoError(t, w.foos.Delete(t.Context(), "late", metav1.DeleteOptions{}))
	w.eventually("the Foo to be gone from the cache", func(context.Context) bool {
		_, err := c.fooLister.Foos(w.namespace).Get("late")
		return apierrors.IsNotFound(err)
	})
	list, err := c.fooLister.Foos(w.namespace).List(everything)
	require.NoError(t, err)
	assert.Len(t, list, 1)

	stop()
	stopFoos()
	stopFactory()
	assert.True(t, w.fooInformer.IsStopped())
	assert.True(t, w.deployments.IsStopped())
}

var foos = schema.GroupVersionResource{Group: "foos.example.com", Version: "v1", Resource: "foos"}

// Foo is a custom resource that asks for a deployment of so many replicas, as that of kubernetes/sample-controller.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FooSpec   `json:"spec"`
	Status            FooStatus `json:"status,omitempty"`
}

// FooSpec is what is wanted.
type FooSpec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       *int32 `json:"replicas"`
}

// FooStatus is what there is.
type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// DeepCopy is what deepcopy-gen would have made.
func (f *Foo) DeepCopy() *Foo {
	copied := *f
	f.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	if f.Spec.Replicas != nil {
		replicas := *f.Spec.Replicas
		copied.Spec.Replicas = &replicas
	}
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (f *Foo) DeepCopyObject() runtime.Object { return f.DeepCopy() }

// FooLister is what lister-gen would have made.
type FooLister struct{ listers.ResourceIndexer[*Foo] }

// NewFooLister returns a lister of what an indexer holds.
func NewFooLister(indexer cache.Indexer) FooLister {
	return FooLister{listers.New[*Foo](indexer, foos.GroupResource())}
}

// Foos returns a lister of the Foos of one namespace.
func (l FooLister) Foos(namespace string) listers.ResourceIndexer[*Foo] {
	return listers.NewNamespaced(l.ResourceIndexer, namespace)
}

// FooInformer is what informer-gen would have made.
type FooInformer interface {
	Informer() cache.SharedIndexInformer
	Lister() FooLister
}

// fooInformer is a FooInformer of any informer.
type fooInformer struct{ cache.SharedIndexInformer }

func (f fooInformer) Informer() cache.SharedIndexInformer { return f.SharedIndexInformer }
func (f fooInformer) Lister() FooLister                   { return NewFooLister(f.GetIndexer()) }

// fooDefinition is the CustomResourceDefinition of Foos.
func fooDefinition() *unstructured.Unstructured {
	integer := map[string]any{"type": "integer", "format": "int32"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	schema := object(map[string]any{
		"spec":   object(map[string]any{"deploymentName": map[string]any{"type": "string"}, "replicas": integer}),
		"status": object(map[string]any{"availableReplicas": maps.Clone(integer)}),
	})
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": foos.Resource + "." + foos.Group},
		"spec": map[string]any{
			"group": foos.Group,
			"names": map[string]any{"kind": "Foo", "plural": "foos", "singular": "foo"},
			"scope": "Namespaced",
			"versions": []any{map[string]any{
				"name": foos.Version, "served": true, "storage": true,
				"schema":       map[string]any{"openAPIV3Schema": schema},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}
}

// everything selects all objects.
var everything = labels.Everything()
