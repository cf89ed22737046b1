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
	metadataKind      metav1.TypeMeta
}

// defaults returns the types that repeat most in Kubernetes' own objects.
func defaults() settings {
	s := settings{shares: map[reflect.Type]bool{}}
	for _, share := range []Option{
		Intern[map[string]string](),
		Intern[map[string]any](),
		Intern[[]string](),
		Intern[[]metav1.OwnerReference](),
		Intern[*metav1.FieldsV1](),
		Intern[*metav1.LabelSelector](),
		Intern[corev1.ResourceRequirements](),
		Intern[corev1.ResourceList](),
		Intern[[]corev1.EnvVar](),
		Intern[[]corev1.EnvFromSource](),
		Intern[[]corev1.ContainerPort](),
		Intern[[]corev1.VolumeMount](),
		Intern[[]corev1.Toleration](),
		Intern[[]corev1.TopologySpreadConstraint](),
		Intern[[]corev1.LocalObjectReference](),
		Intern[*corev1.Probe](),
		Intern[*corev1.Lifecycle](),
		Intern[*corev1.SecurityContext](),
		Intern[*corev1.PodSecurityContext](),
		Intern[*corev1.Affinity](),
		Intern[*corev1.ProjectedVolumeSource](),
	} {
		share.apply(&s)
	}
	return s
}

// Intern makes objects share values of type X, in addition to the default types. X must be the exact
// type of a struct's field or of the elements of a slice, a map or a pointer. map[string]any makes
// objects share the objects and arrays inside of any.
func Intern[X any]() Option {
	return Option{func(s *settings) { s.shares[reflect.TypeFor[X]()] = true }}
}

// WithoutInterning turns all sharing off; a later [Intern] turns it on for one type.
func WithoutInterning() Option {
	return Option{func(s *settings) { clear(s.shares) }}
}

// SkipManagedFields leaves metadata.managedFields empty, and does not decode it.
func SkipManagedFields() Option {
	return Option{func(s *settings) { s.skipManagedFields = true }}
}

// MetadataKind sets the kind of a PartialObjectMetadata that states none or its own: the server
// converts objects of each kind to that type.
func MetadataKind(kind metav1.TypeMeta) Option {
	return Option{func(s *settings) { s.metadataKind = kind }}
}

// ReportUnknown sets a function that is called for each JSON object with a member that T has no
// field for. The error names the first such member. The decoding goroutine calls report, and still
// decodes the object. JSON is then decoded without sharing, and most such objects twice.
func ReportUnknown(report func(error)) Option {
	return Option{func(s *settings) { s.reportUnknown = report }}
}
