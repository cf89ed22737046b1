package decode

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exactly returns hooks for slices of large elements that are common in Kubernetes' own objects.
// The library grows a slice from 1 to 2 to 4 elements. For a pod, a fifth of the allocated memory
// was garbage of this growth, and the spare capacity of the last slice stays.
func exactly(s *shape, d *jsonDecoder) (hooks []*json.Unmarshalers) {
	for _, slice := range []interface {
		hook(*shape, *jsonDecoder) (*json.Unmarshalers, bool)
	}{
		exact[corev1.Container]{}, exact[corev1.ContainerStatus]{}, exact[corev1.PodCondition]{},
		exact[corev1.Volume]{}, exact[corev1.VolumeMount]{}, exact[corev1.VolumeProjection]{},
		exact[corev1.EnvVar]{}, exact[corev1.ContainerPort]{}, exact[corev1.Toleration]{},
		exact[metav1.ManagedFieldsEntry]{}, exact[metav1.Condition]{},
	} {
		if hook, ok := slice.hook(s, d); ok {
			hooks = append(hooks, hook)
		}
	}
	return hooks
}

// exact decodes slices of X in reused memory, and copies the elements to a slice of the exact size.
type exact[X any] struct{}

// mostSpare is the largest number of elements in the reused memory.
const mostSpare = 64

func (exact[X]) hook(s *shape, d *jsonDecoder) (*json.Unmarshalers, bool) {
	if !s.has(reflect.TypeFor[[]X]()) {
		return nil, false
	}
	var spare []X   // its elements are zero
	var within bool // the library calls the hook for its own value, or for a slice inside
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *[]X) error {
		if within || *into != nil {
			return errors.ErrUnsupported
		}
		if spare == nil {
			spare = make([]X, 4)
		}
		within = true
		*into, d.bypass = spare[:0], into
		err := json.UnmarshalDecode(dec, into)
		within, d.bypass = false, nil
		if err != nil {
			spare = nil
			return err
		}
		came := *into
		if len(came) == 0 {
			return nil
		}
		*into = append(make([]X, 0, len(came)), came...)
		if cap(came) > mostSpare {
			spare = nil
			return nil
		}
		clear(came)
		spare = came[:0]
		return nil
	}), true
}
