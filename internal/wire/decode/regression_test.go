package decode

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dashed has a tag that encoding/json takes for a name, and the library for a mistake.
type dashed struct {
	metav1.ObjectMeta `json:"metadata"`
	//lint:ignore SA5008 the tag is what is tested
	Dash string `json:"-,"`
}

func TestTagsThatTheLibraryRefusesDoNotTurnSharingOff(t *testing.T) {
	d := decoderOf[*dashed](t)
	var last *dashed
	for range 3 {
		object, err := decodes(t, d, wire.JSON, []byte(`{"metadata":{"name":"a","ownerReferences":[{"uid":"u"}]},"-":"x"}`))
		require.NoError(t, err)
		assert.Equal(t, "a x", object.Name+" "+object.Dash)
		last = object
	}
	again, err := decodes(t, d, wire.JSON, []byte(`{"metadata":{"name":"b","ownerReferences":[{"uid":"u"}]},"-":"\u0079"}`))
	require.NoError(t, err)
	assert.Equal(t, "b y", again.Name+" "+again.Dash)
	assert.Same(t, &last.OwnerReferences[0], &again.OwnerReferences[0])
}
