//go:build newest

package decode

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// Kinds of Kubernetes nest since 0.37: a Workload has templates of groups, which have templates.
func TestDeeplyNestedWorkloadIsRefused(t *testing.T) {
	spec := schemas(1_500_000, "", "\x4a")
	spec = slices.Concat(binary.AppendUvarint([]byte("\x1a"), uint64(len(spec))), spec)
	workload := slices.Concat(binary.AppendUvarint([]byte("\x12"), uint64(len(spec))), spec)
	_, err := decoderOf[*schedulingv1beta1.Workload](t).Decode(wire.Protobuf, workload)
	assert.ErrorIs(t, err, ErrTooDeep)
}
