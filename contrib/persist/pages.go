package persist

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"

	bolt "go.etcd.io/bbolt"
)

// The format of bbolt's files, in the byte order of the machine.
const (
	pageHead    = 16 // id, flags, count, overflow
	elementSize = 16
	bucketHead  = 16 // root, sequence
	metaSize    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketFlag   = 0x01

	manyFree   = math.MaxUint16 // then the first element of the list holds the count
	noFreelist = math.MaxUint64
)

// pageCheck checks the pages of a file before bbolt follows them. bbolt trusts the lengths in the
// pages and reads through a mapping. Its own check does so in another goroutine, where a fault ends
// the process.
type pageCheck struct {
	file   io.ReaderAt
	size   uint64 // of a page
	end    uint64 // the number of pages; the first page after the file
	in     []bool // by page: whether it is in use
	reason error
}

// checkPages returns an error unless the tree of a transaction is sound: each page belongs to one
// place, is free or in use, and has its keys in order.
func checkPages(tx *bolt.Tx, file io.ReaderAt, length int64) error {
	c := pageCheck{file: file, size: uint64(tx.DB().Info().PageSize)}
	root, free, ok := c.meta(uint64(tx.ID()))
	if !ok {
		return fmt.Errorf("%w: no valid meta page for transaction %d", ErrDamaged, tx.ID())
	}
	if c.end < 2 || c.end > uint64(length)/c.size {
		return fmt.Errorf("%w: its meta page names %d pages, and it has %d bytes", ErrDamaged, c.end, length)
	}
	c.in = make([]bool, c.end)
	c.in[0], c.in[1] = true, true
	if free != noFreelist {
		c.free(free)
	}
	c.tree(root, nil, nil)
	for id, used := range c.in {
		if !used && free != noFreelist {
			c.fail("page %d is lost", id)
		}
	}
	return c.reason
}

// fail keeps the first error.
func (c *pageCheck) fail(format string, args ...any) {
	if c.reason == nil {
		c.reason = fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
	}
}

// meta finds the meta page of a transaction.
func (c *pageCheck) meta(transaction uint64) (root, free uint64, ok bool) {
	number := binary.NativeEndian.Uint64
	for id := range int64(2) {
		m, valid, err := readMeta(c.file, int64(c.size), id)
		if err == nil && valid && number(m[48:]) == transaction {
			c.end = number(m[40:])
			return number(m[16:]), number(m[32:]), true
		}
	}
	return 0, 0, false
}

// readMeta reads a meta page, and reports whether bbolt takes it for valid.
func readMeta(file io.ReaderAt, size, id int64) (m [metaSize]byte, valid bool, err error) {
	if _, err := file.ReadAt(m[:], id*size+pageHead); err != nil {
		return m, false, fmt.Errorf("%w: meta page %d: %w", ErrDamaged, id, err)
	}
	sum := fnv.New64a()
	sum.Write(m[:56])
	valid = binary.NativeEndian.Uint32(m[:]) == boltMagic && binary.NativeEndian.Uint64(m[56:]) == sum.Sum64()
	return m, valid, nil
}

// checkMeta returns an error unless both meta pages can be read, and one is valid. Otherwise bbolt
// would panic while it begins a transaction, and keep its locks, so that the next one, and Close,
// would wait for ever.
func (f *boltFile) checkMeta() error {
	one := false
	for id := range int64(2) {
		_, valid, err := readMeta(f.file, int64(f.pageSize), id)
		if err != nil {
			return err
		}
		one = one || valid
	}
	if !one {
		return fmt.Errorf("%w: no valid meta page", ErrDamaged)
	}
	return nil
}

// take reads a page with its overflow pages, and marks them as used.
func (c *pageCheck) take(id uint64) (page []byte, flags uint16, count int) {
	var head [pageHead]byte
	if id < 2 || id >= c.end {
		c.fail("there is no page %d", id)
	} else if _, err := c.file.ReadAt(head[:], int64(id*c.size)); err != nil {
		c.fail("page %d: %w", id, err)
	}
	if c.reason != nil {
		return nil, 0, 0
	}
	pages := 1 + uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head[:]) != id || pages > c.end-id {
		c.fail("head of page %d", id)
		return nil, 0, 0
	}
	for n := id; n < id+pages; n++ {
		c.use(n)
	}
	if c.reason != nil {
		return nil, 0, 0
	}
	page = make([]byte, pages*c.size)
	if _, err := c.file.ReadAt(page, int64(id*c.size)); err != nil {
		c.fail("page %d: %w", id, err)
		return nil, 0, 0
	}
	return page, binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
}

