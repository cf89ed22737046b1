package reflectortest

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selectable has the labels that a field selector of a kind can have beside the name and the namespace, each with
// what it is compared with.
type selectable map[string]func(object) string

func selectableOf[T object](all map[string]func(T) string) selectable {
	s := selectable{}
	for label, value := range all {
		s[label] = func(o object) string { return value(o.(T)) }
	}
	return s
}

// builtinSelectable has the stable versions of all built-in kinds that have such labels.
var builtinSelectable = map[schema.GroupVersionKind]selectable{
	corev1.SchemeGroupVersion.WithKind("Pod"): selectableOf(map[string]func(*corev1.Pod) string{
		"spec.nodeName":           func(p *corev1.Pod) string { return p.Spec.NodeName },
		"spec.restartPolicy":      func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
		"spec.schedulerName":      func(p *corev1.Pod) string { return p.Spec.SchedulerName },
		"spec.serviceAccountName": func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
		"spec.hostNetwork":        func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
		"status.phase":            func(p *corev1.Pod) string { return string(p.Status.Phase) },
		"status.podIP": func(p *corev1.Pod) string {
			if len(p.Status.PodIPs) > 0 {
				return p.Status.PodIPs[0].IP
			}
			return p.Status.PodIP
		},
		"status.podIPs":            func(*corev1.Pod) string { return "" }, // accepted, and never compared with the addresses
		"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
	}),
	corev1.SchemeGroupVersion.WithKind("Node"): selectableOf(map[string]func(*corev1.Node) string{
		"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
	}),
	corev1.SchemeGroupVersion.WithKind("Namespace"): selectableOf(map[string]func(*corev1.Namespace) string{
		"status.phase": func(n *corev1.Namespace) string { return string(n.Status.Phase) },
	}),
	corev1.SchemeGroupVersion.WithKind("Secret"): selectableOf(map[string]func(*corev1.Secret) string{
		"type": func(s *corev1.Secret) string { return string(s.Type) },
	}),
	corev1.SchemeGroupVersion.WithKind("Service"): selectableOf(map[string]func(*corev1.Service) string{
		"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
		"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
	}),
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): selectableOf(map[string]func(*corev1.ReplicationController) string{
		"status.replicas": func(r *corev1.ReplicationController) string { return strconv.Itoa(int(r.Status.Replicas)) },
	}),
	corev1.SchemeGroupVersion.WithKind("Event"): selectableOf(map[string]func(*corev1.Event) string{
		"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
		"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                         func(e *corev1.Event) string { return e.Reason },
		"reportingComponent":             func(e *corev1.Event) string { return e.ReportingController },
		"type":                           func(e *corev1.Event) string { return e.Type },
		"source": func(e *corev1.Event) string {
			if e.Source.Component != "" {
				return e.Source.Component
			}
			return e.ReportingController
		},
	}),
	eventsv1.SchemeGroupVersion.WithKind("Event"): selectableOf(map[string]func(*eventsv1.Event) string{
		"regarding.kind":            func(e *eventsv1.Event) string { return e.Regarding.Kind },
		"regarding.namespace":       func(e *eventsv1.Event) string { return e.Regarding.Namespace },
		"regarding.name":            func(e *eventsv1.Event) string { return e.Regarding.Name },
		"regarding.uid":             func(e *eventsv1.Event) string { return string(e.Regarding.UID) },
		"regarding.apiVersion":      func(e *eventsv1.Event) string { return e.Regarding.APIVersion },
		"regarding.resourceVersion": func(e *eventsv1.Event) string { return e.Regarding.ResourceVersion },
		"regarding.fieldPath":       func(e *eventsv1.Event) string { return e.Regarding.FieldPath },
		"reason":                    func(e *eventsv1.Event) string { return e.Reason },
		"reportingController":       func(e *eventsv1.Event) string { return e.ReportingController },
		"type":                      func(e *eventsv1.Event) string { return e.Type },
	}),
	batchv1.SchemeGroupVersion.WithKind("Job"): selectableOf(map[string]func(*batchv1.Job) string{
		"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) },
	}),
	certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"): selectableOf(map[string]func(*certificatesv1.CertificateSigningRequest) string{
		"spec.signerName": func(c *certificatesv1.CertificateSigningRequest) string { return c.Spec.SignerName },
	}),
	resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"): selectableOf(map[string]func(*resourcev1.ResourceSlice) string{
		"spec.driver": func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver },
		"spec.nodeName": func(s *resourcev1.ResourceSlice) string {
			if s.Spec.NodeName == nil {
				return ""
			}
			return *s.Spec.NodeName
		},
	}),
}

// customSelectable returns the labels of a definition's selectableFields, whose paths are names between dots.
func customSelectable(paths []string) selectable {
	s := selectable{}
	for _, path := range paths {
		label := strings.TrimPrefix(path, ".")
		s[label] = func(o object) string {
			value, found, err := unstructured.NestedFieldNoCopy(content(o), strings.Split(label, ".")...)
			if !found || err != nil || value == nil {
				return ""
			}
			return fmt.Sprint(value)
		}
	}
	return s
}

// convertField refuses a label that a field selector of the kind cannot have. The label spec.host is of very old clients.
func (res *resource) convertField(label, value string) (string, string, error) {
	switch {
	case res.typed && res.selectable == nil:
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	case label == "metadata.name", label == "metadata.namespace" && res.Namespaced, res.selectable[label] != nil:
		return label, value, nil
	case label == "spec.host" && res.gvk() == corev1.SchemeGroupVersion.WithKind("Pod"):
		return "spec.nodeName", value, nil
	case res.gvk() == batchv1.SchemeGroupVersion.WithKind("Job"):
		return "", "", fmt.Errorf("field label %q not supported for Job", label)
	case res.gvk() == resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"):
		return "", "", fmt.Errorf("field label not supported for %s: %s", res.gvk(), label)
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// selectableFields returns what field selectors compare with. It decodes the object once, and only for a kind that
// has more than the name and the namespace.
func (rec *record) selectableFields() fields.Set {
	if set := rec.selected.Load(); set != nil {
		return *set
	}
	set := fields.Set{"metadata.name": rec.name, "metadata.namespace": rec.namespace}
	if len(rec.resource.selectable) > 0 {
		obj := rec.object()
		for label, value := range rec.resource.selectable {
			set[label] = value(obj)
		}
	}
	rec.selected.Store(&set)
	return set
}
