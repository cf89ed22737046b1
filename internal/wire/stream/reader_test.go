package stream

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestDecodersOfAnInitialListAreNotKept(t *testing.T) {
	processors(t, 4)
	r := configMapReader(t)
	r.Pool.keepAll()
	var all []*decoder[*corev1.ConfigMap]
	for range 6 {
		all = append(all, r.get())
	}
	for _, d := range all {
		r.put(d)
	}
	assert.Len(t, r.Pool.spare, 4, "one for each processor")
	r.Pool.keepFew()
	assert.Equal(t, all[2:4], r.Pool.spare, "those that were used last")
	r.put(all[5])
	assert.Len(t, r.Pool.spare, 2)
}

// A client may only read single objects, and never list.
func TestDecoderOfOneObjectIsKept(t *testing.T) {
	r := configMapReader(t)
	open, made := r.NewDecoder, 0
	r.NewDecoder = func(report func(error)) *decode.Decoder[*corev1.ConfigMap] {
		made++
		return open(report)
	}
	for range 3 {
		_, _, err := r.Object(&Response{ContentType: "application/json", Body: text(configMap(1, 1))})
		require.NoError(t, err)
	}
	assert.Equal(t, 1, made)
}
