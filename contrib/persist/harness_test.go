package persist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

// raceEnabled is true under the race detector. Long tests do less work then.
var raceEnabled bool

// smallPages makes a file whose pages have 512 bytes, with a tree of two levels and free pages, and
// returns its content and a description of its objects.
func smallPages(t *testing.T) (path string, content []byte, want string) {
	t.Helper()
	path = shape{pageSize: 512}.make(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	var all []*object
	for n := range 12 {
		all = append(all, storetest.New("n", fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(100+n)))
	}
	require.NoError(t, s.Replace(all, "200"))
	require.NoError(t, s.Flush())
	require.NoError(t, s.Delete(all[3].At("201")))
	want = contentsOf(s)
	require.NoError(t, s.Close())
	content = contentOf(t, path)
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	var used int64 // the rest is room for more
	require.NoError(t, db.View(func(tx *bolt.Tx) error { used = tx.Size(); return nil }))
	require.NoError(t, db.Close())
	require.NoError(t, os.WriteFile(path, content[:used], 0o600))
	return path, content[:used], want
}

func tryOpen(path string) (*Store[*object], error) {
	return Open(path, store.ObjectKey[*object], asked)
}

// commit makes one batch of some writes.
func commit(to store.Store[*object], replace bool, version string, writes ...store.Write[*object]) error {
	begin := decorate.BeginWatch[*object]
	if replace {
		begin = decorate.BeginList[*object]
	}
	b, _ := begin(to)
	for _, w := range writes {
		_ = b.Write(w) // Commit returns the error
	}
	return b.Commit(version)
}

// contentsOf describes what a store holds.
func contentsOf(s *Store[*object]) string { return fmt.Sprint(held(s), s.ResourceVersion()) }

// reopen opens a file that must be good, describes its content, and closes it.
func reopen(t *testing.T, path string) string {
	t.Helper()
	s, err := tryOpen(path)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	return contentsOf(s)
}

// descriptors counts what the process has open or mapped of a file; -1 where that is not known.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return -1
	}
	n = strings.Count(string(maps), path)
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range all {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(target, path) {
			n++
		}
	}
	return n
}

// failAfterCommit makes the transaction of a number, from 1, report a failure after it was made.
func failAfterCommit(s *Store[*object], number int) {
	s.update = func(f func(*bolt.Tx) error) error {
		err := s.file.Update(f)
		if number--; number == 0 {
			return errors.Join(err, errors.New("no fsync"))
		}
		return err
	}
}

// beforeWriting calls a function before the next store opens a file to write it.
func beforeWriting(t *testing.T, f func()) {
	t.Helper()
	openFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		if flag&os.O_RDWR != 0 {
			openFile = os.OpenFile
			f()
		}
		return os.OpenFile(name, flag, mode)
	}
	t.Cleanup(func() { openFile = os.OpenFile })
}

// syncs notes the names of the files and folders that are synced, until the test ends.
func syncs(t *testing.T) (names *[]string) {
	t.Helper()
	names = new([]string)
	syncFile = func(f *os.File) error {
		*names = append(*names, f.Name())
		return f.Sync()
	}
	t.Cleanup(func() { syncFile = (*os.File).Sync })
	return names
}

// rewind writes an older state of an object into a file, as a disk does that loses a write.
func rewind(t *testing.T, path string, older *object) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		o, err := asked.withDefaults()
		if err != nil {
			return err
		}
		encoded, err := o.Codec.Encode(older)
		name := keyBytes(store.Key{Namespace: older.Namespace, Name: older.Name})
		return errors.Join(err, tx.Bucket(objectsBucket).Put(name, seal(name, content(store.VersionOf(older), encoded))))
	}))
	require.NoError(t, db.Close())
}

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(live(path))
	}
	goleak.VerifyTestMain(m)
}
