package persist

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store/storetest"
)

// Each byte is changed, in the process of the test: a fault that bbolt runs into would end it.
func TestNoDamagedByteEndsTheProcess(t *testing.T) {
	path, content, want := smallPages(t)
	others := []byte{0x41, 0x01, 0x80, 0x10}
	found := 0
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	for at, good := range content {
		patterns := []byte{0xff, others[at%len(others)]}
		if raceEnabled {
			patterns = patterns[1:]
		}
		for _, pattern := range patterns {
			_, err := f.WriteAt([]byte{good ^ pattern}, int64(at))
			require.NoError(t, err)
			s, err := tryOpen(path)
			if err != nil {
				found++
				require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrForeign), "byte %d, %#x: %v", at, pattern, err)
				continue
			}
			require.Equal(t, want, contentsOf(s), "byte %d, %#x", at, pattern)
			require.NoError(t, s.Close())
		}
		_, err := f.WriteAt([]byte{good}, int64(at))
		require.NoError(t, err)
	}
	assert.Greater(t, found, 1000)
	assert.Equal(t, want, reopen(t, path))
}

func TestRefusedFileIsLetGo(t *testing.T) {
	path, content, want := smallPages(t)
	for at := range content {
		if at%512 > 48 || at%5 != 0 {
			continue
		}
		damaged := append([]byte(nil), content...)
		damaged[at] ^= 0xff
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		s, err := tryOpen(path)
		if err == nil {
			require.NoError(t, s.Close())
			continue
		}
		require.LessOrEqual(t, descriptors(t, path), 0, "byte %d: %v", at, err)
		require.Equal(t, damaged, contentOf(t, path), "byte %d: it was changed", at)
		require.NoError(t, os.WriteFile(path, content, 0o600), "mended in its place")
		require.Equal(t, want, reopen(t, path), "byte %d", at)
	}
}

func TestFlushReportsAFileThatIsNotThereAnyMore(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"deleted":  func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"replaced": func(t *testing.T, path string) { require.NoError(t, os.Rename(path+".other", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t)
			require.NoError(t, os.WriteFile(path+".other", []byte("x"), 0o600))
			s, err := tryOpen(path)
			require.NoError(t, err)
			require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
			require.NoError(t, s.Flush())
			require.NoError(t, os.Link(path, path+".kept"))
			remove(t, path)
			require.ErrorIs(t, s.Flush(), ErrReplaced, "also if there is nothing to write")
			require.NoError(t, s.Add(storetest.New("n", "b", "2", "10")))
			failure, ok := errors.AsType[*FileError](s.Flush())
			require.True(t, ok)
			assert.Equal(t, path, failure.Path)
			assert.False(t, s.State().Lasting)
			require.ErrorIs(t, s.State().Err, ErrReplaced)
			assert.Equal(t, 1, s.State().Unwritten)
			assert.Equal(t, 2, s.Len(), "the store works")

			require.NoError(t, os.Rename(path+".kept", path))
			require.NoError(t, s.Flush(), "it is back")
			assert.True(t, s.State().Lasting)
			want := contentsOf(s)
			require.NoError(t, os.Remove(path))
			require.ErrorIs(t, s.Close(), ErrReplaced)
			assert.NotEmpty(t, want)
		})
	}
}

func TestFirstListWhoseChunkFailsAtItsVeryEndIsWhole(t *testing.T) {
	path := fresh(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	s.options.chunk = 2
	var all []*object
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, storetest.New("n", name, name, "5"))
	}
	require.NoError(t, s.Replace(all, "9"))
	failAfterCommit(s, 1)
	require.Error(t, s.Flush())
	require.NoError(t, s.Flush())
	want := contentsOf(s)
	require.NoError(t, s.Close())
	assert.Equal(t, want, reopen(t, path))
}

func TestFileThatAnotherWritesBeforeItIsOpenedIsReadAgain(t *testing.T) {
	path, _, _ := smallPages(t)
	var want string
	beforeWriting(t, func() {
		other, err := tryOpen(path)
		require.NoError(t, err)
		require.NoError(t, other.Add(storetest.New("n", "late", "9", "300")))
		want = contentsOf(other)
		require.NoError(t, other.Close())
	})
	assert.Equal(t, want, reopen(t, path))
	assert.Equal(t, want, reopen(t, path))
}

func TestObjectOfAnEarlierTransactionIsFound(t *testing.T) {
	path := fresh(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	a := storetest.New("n", "a", "1", "5")
	require.NoError(t, s.Replace([]*object{a}, "9"))
	require.NoError(t, s.Update(a.At("10")))
	require.NoError(t, s.Close())
	reopen(t, path)
	rewind(t, path, a)
	refused(t, path, asked, ErrDamaged)
}

func TestNameOfANewFileIsMadeToLast(t *testing.T) {
	path, names := fresh(t), syncs(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.Contains(t, *names, filepath.Dir(path))
}
