package compact_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/kubereflector/kubereflector/store/memsize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// What packed objects refer to is shared by all, and changes while others read.
func TestBudgetOfPackedObjectsCountsTheirBytes(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod])
	budget, err := store.AddBudget(s.Cache(), 1<<30, nil)
	require.NoError(t, err)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				for key := range s.Cache().All() {
					s.Get(key)
				}
			}
		}
	}()
	for _, p := range pods(700) {
		require.NoError(t, s.Add(p))
	}
	close(stop)
	<-ended
	var bytes int64
	for _, packed := range s.Cache().All() {
		bytes += int64(packed.Size())
	}
	assert.Equal(t, bytes+700*32, budget.Bytes())
	assert.Zero(t, memsize.Of[*compact.Packed[*corev1.Pod]](nil))
}
