package simulated

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// subject is an operator with its test.
type subject struct {
	scheme    *runtime.Scheme
	custom    custom
	operator  func(ctrl.Manager) error
	test      func(u *user)
	faultless bool // a fake client refuses no write
}

// custom is the custom resource of a subject.
type custom struct {
	group, version, kind, plural string
	object                       client.Object
	list                         client.ObjectList
}

// user does the steps of a test, and looks at the cluster.
type user struct {
	client.Client
	ctx    context.Context
	world  *fakeWorld // on a fake client only
	before func()     // before each step
	after  func()     // after each write
	// eventually panics with an error unless a state comes, and stays.
	eventually func(what string, holds func() bool)
	// elapse lets time pass, or makes an object that old where time is real.
	elapse func(d time.Duration, age func())
}

// attempt returns the error that a test panics with.
func attempt(test func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if failed, ok := r.(error); ok {
				err = failed
				return
			}
			panic(r)
		}
	}()
	test()
	return nil
}

func (u *user) must(err error) {
	if err != nil {
		panic(fmt.Errorf("the test itself: %w", err))
	}
	u.after()
}

func (u *user) create(o client.Object) {
	u.before()
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID()) // a fake client gives none
	}
	complete(o)
	u.must(u.Create(u.ctx, o))
}

func (u *user) change(o client.Object, do func(client.Object)) {
	u.before()
	for {
		u.must(u.Get(u.ctx, client.ObjectKeyFromObject(o), o))
		do(o)
		err := u.Update(u.ctx, o)
		if apierrors.IsConflict(err) {
			continue
		}
		u.must(err)
		return
	}
}

func (u *user) delete(o client.Object) {
	u.before()
	u.must(u.Delete(u.ctx, o))
}

// remove deletes an object, waits until it is gone, and then does what the garbage collector would, which
// neither a fake client nor a lone kube-apiserver has.
func (u *user) remove(o client.Object) {
	u.has(o.GetName(), o)
	u.delete(o)
	u.eventually("the object is gone", func() bool { return !u.has(o.GetName(), o.DeepCopyObject().(client.Object)) })
	for _, list := range []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &batchv1.JobList{}, &appsv1.DeploymentList{},
	} {
		u.must(u.List(u.ctx, list, client.InNamespace("default")))
		u.must(meta.EachListItem(list, func(dependent runtime.Object) error {
			if one := dependent.(client.Object); metav1.IsControlledBy(one, o) {
				return u.Delete(u.ctx, one, client.PropagationPolicy(metav1.DeletePropagationBackground)) // that of a Job would be to orphan
			}
			return nil
		}))
	}
}

// get reads an object that may be missing. One in deletion counts as missing if a finalizer of Kubernetes
// itself keeps it, since nothing removes that here.
func (u *user) get(key types.NamespacedName, into client.Object) bool {
	err := u.Get(u.ctx, key, into)
	if client.IgnoreNotFound(err) != nil {
		panic(err)
	}
	return err == nil && !(into.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(into, "kubernetes.io/pvc-protection"))
}

func (u *user) has(name string, into client.Object) bool {
	return u.get(types.NamespacedName{Namespace: "default", Name: name}, into)
}

// complete gives an object what a real API server asks for. The operators of the pairs leave it out.
func complete(o client.Object) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	switch o := o.(type) {
	case *batchv1.Job:
		o.Spec.Template = template
	case *appsv1.Deployment:
		template.Spec.RestartPolicy = corev1.RestartPolicyAlways
		o.Spec.Template, o.Spec.Selector = template, &metav1.LabelSelector{MatchLabels: template.Labels}
	case *corev1.PersistentVolumeClaim:
		o.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		o.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	}
}
