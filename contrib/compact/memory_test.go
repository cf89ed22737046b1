package compact_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"weak"

	"github.com/kubereflector/kubereflector/contrib/compact"
	"github.com/kubereflector/kubereflector/internal/memsize"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
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

// A list is packed as it comes: of the objects themselves there are no more at any time than
// the store keeps decoded.
func TestListIsPackedAsItComes(t *testing.T) {
	for _, limit := range []int{0, 8} {
		s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
		var asked *corev1.Pod
		byNode, err := store.AddIndex(s.Cache(), "node", compact.By(func(p *corev1.Pod) []string {
			asked = p
			return []string{p.Spec.NodeName}
		}))
		require.NoError(t, err)
		batch, own := decorate.BeginList(s)
		require.True(t, own)
		var whole []weak.Pointer[corev1.Pod]
		for n := range 100 {
			p := pod(fmt.Sprint(n))
			p.Spec.NodeName = "x"
			require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: p}))
			require.Same(t, p, asked, "it is not decoded for the index")
			whole = append(whole, weak.Make(p))
		}
		asked = nil
		runtime.GC()
		live := 0
		for _, p := range whole {
			if p.Value() != nil {
				live++
			}
		}
		assert.LessOrEqual(t, live, limit)
		require.NoError(t, batch.Commit("200"))
		assert.Nil(t, asked, "nor asked again")
		assert.Equal(t, 100, s.Len())
		n := 0
		for range byNode.Get("x") {
			n++
		}
		assert.Equal(t, 100, n)
	}
}

func TestListDrivesOutNoMoreThanHalfOfWhatWasRead(t *testing.T) {
	const limit = 16
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
	for n := range limit {
		require.NoError(t, s.Add(pod(fmt.Sprint(n))))
	}
	read := map[store.Key]*corev1.Pod{}
	for key := range s.All() {
		read[key], _ = s.Get(key)
	}
	batch, _ := decorate.BeginList(s)
	for n := range 100 {
		p := pod(fmt.Sprint(n)) // of which the first are as they were
		require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: p}))
	}
	require.NoError(t, batch.Commit("200"))
	decoded := 0
	for key, p := range s.All() { // which keeps nothing decoded
		if p == read[key] {
			decoded++
		}
	}
	assert.Equal(t, limit/2, decoded)
}

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

func TestAnyNumberMayStayDecoded(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(math.MaxInt))
	all := pods(20)
	require.NoError(t, s.Replace(all[:10], "1"))
	for _, p := range all[10:] {
		require.NoError(t, s.Add(p))
	}
	for _, p := range all {
		assert.Same(t, p, get(t, s, p))
	}
}
