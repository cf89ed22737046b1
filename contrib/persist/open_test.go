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
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	corev1 "k8s.io/api/core/v1"
)

var asked = Options[*object]{Resource: "objects", Cluster: "one"}

// written returns the path of a file with some objects, and the file.
func written(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = fresh(t)
	s, err := Open(path, store.ObjectKey[*object], asked)
	require.NoError(t, err)
	var all []*object
	for n := range 200 {
		all = append(all, storetest.New("n", fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(n)).At(fmt.Sprint(1000+n)))
	}
	require.NoError(t, s.Replace(all, "2000"))
	require.NoError(t, s.Flush())
	for n := range 40 {
		require.NoError(t, s.Delete(all[n]))
	}
	require.NoError(t, s.Close())
	return path, contentOf(t, path)
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// refused requires that a file is not opened, why, and that it stays as it is.
func refused[T interface {
	GetName() string
	GetNamespace() string
}](t *testing.T, path string, o Options[T], cause error) {
	t.Helper()
	before := contentOf(t, path)
	s, err := Open(path, store.ObjectKey[T], o)
	if err == nil {
		s.Close()
	}
	failure, ok := errors.AsType[*FileError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, path, failure.Path)
	require.ErrorIs(t, err, cause)
	require.Equal(t, before, contentOf(t, path), "it was changed")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "something was left beside it")
	// A failed attempt has released it.
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 1, ReadOnly: true})
	require.NotErrorIs(t, err, bolterrors.ErrTimeout)
	if err == nil {
		require.NoError(t, db.Close())
	}
}

func TestFilesOfSomethingElseAreRefused(t *testing.T) {
	path, _ := written(t)
	refused(t, path, Options[*object]{Resource: "others", Cluster: "one"}, ErrMismatch)
	refused(t, path, Options[*object]{Resource: "objects", Cluster: "two"}, ErrMismatch)
	refused(t, path, Options[*corev1.Pod]{Resource: "objects", Cluster: "one"}, ErrMismatch)
	refused(t, path, Options[*object]{Resource: "objects", Cluster: "one", Codec: other{JSON[*object]()}}, ErrMismatch)
	_, err := Open(path, store.ObjectKey[*object], Options[*object]{Resource: "objects", Cluster: "two"})
	mismatch, ok := errors.AsType[*MismatchError](err)
	require.True(t, ok)
	assert.Equal(t, MismatchError{What: "cluster", File: "one", Wanted: "two"}, *mismatch)
}

// other is a codec by another name.
type other struct{ Codec[*object] }

func (other) Name() string { return "other" }

func TestForeignFilesAreRefused(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": {}, "short": []byte("x"), "text": make([]byte, 100<<10),
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t)
			require.NoError(t, os.WriteFile(path, content, 0o600))
			if name == "empty" { // bbolt would take it for a new one
				_, err := Open(path, store.ObjectKey[*object], asked)
				require.ErrorIs(t, err, ErrForeign)
				assert.Empty(t, contentOf(t, path))
				return
			}
			refused(t, path, asked, ErrForeign)
		})
	}
	t.Run("of another program with bbolt", func(t *testing.T) {
		path := fresh(t)
		db, err := bolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		refused(t, path, asked, ErrForeign)
	})
	t.Run("directory", func(t *testing.T) {
		_, err := Open(t.TempDir(), store.ObjectKey[*object], asked)
		_, ok := errors.AsType[*FileError](err)
		assert.True(t, ok, "%v", err)
	})
}

func TestFilesOfANewerFormatAreRefused(t *testing.T) {
	path, _ := written(t)
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return put(tx.Bucket(metaBucket), headerKey, map[string]any{"format": format + 1, "type": 5})
	}))
	require.NoError(t, db.Close())
	refused(t, path, asked, ErrNewer)
}

func TestTruncatedFilesAreRefused(t *testing.T) {
	path, content := written(t)
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	var used int // the rest is room for more
	require.NoError(t, db.View(func(tx *bolt.Tx) error { used = int(tx.Size()); return nil }))
	require.NoError(t, db.Close())
	for _, length := range []int{used - 1, used / 2, 4 * 4096, 8192 + 100} {
		require.NoError(t, os.WriteFile(path, content[:length], 0o600))
		refused(t, path, asked, ErrDamaged)
	}
}

// A page that is in use and said to be free would be written over.
func TestFilesWhoseFreePagesAreInUseAreRefused(t *testing.T) {
	path, content := written(t)
	number := binary.LittleEndian.Uint64
	page := func(id uint64) []byte { return content[id*uint64(os.Getpagesize()):] }
	const (
		head = 16 // of a page: id, flags, count, overflow
		leaf = 2
	)
	meta := page(0)[head:]
	if other := page(1)[head:]; number(other[48:]) > number(meta[48:]) { // the transaction
		meta = other
	}
	list := page(number(meta[32:]))
	free := map[uint64]bool{}
	for n := range binary.LittleEndian.Uint16(list[10:]) {
		free[number(list[head+8*int(n):])] = true
	}
	require.NotEmpty(t, free)
	var used uint64
	for id := uint64(2); id < number(meta[40:]); id++ {
		if !free[id] && number(page(id)) == id && binary.LittleEndian.Uint16(page(id)[8:]) == leaf {
			used = id
		}
	}
	require.NotZero(t, used)
	binary.LittleEndian.PutUint64(list[head:], used)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	refused(t, path, asked, ErrDamaged)
}

