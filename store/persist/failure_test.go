package persist

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// The last thing that bbolt does is to make the file last. When that fails, what was
// written is there nevertheless.
func TestTransactionThatFailedAtItsVeryEndIsCountedOnce(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	a, b := storetest.New("n", "a", "1", "5"), storetest.New("n", "b", "1", "6")
	require.NoError(t, s.Replace([]*object{a}, "9"))
	require.NoError(t, s.Flush())
	failAfterCommit(s, 1)
	require.NoError(t, s.Add(b.At("10")))
	require.ErrorContains(t, s.Flush(), "no fsync")
	assert.False(t, s.State().Lasting)
	require.NoError(t, s.Delete(b.At("11")))
	require.NoError(t, s.Flush())
	assert.True(t, s.State().Lasting)
	want := held(s)
	require.NoError(t, s.Close())
	next := open(t, path)
	assert.Equal(t, want, held(next), "b is not there any more")
	assert.Equal(t, "11", next.ResourceVersion())
}

// A second transaction makes last what the first one wrote, also if nothing else comes.
func TestTransactionThatFailedAtItsVeryEndIsMadeToLast(t *testing.T) {
	s := open(t, fresh(t))
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	failAfterCommit(s, 1)
	require.Error(t, s.Flush())
	require.NoError(t, s.Flush())
	assert.True(t, s.State().Lasting)
	assert.Equal(t, uint64(2), s.saved.Transaction)
}

// ending ends the goroutine while it is switched on, as tests do that fail.
type ending struct {
	Codec[*object]
	now *bool
}

func (e ending) Encode(o *object) ([]byte, error) {
	if *e.now {
		runtime.Goexit()
	}
	return e.Codec.Encode(o)
}

func TestCodecThatEndsTheGoroutineLosesNothing(t *testing.T) {
	path, now := fresh(t), true
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{Codec: ending{JSON[*object](), &now}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Flush()
	}()
	<-ended
	assert.False(t, s.State().Lasting)
	now = false
	require.NoError(t, s.Bookmark("10"))
	require.NoError(t, s.Close())
	assert.Len(t, held(open(t, path)), 1)
}

func TestErrorHookMayCloseTheStore(t *testing.T) {
	var s *Store[*object]
	called := 0
	s, err := Open(fresh(t), store.ObjectKey[*object], Options[*object]{Codec: failing{}, ErrorHook: func(error) {
		called++
		assert.Error(t, s.Close())
	}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.ErrorContains(t, s.Flush(), "no way")
	assert.Equal(t, 1, called)
	require.ErrorIs(t, s.Flush(), ErrClosed)
}
