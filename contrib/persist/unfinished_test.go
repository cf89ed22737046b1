package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

func TestFilesThatKilledProcessesDidNotFinishAreRemoved(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, path string){
		"before the first byte": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		},
		"in the first write": func(t *testing.T, path string) {
			whole := filepath.Join(t.TempDir(), "whole")
			require.NoError(t, create(whole, header{}))
			require.NoError(t, os.WriteFile(path, contentOf(t, whole)[:os.Getpagesize()], 0o600))
		},
		"before the first transaction": func(t *testing.T, path string) {
			db, err := bolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Close())
		},
		"before it has its name": func(t *testing.T, path string) { require.NoError(t, create(path, header{})) },
		"when it has both names": func(t *testing.T, path string) {
			other, _, _ := strings.Cut(path, unfinished)
			s, err := tryOpen(other)
			require.NoError(t, err)
			require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
			require.NoError(t, s.Close())
			require.NoError(t, os.Link(other, path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t)
			leave(t, path+unfinished+"4711")
			want := reopen(t, path)
			assert.Equal(t, []string{filepath.Base(path)}, namesBeside(t, path))
			assert.Equal(t, want, reopen(t, path))
		})
	}
}

func TestOtherFilesOfSuchNamesStay(t *testing.T) {
	path := fresh(t)
	own, err := tryOpen(path + unfinished + "1")
	require.NoError(t, err)
	require.NoError(t, own.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, own.Close())
	making, err := bolt.Open(path+unfinished+"2", 0o600, nil) // by another process, at this time
	require.NoError(t, err)
	defer making.Close()
	require.NoError(t, os.WriteFile(path+unfinished+"3", []byte(strings.Repeat("text", 10)), 0o600))
	require.NoError(t, os.WriteFile(path+unfinished+"draft", nil, 0o600))
	require.NoError(t, os.Mkdir(path+unfinished+"4", 0o700))
	reopen(t, path)
	assert.Len(t, namesBeside(t, path), 6)
}

func namesBeside(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestFileThatAnotherProcessRemovedTooEarlyIsMadeAgain(t *testing.T) {
	path, removed := fresh(t), 0
	openFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		if strings.Contains(name, unfinished) {
			if removed++; removed <= 3 {
				require.NoError(t, os.Remove(name))
			}
		}
		return os.OpenFile(name, flag, mode)
	}
	t.Cleanup(func() { openFile = os.OpenFile })
	reopen(t, path)
	assert.Equal(t, 4, removed)
}

// Each of those that open a file at once removes what is unfinished, also the files of the others.
func TestThoseThatOpenAtOnceDoNotHinderEachOther(t *testing.T) {
	path := fresh(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			s, err := tryOpen(path)
			if !errors.Is(err, ErrLocked) && assert.NoError(t, err) {
				assert.NoError(t, s.Close())
			}
		})
	}
	group.Wait()
	reopen(t, path)
	assert.Equal(t, []string{filepath.Base(path)}, namesBeside(t, path))
}

// TestDamagedMetaPageServesTheTransactionBefore is about persist-P4.
func TestDamagedMetaPageServesTheTransactionBefore(t *testing.T) {
	path := fresh(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	a := storetest.New("n", "a", "1", "5")
	require.NoError(t, s.Replace([]*object{a}, "9"))
	require.NoError(t, s.Flush())
	before := contentsOf(s)
	require.NoError(t, s.Update(a.At("10")))
	require.NoError(t, s.Add(storetest.New("n", "b", "2", "11")))
	last := contentsOf(s)
	require.NoError(t, s.Close())

	content, size := contentOf(t, path), os.Getpagesize()
	transaction := func(page int) uint64 { return binary.NativeEndian.Uint64(content[page*size+pageHead+48:]) }
	newer := 0
	if transaction(1) > transaction(0) {
		newer = 1
	}
	for page, want := range map[int]string{newer: before, 1 - newer: last} {
		for at := range metaSize {
			damaged := append([]byte{}, content...)
			damaged[page*size+pageHead+at] ^= 0x10
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			require.Equal(t, want, reopen(t, path), fmt.Sprint("byte ", at, " of page ", page))
		}
	}
}
