package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

type secretMetadata[K any] struct{ *metav1.PartialObjectMetadata }

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

func TestSecretsAreRefused(t *testing.T) {
	path := fresh(t)
	_, err := Open(path, store.ObjectKey[*corev1.Secret], Options[*corev1.Secret]{})
	require.ErrorIs(t, err, ErrSecret)
	_, err = Open(path, store.ObjectKey[secretMetadata[corev1.Secret]], Options[secretMetadata[corev1.Secret]]{})
	require.ErrorIs(t, err, ErrSecret)
	_, err = Open(path, store.ObjectKey[*object], Options[*object]{Resource: "v1 secrets in default"})
	require.ErrorIs(t, err, ErrSecret)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is made")

	s, err := Open(path, store.ObjectKey[*corev1.Secret], Options[*corev1.Secret]{AllowSecrets: true})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: "1"}}}, "1"))
	require.NoError(t, s.Close())
	refused(t, path, Options[*corev1.Secret]{}, ErrSecret)
}

func TestSecretsWithoutATypeAreRejectedOneByOne(t *testing.T) {
	thing := func(apiVersion, kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "resourceVersion": "5"},
		}}
	}
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*unstructured.Unstructured], Options[*unstructured.Unstructured]{})
	require.NoError(t, err)
	err = s.Replace([]*unstructured.Unstructured{
		thing("v1", "ConfigMap", "a"), thing("v1", "Secret", "b"), thing("example.com/v1", "Secret", "c"),
	}, "9")
	require.ErrorIs(t, err, ErrSecret)
	assert.Equal(t, 2, s.Len(), "one of another group is no Secret")
	require.NoError(t, s.Close())
	assert.NotContains(t, string(contentOf(t, path)), `"name":"b"`)

	type anyObject interface {
		runtime.Object
		metav1.Object
	}
	mixed, err := Open(fresh(t), func(o anyObject) (store.Key, error) { return store.Key{Name: o.GetName()}, nil }, Options[anyObject]{Codec: none[anyObject]{}})
	require.NoError(t, err)
	defer mixed.Close()
	require.ErrorIs(t, mixed.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b"}}), ErrSecret)
	require.NoError(t, mixed.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	require.ErrorIs(t, mixed.Add(partial), ErrSecret)
}

// none is a codec that writes nothing.
type none[T any] struct{}

func (none[T]) Name() string                 { return "none" }
func (none[T]) Encode(T) ([]byte, error)     { return nil, nil }
func (none[T]) Decode([]byte) (o T, _ error) { return o, errors.New("nothing was written") }

func TestInterfacesNeedACodec(t *testing.T) {
	_, err := Open(fresh(t), func(any) (store.Key, error) { return store.Key{Name: "a"}, nil }, Options[any]{})
	require.ErrorIs(t, err, ErrNoCodec)
}

func TestObjectsThatCannotBeDecodedAreRefused(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{Codec: none[*object]{}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, s.Close())
	refused(t, path, Options[*object]{Codec: none[*object]{}}, ErrUndecodable)
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
