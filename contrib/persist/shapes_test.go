package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kubereflector/kubereflector/store/storetest"
)

// shape is a file that another program, or another version of bbolt, may have made.
type shape struct {
	pageSize     int
	list         bolt.FreelistType // in the memory of the process that made the file
	noListOnDisk bool
}

// make makes a file without objects.
func (s shape) make(t *testing.T) (path string) {
	t.Helper()
	path = fresh(t)
	s.update(t, path, func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		_, err = tx.CreateBucket(objectsBucket)
		o, err2 := asked.withDefaults()
		return errors.Join(err, err2, put(meta, headerKey, o.header()), put(meta, stateKey, fileState{}))
	})
	return path
}

// update writes a file as the program that made it.
func (s shape) update(t *testing.T, path string, f func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: s.pageSize, FreelistType: s.list, NoFreelistSync: s.noListOnDisk})
	require.NoError(t, err)
	require.NoError(t, db.Update(f))
	require.NoError(t, db.Close())
}

// world is the intended content of a file.
type world struct {
	t       *testing.T
	path    string
	version int
	random  *rand.Rand
}

// object returns an object with a payload of a size.
func (w *world) object(name, size int) *object {
	w.version++
	o := storetest.New("n", fmt.Sprintf("%0*d", 1+name%40, name), fmt.Sprint(name), fmt.Sprint(w.version))
	o.Payload = strings.Repeat(string(rune('a'+w.version%26)), size)
	return o
}

// change opens the file, lets f change what is in it, and requires that the file opens again, with
// the same objects.
func (w *world) change(f func(*Store[*object])) {
	w.t.Helper()
	s, err := tryOpen(w.path)
	require.NoError(w.t, err)
	f(s)
	want, version := held(s), s.ResourceVersion()
	require.NoError(w.t, s.Close())
	s, err = tryOpen(w.path)
	require.NoError(w.t, err)
	assert.Equal(w.t, len(want), s.Len())
	assert.Equal(w.t, version, s.ResourceVersion())
	for key, o := range s.All() {
		if want[key] != *o {
			require.Fail(w.t, "another object", "%v", key)
		}
	}
	require.NoError(w.t, s.Close())
}

// add adds n objects in several transactions.
func (w *world) add(from, n, size int) {
	w.t.Helper()
	w.change(func(s *Store[*object]) {
		for i := range n {
			require.NoError(w.t, s.Add(w.object(from+i, size)))
			if i%(n/4+1) == 0 {
				require.NoError(w.t, s.Flush())
			}
		}
	})
}

// drop deletes those objects for which gone returns true.
func (w *world) drop(gone func(n int) bool) {
	w.t.Helper()
	w.change(func(s *Store[*object]) {
		n := 0
		for _, o := range held(s) {
			if n++; gone(n) {
				w.version++
				require.NoError(w.t, s.Delete(o.At(fmt.Sprint(w.version))))
			}
			if n%1000 == 0 {
				require.NoError(w.t, s.Flush())
			}
		}
	})
}

func all(int) bool { return true }

func shapes() map[string]shape {
	shapes := map[string]shape{}
	for _, size := range []int{512, 1024, 4096, 16384, 65536} {
		shapes[fmt.Sprintf("pages of %d", size)] = shape{pageSize: size, list: bolt.FreelistMapType}
	}
	shapes["list as an array"] = shape{pageSize: 4096, list: bolt.FreelistArrayType}
	shapes["no list of free pages"] = shape{pageSize: 4096, list: bolt.FreelistMapType, noListOnDisk: true}
	return shapes
}

func TestGoodFilesOfAllShapesAreOpened(t *testing.T) {
	many := 3000
	if raceEnabled {
		many = 300
	}
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, path: shape.make(t)}
			w.change(func(*Store[*object]) {})
			w.add(0, 1, 10)
			w.add(1, many, 100)                                // branches of several levels
			w.add(many, 3, 1<<20)                              // pages that overflow
			w.drop(func(n int) bool { return n%3 == 0 })       // pages are merged
			w.add(many/2, 50, 9000)                            // and free ones used again
			w.drop(func(n int) bool { return n%(many/4) > 0 }) // nearly empty
			shape.update(t, w.path, func(tx *bolt.Tx) error { return nil })
			w.change(func(*Store[*object]) {})
			w.drop(all)
			w.change(func(s *Store[*object]) {
				var list []*object
				for n := range many {
					list = append(list, w.object(n, n%700))
				}
				w.version++
				require.NoError(t, s.Replace(list, fmt.Sprint(w.version)))
				require.NoError(t, s.Flush())
				require.NoError(t, s.Replace(list[many/2:], fmt.Sprint(w.version+1)))
			})
			w.change(func(s *Store[*object]) { require.NoError(t, s.Replace(nil, fmt.Sprint(w.version+2))) })
		})
	}
}

