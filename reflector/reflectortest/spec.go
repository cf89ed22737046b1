package reflectortest

import (
	"maps"
	"reflect"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The parts of an object, for typed and unstructured ones alike.

// copyStatus sets dst's status to src's status.
func (res *resource) copyStatus(dst, src object) {
	if !res.typed {
		to, from := content(dst), content(src)
		delete(to, "status")
		if status, ok := from["status"]; ok {
			to["status"] = status
		}
		return
	}
	if to := structField(dst, "Status"); to.IsValid() {
		to.Set(structField(src, "Status"))
	}
}

// clearStatus drops the status that a creation may not set, if the status has a subresource. It
// sets the initial phase of the kind. A Node keeps its status, because a kubelet registers it with one.
func (res *resource) clearStatus(obj object) {
	if _, node := obj.(*corev1.Node); res.Status && !node {
		res.copyStatus(obj, res.newObject())
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		o.Status.Phase = corev1.PodPending
	case *corev1.Namespace:
		o.Status.Phase = corev1.NamespaceActive
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
	}
}

// countTemplates sets the annotation that each DaemonSet of Kubernetes has: how often its template has changed.
// old is nil for a creation.
func countTemplates(obj, old object) {
	set, ok := obj.(*appsv1.DaemonSet)
	if !ok {
		return
	}
	counted := set.Annotations
	prior, updated := old.(*appsv1.DaemonSet)
	if updated {
		counted = prior.Annotations
	}
	n, _ := strconv.ParseInt(counted[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if updated && !equality.Semantic.DeepEqual(prior.Spec.Template, set.Spec.Template) {
		n++
	}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, appsv1.DeprecatedTemplateGeneration, strconv.FormatInt(max(n, 1), 10))
}

// sameSpec reports whether a and b are equal except for metadata and a status with a subresource,
// in which case the generation stays.
func (res *resource) sameSpec(a, b object) bool {
	if res.typed && res.Kind == "Deployment" && !maps.Equal(a.GetAnnotations(), b.GetAnnotations()) {
		return false // the only kind whose annotations change the generation, for rollbacks
	}
	return equality.Semantic.DeepEqual(res.spec(a), res.spec(b))
}

// spec is a copy without the fields that do not belong to the spec.
func (res *resource) spec(obj object) any {
	c := obj.DeepCopyObject().(object)
	if !res.typed {
		m := content(c)
		delete(m, "metadata")
		delete(m, "apiVersion")
		delete(m, "kind")
		if res.Status {
			delete(m, "status")
		}
		return m
	}
	for _, name := range []string{"TypeMeta", "ObjectMeta", "Status"} {
		if f := structField(c, name); f.IsValid() {
			f.SetZero()
		}
	}
	return c
}

func content(obj object) map[string]any {
	return obj.(runtime.Unstructured).UnstructuredContent()
}

func structField(obj object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}
