package persist

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/kubereflector/kubereflector/store"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// format is the version of the file format. Open reads no other.
const format = 1

// The buckets of a file, and the keys in the first.
var (
	metaBucket    = []byte("kubereflector/persist")
	objectsBucket = []byte("objects")
	headerKey     = []byte("header")
	stateKey      = []byte("state")
)

// header describes the content of a file. It never changes.
type header struct {
	Format   int    `json:"format"`
	Type     string `json:"type"`
	Resource string `json:"resource"`
	Cluster  string `json:"cluster"`
	Codec    string `json:"codec"`
}

// checkHeader returns an error if the program expects another header.
func checkHeader(meta *bolt.Bucket, wanted header) error {
	var h header
	var only struct{ Format int } // the only field that a later version also has
	if err := get(meta, headerKey, &only); err != nil {
		return err
	}
	if only.Format != format {
		return fmt.Errorf("%w: %d, and %d is known", ErrNewer, only.Format, format)
	}
	if err := get(meta, headerKey, &h); err != nil {
		return err
	}
	for _, p := range [...]struct{ what, file, wanted string }{
		{"type", h.Type, wanted.Type},
		{"resource", h.Resource, wanted.Resource},
		{"cluster", h.Cluster, wanted.Cluster},
		{"codec", h.Codec, wanted.Codec},
	} {
		if p.file != p.wanted {
			return &MismatchError{What: p.what, File: p.file, Wanted: p.wanted}
		}
	}
	return nil
}

// fileState describes all objects of a file together. Each transaction writes it.
type fileState struct {
	// Version is the resource version of the objects in no scope; empty if there is none.
	Version string `json:"version,omitempty"`
	// Scopes are the scopes of the partitions.
	Scopes []scopeState `json:"scopes,omitempty"`
	// Filling is true while several transactions write a first list. Until the last one, the
	// objects in the file are an incomplete list.
	Filling bool `json:"filling,omitempty"`

	// Objects is the number of objects, Sum the sum of their checksums, and Transaction the number
	// of transactions. Two states of a file with the same numbers are the same.
	Objects     int    `json:"objects"`
	Sum         uint64 `json:"sum"`
	Transaction uint64 `json:"transaction"`
}

// scopeState is a partition and its resource version.
type scopeState struct {
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Version   string `json:"version,omitempty"`
}

func (s scopeState) scope() store.Scope {
	return store.Scope{Cluster: s.Cluster, Namespace: s.Namespace}
}

// patience is how long Open waits for other readers of the file, which cannot use the file: a store
// that is about to reject it, or a starting process that inherited the descriptor and its lock.
// bbolt tries the lock every 50 milliseconds.
const patience = 2 * time.Second

// boltFile is an open bbolt file and its descriptor.
type boltFile struct {
	*bolt.DB
	file     *os.File
	pageSize int
}

// Update is Update of bbolt for a file that may have been damaged since it was opened.
func (f *boltFile) Update(do func(*bolt.Tx) error) error {
	if err := f.checkMeta(); err != nil {
		return err
	}
	return f.DB.Update(do)
}

// inPlace returns [ErrReplaced] if the path no longer leads to the open file.
func (f *boltFile) inPlace(path string) error {
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrReplaced
	}
	own, err2 := f.file.Stat()
	if err == nil && err2 == nil && !os.SameFile(there, own) {
		return ErrReplaced
	}
	return nil // or unknown: then the write returns an error
}

// openFile is os.OpenFile, except in tests.
var openFile = os.OpenFile

