package reflectortest

import (
	"slices"
	"sort"

	"github.com/tidwall/btree"
)

// A change is one write to a resource. A creation has no prior. A deletion has deleted set, and
// object is then the last state at the deletion's version.
type change struct {
	version uint64
	object  *record
	prior   *record
	deleted bool

	left departure
}

// history is a resource's current state and every change to it, oldest first. The server's mutex
// guards it. Its records and changes are immutable, so a slice of the log and a snapshot need no
// lock.
type history struct {
	current *btree.Map[string, *record]
	log     []*change
	// compacted is the oldest version whose state is still known, as in etcd.
	compacted uint64
	// oldest is the version from which a watch can still start.
	oldest uint64
	// dropped is the version of the last change that was compacted away.
	dropped uint64
	// changed is closed and replaced when the log grows.
	changed chan struct{}
}

func newHistory() *history {
	return &history{current: btree.NewMap[string, *record](0), changed: make(chan struct{})}
}

// append applies a change. keep bounds the log; 0 keeps everything.
func (h *history) append(c *change, keep int) {
	if c.deleted {
		h.current.Delete(c.object.key)
	} else {
		h.current.Set(c.object.key, c.object)
	}
	h.log = append(h.log, c)
	// Twice the bound, so that the copy costs nothing on average.
	if keep > 0 && len(h.log) > 2*keep {
		h.compact(h.log[len(h.log)-keep].version)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// since returns the changes after a version.
func (h *history) since(version uint64) []*change {
	i := sort.Search(len(h.log), func(i int) bool { return h.log[i].version > version })
	return h.log[i:len(h.log):len(h.log)]
}

// at returns the state at a version: a lazy copy of the current one with the
// later changes undone.
func (h *history) at(version uint64) *btree.Map[string, *record] {
	state := h.current.Copy()
	later := h.since(version)
	for i := len(later) - 1; i >= 0; i-- {
		if c := later[i]; c.prior != nil {
			state.Set(c.prior.key, c.prior)
		} else {
			state.Delete(c.object.key)
		}
	}
	return state
}

// compact forgets the changes before a version; the state at it stays known, and
// so does the change that made it, as in etcd.
func (h *history) compact(version uint64) {
	if version <= h.compacted {
		return
	}
	h.compacted = version
	h.drop(version - 1)
}

// lose forgets every change up to the current version; the state at it stays known.
func (h *history) lose(current uint64) {
	h.compacted = max(h.compacted, current)
	h.drop(current)
}

// drop takes the changes up to a version from the log.
func (h *history) drop(version uint64) {
	h.oldest = max(h.oldest, version)
	kept := h.since(version)
	if n := len(h.log) - len(kept); n > 0 {
		h.dropped = h.log[n-1].version
	}
	h.log = slices.Clone(kept)
}

// rewind makes an older version the current one, as a restored backup does.
func (h *history) rewind(version uint64) {
	h.current = h.at(version)
	kept := len(h.log) - len(h.since(version))
	h.log = slices.Clone(h.log[:kept])
	h.oldest = min(h.oldest, version)
}
