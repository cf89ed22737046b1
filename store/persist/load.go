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

	"github.com/kubereflector/kubereflector/store"
)

// loaded is what was read from a file.
type loaded[T any] struct {
	state  fileState
	keys   []store.Key
	writes []store.Write[T] // which have Key and Version if the object does not tell them
	bytes  int              // of all records
}

// load opens a file, or makes it, and reads what is in it. Nothing is written to a
// file before it was read and found to be what was wanted.
func load[T any](path string, o Options[T], keyOf store.KeyFunc[T]) (*boltFile, *loaded[T], error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path, o.header()); err != nil {
			return nil, nil, err
		}
	case err == nil && info.Size() == 0: // bbolt would take it for a new one
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
		// Between the two somebody else may have had it.
		state, err := stateOf(db)
		if err == nil && state.Transaction == l.state.Transaction && state.Sum == l.state.Sum {
			return db, l, nil
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return nil, nil, err
		}
	}
}

// view runs f in a transaction that changes nothing. What goes wrong in there by
// reading what is no file of bbolt's is an error.
func view(db *boltFile, f func(*bolt.Tx) error) (err error) {
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

// record is one of the file. It is valid until the transaction ends.
type record struct{ key, content []byte }

// verify reads everything in a file, and compares it with what was written.
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

// decode makes objects of records.
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
			// The disk may fail after the checksums were compared. This is asked for each
			// goroutine by itself.
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
		case interface{ Addr() uintptr }: // of memory that could not be read
			err = fmt.Errorf("%w: %v: %v", ErrDamaged, key, value)
		default:
			err = fmt.Errorf("%w: %v: panic: %v", ErrUndecodable, key, value)
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
	// What an object tells by itself need not be kept beside it.
	if own, err := keyOf(object); err != nil || own.Name != key.Name || own.Namespace != key.Namespace {
		w.Key = key
	}
	if store.VersionOf(object) != version {
		w.Version = version
	}
	return nil
}

// restore gives a cache what was read.
func (l *loaded[T]) restore(c *store.Cache[T]) error {
	rest := make([]int, len(l.keys))
	for n := range rest {
		rest[n] = n
	}
	own := make([][]int, len(l.state.Scopes))
	for i, s := range l.state.Scopes {
		rest = slices.DeleteFunc(rest, func(n int) bool {
			in := s.contains(l.keys[n], l.version(n))
			if in {
				own[i] = append(own[i], n)
			}
			return in
		})
	}
	// Before there are partitions, which refuse a Replace of the whole.
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

// version returns that of an object.
func (l *loaded[T]) version(n int) store.Version {
	if version := l.writes[n].Version; version != (store.Version{}) {
		return version
	}
	return store.VersionOf(l.writes[n].Object)
}

// restoreInto writes objects. Without a version it is no list, so that the reflector lists them.
func (l *loaded[T]) restoreInto(s store.Store[T], which []int, version string) error {
	b, _ := store.Begin(s, version != "")
	defer b.Discard()
	for _, n := range which {
		_ = b.Write(l.writes[n]) // Commit returns the error
	}
	if err := b.Commit(version); err != nil {
		return fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return nil
}