// openBolt opens an existing file. A damaged file can make bbolt panic, or read outside of the
// mapping.
//
// Many readers may share a file, and a reader keeps writers out. If openBolt cannot read a file,
// another store has it, and openBolt gives up at once. If it can read a file but not write it, it
// waits for the other readers.
func openBolt(path string, readOnly bool) (_ *boltFile, err error) {
	wait := patience
	if readOnly {
		wait = 1 // one attempt
	}
	var opened *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			if opened != nil {
				opened.Close() // releases the lock, too
			}
			err = fmt.Errorf("%w: %v", ErrDamaged, value)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         wait,
		ReadOnly:        readOnly,
		PreLoadFreelist: !readOnly, // when reading, no part of the file is verified yet
		FreelistType:    bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := openFile(name, flag&^os.O_CREATE, mode)
			opened = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, bolterrors.ErrChecksum):
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if err == nil {
		return &boltFile{db, opened, db.Info().PageSize}, nil
	}
	if _, failed := errors.AsType[syscall.Errno](err); !failed {
		err = fmt.Errorf("%w: %w", ErrForeign, err) // the file is too short
	}
	return nil, err
}

// create makes a file with only a header. The file gets its name when it is complete, so a process
// that is killed before leaves a file with another name, which the next Open removes (see
// removeUnfinished). Another process may remove it too early, in the moments when no lock holds it,
// so create makes it again.
func create(path string, h header) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for range createAttempts {
		if err = createOnce(path, h); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// createAttempts is far above what processes that start at once need.
const createAttempts = 100

func createOnce(path string, h header) error {
	made, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+unfinished+"*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(made.Name())
	if err := made.Close(); err != nil {
		return err
	}
	db, err := openBolt(made.Name(), false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucket(objectsBucket); err != nil {
			return err
		}
		return errors.Join(put(meta, headerKey, h), put(meta, stateKey, fileState{}))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link does not replace a file that another process made meanwhile.
	if err := os.Link(made.Name(), path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(made.Name(), path) // the file system has no links
}

// syncFile is (*os.File).Sync, except in tests.
var syncFile = (*os.File).Sync

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	syncFile(d) // some file systems cannot; the file itself is complete in any case
	return nil
}

// put writes a value to the meta bucket.
func put(meta *bolt.Bucket, key []byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return meta.Put(key, seal(key, data))
}

// get reads a value from the meta bucket.
func get(meta *bolt.Bucket, key []byte, value any) error {
	data, _, ok := unseal(key, meta.Get(key))
	if !ok {
		return fmt.Errorf("%w: checksum of its %s", ErrDamaged, key)
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("%w: its %s: %w", ErrDamaged, key, err)
	}
	return nil
}

const (
	// unfinished stands between the name of a file and digits while create makes the file.
	unfinished = ".new-"
	// maxUnfinished is above the size of such a file: four pages.
	maxUnfinished = 1 << 20
	// boltMagic is in each meta page, after its head.
	boltMagic = 0xED0CDAED
)

// removeUnfinished removes what killed processes left when they made the file. It is not worth an
// error: what cannot be removed now takes a few KiB until the next Open.
//
// Another process may be making the file at this time. Its file is locked, or about to be: if the
// name is gone then, create makes another one.
func removeUnfinished(path string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return
	}
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), base+unfinished)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !entry.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		if secondName(name, path) || isUnfinished(name) {
			os.Remove(name)
		}
	}
}

// secondName reports whether two names lead to one file: create was killed after it gave the file
// its name.
func secondName(name, path string) bool {
	a, err := os.Lstat(name)
	b, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// isUnfinished reports whether a file is one that create makes and nobody uses. The name alone does
// not say so: a program may have a store, or something else, of such a name.
func isUnfinished(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxUnfinished {
		return false
	}
	if info.Size() == 0 {
		return true
	}
	var start [pageHead + 4]byte
	if _, err := f.ReadAt(start[:], 0); err != nil || binary.NativeEndian.Uint32(start[pageHead:]) != boltMagic {
		return false
	}
	db, err := openBolt(name, true)
	if err != nil { // it is locked, or was killed while bbolt wrote the first four pages
		return !errors.Is(err, ErrLocked) && info.Size() < int64(4*os.Getpagesize())
	}
	defer db.Close()
	empty := false
	err = view(db, func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil { // killed before the first transaction; a file of another program has buckets
			key, _ := tx.Cursor().First()
			empty = key == nil
			return nil
		}
		var state fileState
		err := get(meta, stateKey, &state)
		empty = err == nil && state.Transaction == 0
		return err
	})
	return err == nil && empty
}
