package decode

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Option configures a [Codec].
type Option struct{ apply func(*settings) }

type settings struct {
	shares            map[reflect.Type]bool
	skipManagedFields bool
	reportUnknown     func(error)
}

// defaults returns the types that repeat most in Kubernetes' own objects.
func defaults() settings {
	s := settings{shares: map[reflect.Type]bool{}}
	for _, share := range []Option{
		Share[map[string]string](),
		Share[map[string]any](),
		Share[[]string](),
		Share[[]metav1.OwnerReference](),
		Share[*metav1.FieldsV1](),
		Share[*metav1.LabelSelector](),
		Share[corev1.ResourceRequirements](),
		Share[corev1.ResourceList](),
		Share[[]corev1.EnvVar](),
		Share[[]corev1.EnvFromSource](),
		Share[[]corev1.ContainerPort](),
		Share[[]corev1.VolumeMount](),
		Share[[]corev1.Toleration](),
		Share[[]corev1.TopologySpreadConstraint](),
		Share[[]corev1.LocalObjectReference](),
		Share[*corev1.Probe](),
		Share[*corev1.Lifecycle](),
		Share[*corev1.SecurityContext](),
		Share[*corev1.PodSecurityContext](),
		Share[*corev1.Affinity](),
		Share[*corev1.ProjectedVolumeSource](),
	} {
		share.apply(&s)
	}
	return s
}

// Share makes objects share values of type X, in addition to the default types. X must be the exact
// type of a struct's field or of the elements of a slice, a map or a pointer. map[string]any makes
// objects share the objects and arrays inside of any.
func Share[X any]() Option {
	return Option{func(s *settings) { s.shares[reflect.TypeFor[X]()] = true }}
}

// WithoutSharing turns all sharing off; a later [Share] turns it on for one type.
func WithoutSharing() Option {
	return Option{func(s *settings) { clear(s.shares) }}
}

// SkipManagedFields leaves metadata.managedFields empty, and does not decode it.
func SkipManagedFields() Option {
	return Option{func(s *settings) { s.skipManagedFields = true }}
}

// ReportUnknown sets a function that is called for each JSON object with a member that T has no
// field for. The error names the first such member. The decoding goroutine calls report, and still
// decodes the object. JSON is then decoded without sharing, and such an object twice.
func ReportUnknown(report func(error)) Option {
	return Option{func(s *settings) { s.reportUnknown = report }}
}
