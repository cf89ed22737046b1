package store

import "github.com/tidwall/btree"

// entryTree holds entries in the order of their keys. postingTree holds postings in the order of
// their index. Neither has the type of the objects as a type parameter. A B-tree is much code, and
// a generic tree would be compiled again for each type of objects, in each package that has a
// cache. For the same reason no method is inlined and the field is an any: a package that sees a
// generic type compiles all its methods.
type (
	entryTree   struct{ tree any } // a *btree.BTreeG[*header]
	postingTree struct{ tree any } // a *btree.BTreeG[posting]; nil for none
)

// Large nodes make commits without snapshots faster. Small nodes make commits between two snapshots
// faster, because they copy nodes. The degree is a compromise.
const degree = 32

//go:noinline
func newEntryTree() entryTree {
	return entryTree{btree.NewBTreeGOptions(lessEntry, btree.Options{NoLocks: true, Degree: degree})}
}

func entriesOf(t entryTree) *btree.BTreeG[*header] { return t.tree.(*btree.BTreeG[*header]) }

//go:noinline
func (t entryTree) copy() entryTree { return entryTree{entriesOf(t).Copy()} }

//go:noinline
func (t entryTree) len() int { return entriesOf(t).Len() }

// get returns the header in the tree with the key of a header, or nil.
//
//go:noinline
func (t entryTree) get(key *header, place *btree.PathHint) *header {
	held, _ := entriesOf(t).GetHint(key, place)
	return held
}

// put stores a header, and returns the header that it replaced, or nil.
//
//go:noinline
func (t entryTree) put(h *header, place *btree.PathHint) *header {
	old, _ := entriesOf(t).SetHint(h, place)
	return old
}

// load is put for a header that sorts after all others in the tree.
//
//go:noinline
func (t entryTree) load(h *header) { entriesOf(t).Load(h) }

// remove removes the header with the key of a header, and returns it, or nil if there is none.
//
//go:noinline
func (t entryTree) remove(key *header, place *btree.PathHint) *header {
	old, _ := entriesOf(t).DeleteHint(key, place)
	return old
}

//go:noinline
func (t entryTree) scan(yield func(*header) bool) { entriesOf(t).Scan(yield) }

// walk is scan, but yields the headers of a whole node at once.
//
//go:noinline
func (t entryTree) walk(yield func([]*header) bool) { entriesOf(t).Walk(yield) }

//go:noinline
func (t entryTree) ascend(from *header, yield func(*header) bool) { entriesOf(t).Ascend(from, yield) }

// compact frees memory that split nodes leave: see Cache.compact.
//
//go:noinline
func (t entryTree) compact() {
	entriesOf(t).Copy()
	entriesOf(t).ScanMut(func(*header) bool { return true })
}

//go:noinline
func newPostingTree(less func(a, b posting) bool) postingTree {
	return postingTree{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: degree})}
}

func postingsOf(t postingTree) *btree.BTreeG[posting] { return t.tree.(*btree.BTreeG[posting]) }

//go:noinline
func (t postingTree) copy() postingTree { return postingTree{postingsOf(t).Copy()} }

//go:noinline
func (t postingTree) put(p posting) { postingsOf(t).Set(p) }

// load is put for a posting that sorts after all others in the tree.
//
//go:noinline
func (t postingTree) load(p posting) { postingsOf(t).Load(p) }

//go:noinline
func (t postingTree) remove(p posting) { postingsOf(t).Delete(p) }

//go:noinline
func (t postingTree) scan(yield func(posting) bool) { postingsOf(t).Scan(yield) }

//go:noinline
func (t postingTree) reverse(yield func(posting) bool) { postingsOf(t).Reverse(yield) }

//go:noinline
func (t postingTree) ascend(from posting, yield func(posting) bool) {
	postingsOf(t).Ascend(from, yield)
}

// compact is [entryTree.compact] for postings.
//
//go:noinline
func (t postingTree) compact() {
	postingsOf(t).Copy()
	postingsOf(t).ScanMut(func(posting) bool { return true })
}
