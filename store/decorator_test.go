package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// decorators are one of each, in front of a store, that change nothing.
var decorators = map[string]func(Store[*corev1.Pod]) Store[*corev1.Pod]{
	"Transform": func(dst Store[*corev1.Pod]) Store[*corev1.Pod] {
		return Transform(dst, ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil })
	},
	"Filter": func(dst Store[*corev1.Pod]) Store[*corev1.Pod] {
		return Filter(dst, func(*corev1.Pod) bool { return true })
	},
	"Tee": func(dst Store[*corev1.Pod]) Store[*corev1.Pod] { return Tee(dst) },
}

// shouting embeds a store with batches, and overrides one of its methods.
type shouting struct {
	BatchStore[*corev1.Pod]
	added []string
}

func (s *shouting) Add(p *corev1.Pod) error {
	s.added = append(s.added, p.Name)
	return s.BatchStore.Add(p)
}

func TestDecoratorsAreNotBypassedThroughBatches(t *testing.T) {
	var batch Batch[*corev1.Pod]
	batch.Add(pod("n", "a", "u1", "1"))
	batch.Add(pod("n", "b", "u2", "2"))
	for name, decorate := range decorators {
		t.Run(name+" inside", func(t *testing.T) {
			c := newPods()
			around := &shouting{BatchStore: Batches(decorate(c))}
			require.NoError(t, Batches[*corev1.Pod](around).Apply(&batch))
			assert.Equal(t, []string{"a", "b"}, around.added)
			assert.Equal(t, 2, c.Len())
		})
		t.Run(name+" outside", func(t *testing.T) {
			c := newPods()
			behind := &shouting{BatchStore: c}
			pods := decorate(behind)
			require.NoError(t, pods.Add(pod("n", "c", "u3", "3")))
			require.NoError(t, Batches(pods).Apply(&batch))
			assert.Equal(t, []string{"c", "a", "b"}, behind.added)
			assert.Equal(t, 3, c.Len())
		})
	}
}

func TestDecoratorsPassABatchOnAsOne(t *testing.T) {
	for name, decorate := range decorators {
		c := newPods()
		pods := Batches(decorate(c))
		require.Equal(t, Store[*corev1.Pod](pods), pods.Itself(), name)
		rec := follow(c)
		var batch Batch[*corev1.Pod]
		batch.Add(pod("n", "a", "u1", "1"))
		batch.Update(pod("n", "a", "u1", "2"))
		batch.Add(pod("n", "b", "u2", "3"))
		batch.Delete(pod("n", "a", "u1", "4"))
		batch.Add(pod("n", "c", "u3", "5"))
		batch.DeleteKey(Key{Namespace: "n", Name: "b"})
		batch.Lack(Rejection{Key: Key{Namespace: "n", Name: "d"}, Err: errRefused})
		batch.Append(Write[*corev1.Pod]{Key: Key{Name: "no type"}})
		err := pods.Apply(&batch)
		require.ErrorIs(t, err, errRefused, name)
		require.ErrorIs(t, err, ErrNoWrite, name)
		assert.Len(t, rec.commits, 1, name)
		assert.Empty(t, rec.illegal, name)
		assert.Equal(t, []string{"n/c"}, names(c.All()), name)

		require.NoError(t, pods.ReplaceAll(Listing[*corev1.Pod]{Unchanged: []Key{{Namespace: "n", Name: "c"}}, ResourceVersion: "6"}), name)
		assert.Len(t, rec.commits, 2, name)
		assert.True(t, pods.Holds(Key{Namespace: "n", Name: "c"}, Version{"u3", "5"}), name)
		assert.False(t, pods.Holds(Key{Namespace: "n", Name: "c"}, Version{"u3", "6"}), name)
		assert.Equal(t, "6", pods.ResourceVersion(), name)
	}
}

func TestDecoratorsTellTheKeysOfTheStoreBehind(t *testing.T) {
	for name, decorate := range decorators {
		inner := decorate(newPods())
		pods := Filter(inner, here)
		require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1"))}, "1"))
		var rejected *RejectedError
		require.ErrorAs(t, pods.Update(on("bad", pod("n", "a", "u1", "2"))), &rejected, name)
		assert.Equal(t, Key{Namespace: "n", Name: "a"}, rejected.Rejections[0].Key, name)
	}
}

func TestDecoratorsGoInFrontOfEachOther(t *testing.T) {
	fn := &slimmer{}
	live, second := New(slimKey), New(slimKey)
	_, err := AddIndex(second, "node", func(s *slim) []string {
		if s.name == "poison" {
			panic("ouch")
		}
		return nil
	})
	require.NoError(t, err)
	pods := Filter(Transform(Tee[*slim](live, second), ObjectKey[*corev1.Pod], fn.slim), here)
	both := func(want ...string) {
		t.Helper()
		assert.Equal(t, want, names(live.All()))
		assert.Equal(t, want, names(second.All()))
	}

	require.NoError(t, pods.Replace([]*corev1.Pod{
		on("here", pod("n", "a", "u1", "1")), on("there", pod("n", "b", "u2", "2")), on("here", pod("n", "c", "u3", "3")),
	}, "3"))
	both("n/a", "n/c")
	assert.Equal(t, 2, fn.calls, "what does not pass is not transformed")
	held, _ := second.Get(Key{Namespace: "n", Name: "a"})

	require.NoError(t, pods.Update(on("there", pod("n", "c", "u3", "4"))))
	both("n/a")
	assert.Equal(t, "4", pods.ResourceVersion())

	require.ErrorIs(t, pods.Update(failing(on("here", pod("n", "b", "u2", "5")), "error")), errRefused)
	require.NoError(t, pods.Add(on("here", pod("n", "d", "u4", "6"))))
	both("n/a", "n/d")
	assert.Equal(t, "4", pods.ResourceVersion())
	require.NoError(t, pods.Update(on("there", pod("n", "b", "u2", "7"))))
	assert.Equal(t, "7", pods.ResourceVersion(), "what left the filter is not lacking")

	require.ErrorIs(t, pods.Add(on("here", pod("n", "poison", "u5", "8"))), ErrPanic)
	assert.Equal(t, "8", live.ResourceVersion())
	assert.Equal(t, "7", pods.ResourceVersion(), "one store is behind")

	calls := fn.calls
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1")), on("here", pod("n", "d", "u6", "9"))}, "9"))
	both("n/a", "n/d")
	assert.Equal(t, 1, fn.calls-calls)
	again, _ := second.Get(Key{Namespace: "n", Name: "a"})
	assert.Same(t, held, again)
	assert.True(t, second.Holds(Key{Namespace: "n", Name: "d"}, Version{"u6", "9"}))
	assert.Equal(t, "9", pods.ResourceVersion())
}
