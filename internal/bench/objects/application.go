package objects

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Application is a custom resource that a user writes without a code generator.
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              applicationSpec   `json:"spec"`
	Status            applicationStatus `json:"status,omitzero"`
}

type applicationSpec struct {
	Owner      string                      `json:"owner"`
	Replicas   int32                       `json:"replicas"`
	Components []component                 `json:"components"`
	Resources  corev1.ResourceRequirements `json:"resources"`
	Selector   *metav1.LabelSelector       `json:"selector"`
	Parameters map[string]string           `json:"parameters,omitempty"`
	Paused     bool                        `json:"paused,omitempty"`
}

type component struct {
	Name  string          `json:"name"`
	Image string          `json:"image"`
	Port  int32           `json:"port"`
	Env   []corev1.EnvVar `json:"env,omitempty"`
	Hosts []string        `json:"hosts,omitempty"`
}

type applicationStatus struct {
	Phase              string             `json:"phase"`
	Revision           string             `json:"revision"`
	ObservedGeneration int64              `json:"observedGeneration"`
	Conditions         []metav1.Condition `json:"conditions"`
}

// The kind and the resource of applications.
var (
	ApplicationKind     = schema.GroupVersionKind{Group: "platform.example.com", Version: "v1", Kind: "Application"}
	ApplicationResource = ApplicationKind.GroupVersion().WithResource("applications")
)

// NewApplication makes the application with a number. Twenty applications belong to a team and
// share the team's fields.
func NewApplication(i int) *Application {
	team := fmt.Sprintf("team-%03d", i/20)
	name := fmt.Sprintf("application-%05d", i)
	at := metav1.NewTime(time.Unix(1_750_000_000+int64(i)*61, 0))
	a := &Application{
		TypeMeta: metav1.TypeMeta{APIVersion: ApplicationKind.GroupVersion().String(), Kind: ApplicationKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: team, UID: types.UID(fmt.Sprintf("%08x-1234-5678-9abc-%012x", i*7919, i)), Generation: 3, CreationTimestamp: at,
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "platform", "example.com/team": team, "example.com/tier": "backend"},
			Annotations: map[string]string{"example.com/contact": team + "@example.com", "example.com/change": fmt.Sprintf("%040x", i*104729)},
			Finalizers:  []string{"platform.example.com/cleanup"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "platform-controller", Operation: metav1.ManagedFieldsOperationApply, APIVersion: ApplicationKind.GroupVersion().String(), Time: &at, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:example.com/contact":{}},"f:finalizers":{"v:\"platform.example.com/cleanup\"":{}},` +
					`"f:labels":{"f:example.com/team":{}}},"f:spec":{"f:components":{"k:{\"name\":\"web\"}":{".":{},"f:env":{},"f:image":{},"f:name":{}}},"f:owner":{},"f:replicas":{}}}`),
			}},
		},
		Spec: applicationSpec{
			Owner: team, Replicas: int32(1 + i%5),
			Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")},
				Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100*(1+i/20%9)), resource.DecimalSI), "memory": resource.MustParse("512Mi")},
			},
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/application": name}},
			Parameters: map[string]string{"region": "eu-west-1", "database": "postgres://" + team + ".db.example.com:5432", "log-level": "info"},
		},
		Status: applicationStatus{Phase: "Running", Revision: fmt.Sprintf("%040x", i*15485863), ObservedGeneration: 3},
	}
	for _, part := range []string{"web", "worker"} {
		a.Spec.Components = append(a.Spec.Components, component{
			Name: part, Image: fmt.Sprintf("registry.example.com/%s/%s:v1.%d", name, part, i%50), Port: 8080,
			Env:   []corev1.EnvVar{{Name: "TEAM", Value: team}, {Name: "LOG_FORMAT", Value: "json"}},
			Hosts: []string{fmt.Sprintf("%s-%s.example.com", part, name)},
		})
	}
	for _, kind := range []string{"Ready", "Progressing", "Available"} {
		a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "AsExpected", Message: "all replicas are up", ObservedGeneration: 3, LastTransitionTime: at,
		})
	}
	return a
}

// ApplicationList is a list of applications.
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Application `json:"items"`
}

// The methods below are those that a generator writes: clients with a scheme need them.

func (a *Application) DeepCopyObject() runtime.Object {
	c := new(Application)
	a.DeepCopyInto(c)
	return c
}

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

func (l *ApplicationList) DeepCopyObject() runtime.Object {
	c := &ApplicationList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Application, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&c.Items[i])
	}
	return c
}
