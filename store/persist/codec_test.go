package persist

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/kubereflector/kubereflector/store"
)

// noted is a ConfigMap and something that its methods know nothing of.
type noted struct {
	corev1.ConfigMap `json:",inline"`
	Note             string `json:"note"`
}

func TestWhatIsBesideAnEmbeddedTypeIsKept(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*noted], Options[*noted]{})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*noted{{*configMap("a", 1), "more"}}, "9"))
	require.NoError(t, s.Close())
	s, err = Open(path, store.ObjectKey[*noted], Options[*noted]{})
	require.NoError(t, err)
	defer s.Close()
	for _, found := range s.All() {
		assert.Equal(t, "more", found.Note)
	}
	assert.Equal(t, 1, s.Len())
	_, ok := Protobuf[*corev1.ConfigMap]()
	assert.True(t, ok)
}

func TestTypesOfOneNameAreNotTakenForEachOther(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*corev1.Event], Options[*corev1.Event]{Resource: "events"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	refused(t, path, Options[*eventsv1.Event]{Resource: "events"}, ErrMismatch)
}
