package compact_test

import (
	"runtime"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func get(t *testing.T, s *compact.Store[*corev1.Pod], of *corev1.Pod) *corev1.Pod {
	t.Helper()
	got, ok := s.Get(store.Key{Namespace: of.Namespace, Name: of.Name})
	require.True(t, ok)
	return got
}

func TestWhatWasReadLatelyIsTheSamePointer(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(4))
	all := pods(20)
	require.NoError(t, s.Replace(all, "300"))
	first := get(t, s, all[0])
	assert.Same(t, first, get(t, s, all[0]))
	for _, other := range all[1:12] {
		get(t, s, other)
		assert.Same(t, first, get(t, s, all[0]), "what is used stays")
	}
	for range s.All() {
	}
	assert.Same(t, first, get(t, s, all[0]), "a walk drives out nothing")
	for range 2 {
		for _, other := range all[1:] {
			get(t, s, other)
		}
	}
	assert.NotSame(t, first, get(t, s, all[0]), "what is not used goes")
	assert.Equal(t, first, get(t, s, all[0]))
}

func TestWithNoneKeptEachReadDecodes(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(0))
	all := pods(1)
	require.NoError(t, s.Add(all[0]))
	assert.NotSame(t, all[0], get(t, s, all[0]))
	assert.NotSame(t, get(t, s, all[0]), get(t, s, all[0]))
}

func TestWhatWasWrittenIsAtHand(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod])
	all := pods(2)
	require.NoError(t, s.Add(all[0]))
	assert.Same(t, all[0], get(t, s, all[0]))
}

// The number of objects that are not freed says how many are kept.
func TestKeptObjectsAreBounded(t *testing.T) {
	const limit = 8
	for name, use := range map[string]func(*compact.Store[*corev1.Pod], []*corev1.Pod){
		"a list": func(s *compact.Store[*corev1.Pod], all []*corev1.Pod) {
			_ = s.Replace(all, "300")
		},
		"writes": func(s *compact.Store[*corev1.Pod], all []*corev1.Pod) {
			for _, p := range all {
				_ = s.Add(p)
			}
		},
		"a packer by itself": func(s *compact.Store[*corev1.Pod], all []*corev1.Pod) {
			for _, p := range all {
				packed, _ := s.Packer().Pack(p)
				_ = s.Cache().Add(packed)
			}
		},
	} {
		s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
		freed := make(chan struct{}, 100)
		func() {
			all := pods(100)
			for _, p := range all {
				runtime.AddCleanup(p, func(int) { freed <- struct{}{} }, 0)
			}
			use(s, all)
		}()
		for cycle := 0; len(freed) < 100-limit && cycle < 50; cycle++ {
			runtime.GC()
			runtime.Gosched()
		}
		assert.GreaterOrEqual(t, len(freed), 100-limit, name)
		assert.Equal(t, 100, s.Len(), name)
		for key, p := range s.All() {
			assert.Equal(t, key.Name, p.Name, name)
		}
	}
}
