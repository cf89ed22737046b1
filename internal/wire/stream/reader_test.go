package stream

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
