package persist

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/kubereflector/kubereflector/store"
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
	return h.check(wanted)
}

// check returns an error if the program expects another header.
func (h header) check(wanted header) error {
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
	file *os.File
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
	if _, failed := errors.AsType[syscall.Errno](err); err != nil && !failed {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err) // the file is too short
	}
	if err != nil {
		return nil, err
	}
	return &boltFile{db, opened}, nil
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
