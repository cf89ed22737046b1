package store

import "github.com/tidwall/btree"

// entryTree holds entries in the order of their keys, and postingTree postings in the order of
// their index. Neither knows of which objects: a B-tree is much code, and this way it is compiled
// here, and not once more in each package that has a cache, for each type of its objects. That
// is why nothing is inlined, and what they have is an any: whoever reads of a generic type has to
// compile all its methods.
type (
	entryTree   struct{ tree any } // a *btree.BTreeG[*header]
	postingTree struct{ tree any } // a *btree.BTreeG[posting]; nil for none
)

// The degrees of the trees weigh commits without snapshots, which gain from
// large nodes, against those between two snapshots, which copy nodes.
const (
	entryDegree   = 32
	postingDegree = 32
)

//go:noinline
func newEntryTree() entryTree {
	return entryTree{btree.NewBTreeGOptions(lessEntry, btree.Options{NoLocks: true, Degree: entryDegree})}
}

func entriesOf(t entryTree) *btree.BTreeG[*header] { return t.tree.(*btree.BTreeG[*header]) }

//go:noinline
func (t entryTree) copy() entryTree { return entryTree{entriesOf(t).Copy()} }

//go:noinline
func (t entryTree) len() int { return entriesOf(t).Len() }

// get returns what is held under the key of a header; nil if there is nothing.
//
//go:noinline
func (t entryTree) get(key *header, place *btree.PathHint) *header {
	held, _ := entriesOf(t).GetHint(key, place)
	return held
}

// put returns what made room; nil if there was nothing.
//
//go:noinline
func (t entryTree) put(h *header, place *btree.PathHint) *header {
	old, _ := entriesOf(t).SetHint(h, place)
	return old
}

// load is put for what comes after everything that is there.
//
//go:noinline
func (t entryTree) load(h *header) { entriesOf(t).Load(h) }

// remove returns what was held under the key of a header; nil if there was nothing.
//
//go:noinline
func (t entryTree) remove(key *header, place *btree.PathHint) *header {
	old, _ := entriesOf(t).DeleteHint(key, place)
	return old
}

//go:noinline
func (t entryTree) scan(yield func(*header) bool) { entriesOf(t).Scan(yield) }

// walk is scan by whole nodes.
//
//go:noinline
func (t entryTree) walk(yield func([]*header) bool) { entriesOf(t).Walk(yield) }

//go:noinline
func (t entryTree) ascend(from *header, yield func(*header) bool) { entriesOf(t).Ascend(from, yield) }

// compact gives back the room that splitting nodes has left: see Cache.compact.
//
//go:noinline
func (t entryTree) compact() {
	entriesOf(t).Copy()
	entriesOf(t).ScanMut(func(*header) bool { return true })
}

//go:noinline
func newPostingTree(less func(a, b posting) bool) postingTree {
	return postingTree{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: postingDegree})}
}

func postingsOf(t postingTree) *btree.BTreeG[posting] { return t.tree.(*btree.BTreeG[posting]) }

//go:noinline
func (t postingTree) copy() postingTree { return postingTree{postingsOf(t).Copy()} }

//go:noinline
func (t postingTree) put(p posting) { postingsOf(t).Set(p) }

// load is put for what comes after everything that is there.
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

// compact is that of an entryTree.
//
//go:noinline
func (t postingTree) compact() {
	postingsOf(t).Copy()
	postingsOf(t).ScanMut(func(posting) bool { return true })
}
