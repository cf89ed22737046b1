package persist

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"
)

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