func TestFileThatIsInUseIsRefusedAtOnce(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	_, err := Open(path, storetest.ClusterKey, Options[*object]{})
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, s.Close())
	open(t, path)
}

// none is a codec that writes nothing.
type none[T any] struct{}

func (none[T]) Name() string                 { return "none" }
func (none[T]) Encode(T) ([]byte, error)     { return nil, nil }
func (none[T]) Decode([]byte) (o T, _ error) { return o, errors.New("nothing was written") }

func TestObjectsThatCannotBeDecodedAreRefused(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{Codec: none[*object]{}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, s.Close())
	refused(t, path, Options[*object]{Codec: none[*object]{}}, ErrUndecodable)
}

// loud panics with a long text.
type loud struct{ none[*object] }

func (loud) Encode(*object) ([]byte, error) { panic(strings.Repeat("a", 100_000)) }
func (loud) Decode([]byte) (*object, error) { panic(strings.Repeat("a", 100_000)) }

func TestTextOfAPanicOfACodecIsBoundedAndQuotesNothing(t *testing.T) {
	path := fresh(t)
	bounded := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, store.ErrPanic)
		assert.Less(t, len(err.Error()), 1024)
		assert.NotContains(t, err.Error(), "aaa")
		assert.ErrorContains(t, err, "(open_test.go:")
	}
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{Codec: loud{}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	bounded(s.Close())

	path = fresh(t)
	s, err = Open(path, store.ObjectKey[*object], Options[*object]{Codec: none[*object]{}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, s.Close())
	_, err = Open(path, store.ObjectKey[*object], Options[*object]{Codec: loud{}})
	require.ErrorIs(t, err, ErrUndecodable)
	bounded(err)
}

func TestKeysWithoutAPlaceAreRejected(t *testing.T) {
	s := open(t, fresh(t))
	require.ErrorIs(t, s.Add(storetest.New("n", string(make([]byte, MaxKeyLength)), "1", "5")), ErrKeyTooLong)
	assert.Zero(t, s.Len())
}

// vanishing shortens the file when the first object is decoded, as a disk does that fails
// after the checksums were compared.
type vanishing struct {
	Codec[*object]
	path string
}

func (v vanishing) Decode(data []byte) (*object, error) {
	if err := os.Truncate(v.path, 0); err != nil {
		return nil, err
	}
	return v.Codec.Decode(data)
}

func TestFileThatCannotBeReadAnyMoreIsRefused(t *testing.T) {
	path, _ := written(t)
	o := asked
	o.Codec = vanishing{JSON[*object](), path}
	_, err := Open(path, store.ObjectKey[*object], o)
	require.ErrorIs(t, err, ErrDamaged)
	_, ok := errors.AsType[*FileError](err)
	assert.True(t, ok)
}

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

// reading opens a file only for reading.
func reading(t *testing.T, path string) (end func()) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 1, ReadOnly: true})
	require.NoError(t, err)
	end = sync.OnceFunc(func() { assert.NoError(t, db.Close()) })
	t.Cleanup(end)
	return end
}

// One that reads the file and then refuses it must not keep out one that takes it.
func TestFileThatOthersReadIsWaitedFor(t *testing.T) {
	path, _ := written(t)
	synctest.Test(t, func(t *testing.T) {
		end := reading(t, path)
		opened := make(chan error, 1)
		go func() {
			s, err := Open(path, storetest.ClusterKey, asked)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		synctest.Wait()
		select {
		case err := <-opened:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		end()
		require.NoError(t, <-opened)
	})
}

func TestFileThatOthersGoOnReadingIsGivenUp(t *testing.T) {
	path, _ := written(t)
	synctest.Test(t, func(t *testing.T) {
		defer reading(t, path)()
		begin := time.Now()
		_, err := Open(path, storetest.ClusterKey, asked)
		require.ErrorIs(t, err, ErrLocked)
		assert.LessOrEqual(t, time.Since(begin), patience)
	})
}

func TestOneOfThoseThatOpenAFileAtOnceHasIt(t *testing.T) {
	for round := range 20 {
		path := fresh(t)
		var mu sync.Mutex
		var won []*Store[*object]
		var group sync.WaitGroup
		for n := range 6 {
			group.Go(func() {
				o := Options[*object]{Resource: "a"}
				if n >= 2 && round%2 == 1 {
					o.Resource = fmt.Sprint("b", n)
				}
				s, err := Open(path, storetest.ClusterKey, o)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, s)
				}
			})
		}
		group.Wait()
		require.Len(t, won, 1)
		require.NoError(t, won[0].Close())
	}
}

func TestOpenWithoutAKeyFuncPanicsBeforeItOpens(t *testing.T) {
	path := fresh(t)
	for range 2 {
		require.PanicsWithValue(t, "persist: Open needs a KeyFunc, such as store.ObjectKey", func() {
			_, _ = Open(path, nil, Options[*object]{})
		})
	}
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
