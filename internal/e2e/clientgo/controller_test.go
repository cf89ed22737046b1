package clientgo

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
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
		runtime.HandleError(err)
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
			runtime.HandleError(fmt.Errorf("not an object: %T", object))
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
