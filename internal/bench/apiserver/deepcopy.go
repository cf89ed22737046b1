package apiserver

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ApplicationList is a list of applications, which clients need that have a scheme.
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Application `json:"items"`
}

// What follows is what a generator would make: clients that have a scheme need it.
var (
	_ runtime.Object = (*Application)(nil)
	_ runtime.Object = (*ApplicationList)(nil)
)

// DeepCopyObject implements [runtime.Object].
func (a *Application) DeepCopyObject() runtime.Object {
	c := new(Application)
	a.DeepCopyInto(c)
	return c
}

// DeepCopyInto copies the application into another one.
func (a *Application) DeepCopyInto(c *Application) {
	*c = *a
	a.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Components = slices.Clone(a.Spec.Components)
	for i := range c.Spec.Components {
		each := &c.Spec.Components[i]
		each.Hosts = slices.Clone(each.Hosts)
		if each.Env != nil {
			env := make([]corev1.EnvVar, len(each.Env))
			for j := range each.Env {
				each.Env[j].DeepCopyInto(&env[j])
			}
			each.Env = env
		}
	}
	a.Spec.Resources.DeepCopyInto(&c.Spec.Resources)
	c.Spec.Selector = a.Spec.Selector.DeepCopy()
	c.Spec.Parameters = maps.Clone(a.Spec.Parameters)
	if a.Status.Conditions != nil {
		c.Status.Conditions = make([]metav1.Condition, len(a.Status.Conditions))
		for i := range a.Status.Conditions {
			a.Status.Conditions[i].DeepCopyInto(&c.Status.Conditions[i])
		}
	}
}

// DeepCopyObject implements [runtime.Object].
func (l *ApplicationList) DeepCopyObject() runtime.Object {
	c := &ApplicationList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Application, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&c.Items[i])
	}
	return c
}
