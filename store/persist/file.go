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

// format is the version of what is written: another one is not read.
const format = 1

// The buckets of a file, and what is in the first.
var (
	metaBucket    = []byte("kubereflector/persist")
	objectsBucket = []byte("objects")
	headerKey     = []byte("header")
	stateKey      = []byte("state")
)

// header says what a file is for. It is written once.
type header struct {
	Format   int    `json:"format"`
	Type     string `json:"type"`
	Resource string `json:"resource"`
	Cluster  string `json:"cluster"`
	Codec    string `json:"codec"`
}

// checkHeader returns why a file cannot be used for what is wanted.
func checkHeader(meta *bolt.Bucket, wanted header) error {
	var h header
	var only struct{ Format int } // all that a later version promises
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

// check returns why a file with this header cannot be used for what is wanted.
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

// fileState is what the objects of a file are together. Each transaction writes it.
type fileState struct {
	// Version is the resource version of what is in no scope; empty if there is none.
	Version string `json:"version,omitempty"`
	// Scopes are those of the partitions.
	Scopes []scopeState `json:"scopes,omitempty"`
	// Filling is true while a first list is written in several transactions: until
	// then the objects are no state that a server had.
	Filling bool `json:"filling,omitempty"`

	// Objects is how many there are, Sum the sum of their checksums, and Transaction counts the
	// transactions: two files with the same numbers are the same.
	Objects     int    `json:"objects"`
	Sum         uint64 `json:"sum"`
	Transaction uint64 `json:"transaction"`
}

// scopeState is a partition and its resource version.
type scopeState struct {
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Version   string `json:"version,omitempty"`
	// Shard is nil for everything in the scope.
	Shard *shardState `json:"shard,omitempty"`
}

// shardState is a [store.Shard].
type shardState struct {
	By   store.ShardKey `json:"by"`
	From uint64         `json:"from"`
	To   uint64         `json:"to"`
}

func newScopeState(scope store.Scope, version string) scopeState {
	s := scopeState{Cluster: scope.Cluster, Namespace: scope.Namespace, Version: version}
	if shard := scope.Shard; shard != (store.Shard{}) {
		s.Shard = &shardState{shard.By, shard.From, shard.To}
	}
	return s
}

func (s scopeState) scope() store.Scope {
	scope := store.Scope{Cluster: s.Cluster, Namespace: s.Namespace}
	if s.Shard != nil {
		scope.Shard = store.Shard{By: s.Shard.By, From: s.Shard.From, To: s.Shard.To}
	}
	return scope
}

// contains reports whether an object at a version is in the scope.
func (s scopeState) contains(key store.Key, version store.Version) bool {
	if key.Cluster != s.Cluster || s.Namespace != "" && key.Namespace != s.Namespace {
		return false
	}
	switch shard := s.scope().Shard; shard.By {
	case store.ByNamespace:
		return shard.Contains(store.ShardHash(key.Namespace))
	default:
		return shard.IsEverything() || shard.Contains(store.ShardHash(string(version.UID)))
	}
}

// patience is how long somebody may go on reading a file who cannot have it any more: one
// that is about to refuse it, or a process that is being started and has a copy of what was
// open, with its lock. bbolt looks again every 50 milliseconds.
const patience = 2 * time.Second

// boltFile is a file that bbolt has open, and its descriptor.
type boltFile struct {
	*bolt.DB
	file *os.File
}

// inPlace returns [ErrReplaced] if the path does not lead to the file any more.
func (f *boltFile) inPlace(path string) error {
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrReplaced
	}
	own, err2 := f.file.Stat()
	if err == nil && err2 == nil && !os.SameFile(there, own) {
		return ErrReplaced
	}
	return nil // or unknown: a write says more
}

// openFile is that of the operating system, but in tests.
var openFile = os.OpenFile

// openBolt opens a file that exists. A file that is not what it seems can make bbolt
// panic, or read where nothing is.
//
// Many may read at once, and who reads keeps out who is to write. So a file that cannot be
// read is another store's, and is given up at once; one that can be read, and not be
// written, is waited for.
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
				opened.Close() // and with it the lock
			}
			err = fmt.Errorf("%w: %v", ErrDamaged, value)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         wait,
		ReadOnly:        readOnly,
		PreLoadFreelist: !readOnly, // nothing in the file is known to be sound then
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
		return nil, fmt.Errorf("%w: %w", ErrForeign, err) // it is too short
	}
	if err != nil {
		return nil, err
	}
	return &boltFile{db, opened}, nil
}

// create makes a file with nothing in it but its header. It has its name when it is
// whole: who is killed before leaves a file with another name.
func create(path string, h header) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	made, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // 0600
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
	// Unlike a rename, this does not replace what somebody else made meanwhile.
	if err := os.Link(made.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil { // a file system without links
		if err := os.Rename(made.Name(), path); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// syncFile is that of the operating system, but in tests.
var syncFile = (*os.File).Sync

// syncDir makes the names in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	syncFile(d) // not every file system can; the file is whole in any case
	return nil
}

// put writes a value of the meta bucket.
func put(meta *bolt.Bucket, key []byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return meta.Put(key, seal(key, data))
}

// get reads a value of the meta bucket.
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
