package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/store"
)

// loaded is the content of a file.
type loaded[T any] struct {
	state  fileState
	keys   []store.Key
	writes []store.Write[T] // with Key and Version if the object does not have them itself
	bytes  int              // total length of all records
}

// load opens a file, or creates it, and reads its content. It verifies the whole file before it
// opens the file for writing.
func load[T any](path string, o Options[T], keyOf store.KeyFunc[T]) (*boltFile, *loaded[T], error) {
	removeUnfinished(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path, o.header()); err != nil {
			return nil, nil, err
		}
	case err == nil && info.Size() == 0: // bbolt would take it for a new file
		return nil, nil, fmt.Errorf("%w: it is empty", ErrForeign)
	}
	for {
		l, err := read(path, o, keyOf)
		if err != nil {
			return nil, nil, err
		}
		db, err := openBolt(path, false)
		if err != nil {
			return nil, nil, err
		}
		// Another process may have written the file after read closed it.
		state, err := stateOf(db)
		if err == nil && state.Transaction == l.state.Transaction && state.Sum == l.state.Sum {
			return db, l, nil
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return nil, nil, err
		}
	}
}

// view runs f in a read-only transaction. It turns a panic of bbolt, which a damaged file may
// cause, into an error.
func view(db *boltFile, f func(*bolt.Tx) error) (err error) {
	if err := db.checkMeta(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, value)
		}
	}()
	return db.View(f)
}

func stateOf(db *boltFile) (state fileState, err error) {
	return state, view(db, func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return ErrForeign
		}
		return get(meta, stateKey, &state)
	})
}

// read reads a file without changing it.
func read[T any](path string, o Options[T], keyOf store.KeyFunc[T]) (*loaded[T], error) {
	db, err := openBolt(path, true)
	if err != nil {
		return nil, err
	}
	l := &loaded[T]{}
	err = view(db, func(tx *bolt.Tx) error {
		records, err := verify(tx, db.file, o.header(), &l.state)
		if err != nil {
			return err
		}
		return l.decode(records, o.Codec, keyOf)
	})
	return l, errors.Join(err, db.Close())
}

// record is a record of the file. It is valid until the transaction ends.
type record struct{ key, content []byte }

// verify reads everything in a file and verifies the checksums.
func verify(tx *bolt.Tx, file *os.File, wanted header, state *fileState) ([]record, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkPages(tx, file, info.Size()); err != nil {
		return nil, err
	}
	meta, objects := tx.Bucket(metaBucket), tx.Bucket(objectsBucket)
	if meta == nil {
		return nil, ErrForeign
	}
	if err := checkHeader(meta, wanted); err != nil {
		return nil, err
	}
	if err := get(meta, stateKey, state); err != nil {
		return nil, err
	}
	if objects == nil {
		return nil, fmt.Errorf("%w: no objects", ErrDamaged)
	}
	var records []record
	var sum uint64
	cursor := objects.Cursor()
	for key, sealed := cursor.First(); key != nil; key, sealed = cursor.Next() {
		content, one, ok := unseal(key, sealed)
		if !ok {
			return nil, fmt.Errorf("%w: checksum of object %q", ErrDamaged, key)
		}
		sum += uint64(one)
		if records = append(records, record{key, content}); len(records) > state.Objects {
			break
		}
	}
	if len(records) != state.Objects || sum != state.Sum {
		return nil, fmt.Errorf("%w: its objects are not those that were written", ErrDamaged)
	}
	if state.Filling {
		return nil, nil
	}
	return records, nil
}

// decode decodes records into objects.
func (l *loaded[T]) decode(records []record, codec Codec[T], keyOf store.KeyFunc[T]) error {
	l.keys = make([]store.Key, len(records))
	l.writes = make([]store.Write[T], len(records))
	for _, r := range records {
		l.bytes += len(r.key) + len(r.content)
	}
	parts := max(1, min(runtime.GOMAXPROCS(0), len(records)/100))
	errs := make([]error, parts)
	var group sync.WaitGroup
	for part := range parts {
		group.Go(func() {
			// The disk may fail after verify compared the checksums. Each goroutine must set this
			// by itself.
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			for n := part * len(records) / parts; n < (part+1)*len(records)/parts && errs[part] == nil; n++ {
				errs[part] = l.decodeOne(n, records[n], codec, keyOf)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (l *loaded[T]) decodeOne(n int, r record, codec Codec[T], keyOf store.KeyFunc[T]) (err error) {
	var key store.Key
	var ok bool
	defer func() {
		switch value := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // a fault when reading the mapping
			err = fmt.Errorf("%w: %v: %v", ErrDamaged, key, value)
		default:
			err = fmt.Errorf("%w: %v: %w", ErrUndecodable, key, discreet.Panicked(value))
		}
	}()
	key, ok = keyOfBytes(r.key)
	version, encoded, ok2 := contents(r.content)
	if !ok || !ok2 {
		return fmt.Errorf("%w: object %q", ErrDamaged, r.key)
	}
	object, err := codec.Decode(encoded)
	if err != nil {
		return fmt.Errorf("%w: %v: %w", ErrUndecodable, key, err)
	}
	w := &l.writes[n]
	l.keys[n], w.Type, w.Object = key, store.Addition, object
	// The write carries the key and the version only if the object does not have them itself.
	if own, err := keyOf(object); err != nil || own.Name != key.Name || own.Namespace != key.Namespace {
		w.Key = key
	}
	if store.VersionOf(object) != version {
		w.Version = version
	}
	return nil
}

// restore writes the content of a file to a cache.
func (l *loaded[T]) restore(c *store.Cache[T]) error {
	rest := make([]int, len(l.keys))
	for n := range rest {
		rest[n] = n
	}
	own := make([][]int, len(l.state.Scopes))
	for i, s := range l.state.Scopes {
		rest = slices.DeleteFunc(rest, func(n int) bool {
			in := s.scope().Contains(l.keys[n])
			if in {
				own[i] = append(own[i], n)
			}
			return in
		})
	}
	// The cache rejects a Replace once it has partitions, so this comes first.
	if err := l.restoreInto(c, rest, l.state.Version); err != nil {
		return err
	}
	for i, s := range l.state.Scopes {
		part, err := c.Partition(s.scope())
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := l.restoreInto(part, own[i], s.Version); err != nil {
			return err
		}
	}
	return nil
}

// restoreInto writes objects to a cache or a partition. Without a version it makes no Replace, so
// that the reflector lists.
func (l *loaded[T]) restoreInto(s store.BatchStore[T], which []int, version string) error {
	b := s.BeginBatch(s, version != "")
	defer b.Discard()
	for _, n := range which {
		_ = b.Write(l.writes[n]) // Commit returns the error
	}
	if err := b.Commit(version); err != nil {
		return fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return nil
}