// use marks a page as used.
func (c *pageCheck) use(id uint64) {
	if id >= c.end || c.in[id] {
		c.fail("page %d is used twice", id)
		return
	}
	c.in[id] = true
}

// free reads the list of free pages, and marks them as used.
func (c *pageCheck) free(id uint64) {
	page, flags, n := c.take(id)
	if c.reason != nil {
		return
	}
	ids, count := page[pageHead:], uint64(n)
	if flags == freelistPage && count == manyFree && len(ids) >= 8 {
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if flags != freelistPage || count > uint64(len(ids))/8 {
		c.fail("list of free pages")
		return
	}
	for i := range count {
		c.use(binary.NativeEndian.Uint64(ids[8*i:]))
	}
}

// tree checks the page of an id and the pages below it. Its first key must be first, and all keys
// must be less than most; nil allows any key. bbolt uses the first key to find a page again when it
// writes the page elsewhere.
func (c *pageCheck) tree(id uint64, first, most []byte) {
	page, flags, count := c.take(id)
	if c.reason == nil {
		c.elements(page, flags, count, first, most)
	}
}

func (c *pageCheck) elements(page []byte, flags uint16, count int, first, most []byte) {
	if flags != leafPage && flags != branchPage || count == 0 && (flags == branchPage || first != nil) {
		c.fail("kind of a page")
		return
	}
	keys := make([][]byte, count, count+1)
	for i := range keys {
		key, value, ok := element(page, flags, i, count)
		switch {
		case !ok, len(key) == 0,
			i == 0 && first != nil && !bytes.Equal(key, first),
			i > 0 && bytes.Compare(keys[i-1], key) >= 0,
			most != nil && bytes.Compare(key, most) >= 0:
			c.fail("element %d of a page", i)
			return
		}
		keys[i] = key
		if flags == leafPage && binary.NativeEndian.Uint32(page[pageHead+elementSize*i:]) == bucketFlag {
			c.bucket(value)
		}
	}
	if flags == branchPage {
		keys = append(keys, most)
		for i := 0; i < count && c.reason == nil; i++ {
			c.tree(binary.NativeEndian.Uint64(page[pageHead+elementSize*i+8:]), keys[i], keys[i+1])
		}
	}
}

// element returns key and value of an element of a page. ok is false if they exceed the page.
func element(page []byte, flags uint16, i, count int) (key, value []byte, ok bool) {
	at := pageHead + elementSize*i
	if pageHead+elementSize*count > len(page) {
		return nil, nil, false
	}
	number := func(n int) uint64 { return uint64(binary.NativeEndian.Uint32(page[at+4*n:])) }
	position, keySize, valueSize := number(0), number(1), uint64(0)
	if flags == leafPage {
		if number(0) > bucketFlag {
			return nil, nil, false
		}
		position, keySize, valueSize = number(1), number(2), number(3)
	}
	from := uint64(at) + position
	if from < uint64(pageHead+elementSize*count) || from+keySize+valueSize > uint64(len(page)) {
		return nil, nil, false
	}
	return page[from : from+keySize], page[from+keySize : from+keySize+valueSize], true
}

// bucket checks the content of a bucket: its own pages, or a page in its value.
func (c *pageCheck) bucket(value []byte) {
	if len(value) < bucketHead {
		c.fail("head of a bucket")
		return
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		c.tree(root, nil, nil)
		return
	}
	page := value[bucketHead:]
	if len(page) < pageHead {
		c.fail("small bucket")
		return
	}
	flags := binary.NativeEndian.Uint16(page[8:])
	if flags != leafPage || binary.NativeEndian.Uint32(page[12:]) != 0 {
		c.fail("small bucket")
		return
	}
	c.elements(page, flags, int(binary.NativeEndian.Uint16(page[10:])), nil, nil)
}
