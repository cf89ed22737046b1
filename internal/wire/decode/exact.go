package decode

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exactly returns hooks for the slices of large elements that are in most of Kubernetes' own
// objects. The library lets a slice grow from 1 to 2 to 4 elements as they come: of what a pod
// allocated, a fifth was left behind like this, and what is over at the end stays.
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

// exact decodes slices of X in memory that is used again and again, and copies what came to
// memory of its size.
type exact[X any] struct{}

// mostSpare is how many elements are kept for the next slice.
const mostSpare = 64

func (exact[X]) hook(s *shape, d *jsonDecoder) (*json.Unmarshalers, bool) {
	if !s.has(reflect.TypeFor[[]X]()) {
		return nil, false
	}
	var spare []X   // its elements are zero
	var within bool // the hook is asked for what it decodes itself, or for a slice inside
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