func TestGoodFilesOfRandomWritesAreOpened(t *testing.T) {
	rounds := 40
	if raceEnabled {
		rounds = 10
	}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1))}
			w.path = shape{pageSize: 512 << (seed % 4), list: bolt.FreelistMapType}.make(t)
			for range rounds {
				w.change(func(s *Store[*object]) {
					for range w.random.IntN(200) {
						switch o := w.object(w.random.IntN(600), w.random.IntN(1+1<<w.random.IntN(14))); w.random.IntN(5) {
						case 0, 1:
							require.NoError(t, s.Delete(o))
						case 2:
							require.NoError(t, s.Flush())
						default:
							require.NoError(t, s.Add(o))
						}
					}
				})
			}
		})
	}
}

// A list of 65535 and more free pages has its length in another place.
func TestGoodFileWithManyFreePagesIsOpened(t *testing.T) {
	w := &world{t: t, path: shape{pageSize: 512}.make(t)}
	w.add(0, 34, 1<<20)
	w.drop(all)
	db, err := bolt.Open(w.path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	require.NoError(t, err)
	free := db.Stats().FreePageN
	require.NoError(t, db.Close())
	assert.Greater(t, free, manyFree)
	w.add(0, 100, 300)
	w.drop(all)
}

// One of the two pages that say where the tree is may be lost while it is written.
func TestGoodFileWithOneMetaPageIsOpened(t *testing.T) {
	for _, size := range []int{1024, 4096, 16384} {
		for lost := range 2 {
			t.Run(fmt.Sprint(size, lost), func(t *testing.T) {
				w := &world{t: t, path: shape{pageSize: size}.make(t)}
				w.add(0, 400, 100)
				w.add(400, 1, 100)
				whole := len(contentOf(t, w.path))
				f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
				require.NoError(t, err)
				_, err = f.WriteAt(make([]byte, metaSize), int64(lost*size+pageHead))
				require.NoError(t, errors.Join(err, f.Close()))
				s, err := tryOpen(w.path)
				require.NoError(t, err)
				assert.InDelta(t, 401, s.Len(), 100, "of that transaction, or of the one before")
				require.NoError(t, s.Close())
				w.add(500, 100, 100)
				assert.GreaterOrEqual(t, len(contentOf(t, w.path)), whole)
			})
		}
	}
}

// bbolt finds a page by the key that the page above has for it: with another one, it would go on
// using a page that it gave away.
func TestFilesWhoseBranchesNameOtherKeysAreRefused(t *testing.T) {
	w := &world{t: t, path: shape{pageSize: 512}.make(t)}
	w.add(100, 60, 10)
	content := contentOf(t, w.path)
	db, err := bolt.Open(w.path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	var root uint64
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		root = uint64(tx.Bucket(objectsBucket).Root())
		return nil
	}))
	require.NoError(t, db.Close())
	page := content[root*512:]
	require.EqualValues(t, branchPage, page[8])
	count := int(binary.NativeEndian.Uint16(page[10:]))
	require.Greater(t, count, 1)
	for i := range count {
		at := pageHead + elementSize*i
		size := page[at+4:]
		key := page[at+int(binary.NativeEndian.Uint32(page[at:])):]
		for _, change := range []func(){
			func() { key[0]-- }, // smaller, and in order for the first
			func() { key[binary.NativeEndian.Uint32(size)-1]-- },
			func() { binary.NativeEndian.PutUint32(size, binary.NativeEndian.Uint32(size)-1) },
			func() { binary.NativeEndian.PutUint32(size, 0) },
		} {
			before := append([]byte(nil), content...)
			change()
			require.NoError(t, os.WriteFile(w.path, content, 0o600))
			refused(t, w.path, asked, ErrDamaged)
			copy(content, before)
		}
	}
}
