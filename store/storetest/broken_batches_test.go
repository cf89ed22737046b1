package storetest_test

import (
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// noBatches is why the random writes see no mistake in batches.
const noBatches = "it writes no batches"

// said is one call of a batch: a Write, or the Keep of a key.
type said struct {
	store.Write[object]
	kept bool
}

// altered is a batch whose calls a mutant changes before Commit makes them.
type altered struct {
	into   store.Batch[object]
	change func([]said) []said
	all    []said
}

func (b *altered) Write(w store.Write[object]) error {
	b.all = append(b.all, said{Write: w})
	return nil
}

func (b *altered) Keep(key store.Key) {
	b.all = append(b.all, said{Write: store.Write[object]{Key: key}, kept: true})
}

func (b *altered) Commit(version string) error {
	for _, each := range b.change(slices.Clone(b.all)) {
		if each.kept {
			b.into.Keep(each.Key)
		} else if err := b.into.Write(each.Write); err != nil {
			return err
		}
	}
	b.all = nil
	return b.into.Commit(version)
}

func (b *altered) Discard() { b.all = nil }

// batchesBy breaks the batches of a watch, or those that replace everything.
func batchesBy(broken bool, wrap func(c *cache, into store.Batch[object]) store.Batch[object]) func(*cache, *writes, *reads) {
	return func(c *cache, w *writes, _ *reads) {
		begin := w.begin
		w.begin = func(self store.Store[object], replace bool) store.Batch[object] {
			b := begin(self, replace)
			if b == nil || replace != broken {
				return b
			}
			return wrap(c, b)
		}
	}
}

// applying breaks the batches of a watch alone: change gets all calls, and returns those to make.
func applying(change func([]said) []said) func(*cache, *writes, *reads) {
	return batchesBy(false, func(_ *cache, into store.Batch[object]) store.Batch[object] {
		return &altered{into: into, change: change}
	})
}

// listing breaks the batches that replace everything alone.
func listing(change func([]said) []said) func(*cache, *writes, *reads) {
	return batchesBy(true, func(_ *cache, into store.Batch[object]) store.Batch[object] {
		return &altered{into: into, change: change}
	})
}

func keyDeletion(s said) bool { return s.Type == store.Deletion && !s.FinalStateKnown }

func bad(s said) bool { return !s.kept && s.Err == nil && !keyDeletion(s) && !valid(s.Object) }

func failed(s said) bool { return s.Err != nil }

func without(drop func(said) bool) func([]said) []said {
	return func(all []said) []said { return slices.DeleteFunc(all, drop) }
}

// reordered moves some calls behind the others.
func reordered(last func(said) bool) func([]said) []said {
	return func(all []said) []said {
		var rest, moved []said
		for _, s := range all {
			if last(s) {
				moved = append(moved, s)
			} else {
				rest = append(rest, s)
			}
		}
		return append(rest, moved...)
	}
}

// forgetful returns the writes with an Err as rejections, and lets the resource version pass them.
type forgetful struct {
	altered
	of *cache
}

func (b *forgetful) Commit(version string) error {
	var lost []store.Rejection
	b.change = func(all []said) []said {
		for i, s := range all {
			if failed(s) {
				lost = append(lost, store.Rejection{Key: s.Key, Version: s.Version, Err: s.Err})
				all[i] = said{Write: store.Write[object]{Key: s.Key}, kept: true}
			}
		}
		return slices.DeleteFunc(all, func(s said) bool { _, ok := b.of.Get(s.Key); return s.kept && !ok })
	}
	if err := b.altered.Commit(version); err != nil || len(lost) == 0 {
		return err
	}
	return &store.RejectedError{Rejections: lost}
}

func forgetting(c *cache, into store.Batch[object]) store.Batch[object] {
	return &forgetful{altered{into: into}, c}
}

// early makes each write when it comes.
type early struct {
	store.Batch[object]
	of *cache
}

func (b early) Write(w store.Write[object]) error {
	if w.Err == nil && w.Type != store.Deletion && valid(w.Object) {
		_ = b.of.Add(w.Object)
	}
	return b.Batch.Write(w)
}

// versioned commits with another version.
type versioned struct {
	store.Batch[object]
	version func(string) string
}

func (b versioned) Commit(version string) error { return b.Batch.Commit(b.version(version)) }

// sticky keeps its writes in Discard, in Commit, or in both.
type sticky struct {
	altered
	discard, commit bool
}

func (b *sticky) Commit(version string) error {
	all := b.all
	err := b.altered.Commit(version)
	if b.commit {
		b.all = all
	}
	return err
}

func (b *sticky) Discard() {
	if !b.discard {
		b.altered.Discard()
	}
}

func unchanged(all []said) []said { return all }

func sticking(discard, commit bool) func(*cache, store.Batch[object]) store.Batch[object] {
	return func(_ *cache, into store.Batch[object]) store.Batch[object] {
		return &sticky{altered{into: into, change: unchanged}, discard, commit}
	}
}

const (
	ownClause      = "a store has batches of its own"
	orderClause    = "a batch makes its writes in order and at once"
	againClause    = "a batch can be used again"
	badClause      = "a batch leaves out what is bad"
	mismatchClause = "a batch rejects an object with another key than its write"
	errClause      = "an object with an Err keeps its old value"
	hasClause      = "Has tells states of objects apart"
	listClause     = "a batch that replaces everything becomes the content"
	listErrClause  = "a batch that replaces everything keeps what has an Err"
	lastClause     = "a batch that replaces everything makes the last write of a key"
)

// unkeyed leaves out the keys of objects.
func unkeyed(all []said) []said {
	for i := range all {
		if s := &all[i]; !s.kept && s.Err == nil && !keyDeletion(*s) {
			s.Key = store.Key{}
		}
	}
	return all
}

var brokenBatching = []mutant{
	{
		name: "there are no batches", clause: ownClause, unseen: noBatches,
		mutate: func(_ *cache, w *writes, _ *reads) {
			w.begin = func(store.Store[object], bool) store.Batch[object] { return nil }
		},
	},
	{
		name: "there are no batches of lists", clause: ownClause, unseen: noBatches,
		mutate: batchesBy(true, func(*cache, store.Batch[object]) store.Batch[object] { return nil }),
	},
	{
		name: "batches bypass a type that embeds the store", clause: ownClause, unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.begin = func(_ store.Store[object], replace bool) store.Batch[object] { return c.BeginBatch(c, replace) }
		},
	},
	{
		name: "a batch begins at the end", clause: orderClause, unseen: noBatches,
		mutate: applying(func(all []said) []said { slices.Reverse(all); return all }),
	},
	{
		name: "a batch shows writes before Commit", clause: orderClause, unseen: noBatches,
		mutate: batchesBy(false, func(c *cache, into store.Batch[object]) store.Batch[object] { return early{into, c} }),
	},
	{
		name: "a batch forgets deletions by key", clause: orderClause, unseen: noBatches,
		mutate: applying(without(keyDeletion)),
	},
	{
		name: "a batch forgets the version of a deletion by key", clause: orderClause, unseen: noBatches,
		mutate: applying(func(all []said) []said {
			for i := range all {
				if keyDeletion(all[i]) {
					all[i].Version = store.Version{}
				}
			}
			return all
		}),
	},
	{
		name: "a batch forgets the version of Commit", clause: orderClause, unseen: noBatches,
		mutate: batchesBy(false, func(_ *cache, into store.Batch[object]) store.Batch[object] {
			return versioned{into, func(string) string { return "" }}
		}),
	},
	{
		name: "a batch has the version of Commit alone", clause: orderClause, unseen: noBatches,
		mutate: batchesBy(false, func(c *cache, into store.Batch[object]) store.Batch[object] {
			return versioned{into, func(version string) string {
				if version == "" {
					return c.ResourceVersion()
				}
				return version
			}}
		}),
	},
	{
		name: "a batch makes discarded writes", clause: againClause, unseen: noBatches,
		mutate: batchesBy(false, sticking(true, false)),
	},
	{
		name: "a list has discarded writes", clause: againClause, unseen: noBatches,
		mutate: batchesBy(true, sticking(true, false)),
	},
	{
		name: "a batch has the writes of the last one", clause: againClause, unseen: noBatches,
		mutate: batchesBy(false, sticking(false, true)),
	},
	{
		name: "a list has the writes of the last one", clause: againClause, unseen: noBatches,
		mutate: batchesBy(true, sticking(false, true)),
	},
	{
		name: "a batch stops at what is bad", clause: badClause, unseen: noBatches,
		mutate: applying(func(all []said) []said {
			if i := slices.IndexFunc(all, bad); i >= 0 {
				return all[:i+1]
			}
			return all
		}),
	},
	{
		name: "a batch is silent about what is bad", clause: badClause, unseen: noBatches,
		mutate: applying(without(bad)),
	},
	{
		name: "a list is silent about what is bad", clause: badClause, unseen: noBatches,
		mutate: listing(without(bad)),
	},
	{
		name: "a batch ignores the key of an object", clause: mismatchClause, unseen: noBatches,
		mutate: applying(unkeyed),
	},
	{
		name: "a list ignores the key of an object", clause: mismatchClause, unseen: noBatches,
		mutate: listing(unkeyed),
	},
	{
		name: "a batch deletes what has an Err", clause: errClause, unseen: noBatches,
		mutate: applying(func(all []said) []said {
			for _, s := range slices.Clone(all) {
				if failed(s) {
					all = append(all, said{Write: store.Write[object]{Type: store.Deletion, Key: s.Key}})
				}
			}
			return all
		}),
	},
	{
		name: "a batch is silent about an Err", clause: errClause, unseen: noBatches,
		mutate: applying(without(failed)),
	},
	{
		name: "a batch forgets what has an Err", clause: errClause, unseen: noBatches,
		mutate: batchesBy(false, forgetting),
	},
	{
		name: "Has looks at the key alone", clause: hasClause, unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.has = func(key store.Key, _ store.Version, _ uint64) bool { _, ok := c.Get(key); return ok }
		},
	},
	{
		name: "Has takes empty versions for equal", clause: hasClause, unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.has = func(key store.Key, v store.Version, _ uint64) bool {
				o, ok := c.Get(key)
				return ok && o.UID == v.UID && o.ResourceVersion == v.ResourceVersion
			}
		},
	},
	{
		name: "Has is never true", clause: hasClause, unseen: noBatches,
		mutate: func(_ *cache, w *writes, _ *reads) {
			w.has = func(store.Key, store.Version, uint64) bool { return false }
		},
	},
	{
		name: "Has ignores the hash", clause: hasClause, unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.has = func(key store.Key, v store.Version, _ uint64) bool {
				o, ok := c.Get(key)
				return ok && store.VersionOf(o).Equal(v)
			}
		},
	},
	{
		name: "a list deletes what it keeps", clause: listClause, unseen: noBatches,
		mutate: listing(without(func(s said) bool { return s.kept })),
	},
	{
		name: "a list keeps what is not held", clause: listClause, unseen: noBatches,
		mutate: batchesBy(true, func(c *cache, into store.Batch[object]) store.Batch[object] {
			return &altered{into: into, change: without(func(s said) bool { _, ok := c.Get(s.Key); return s.kept && !ok })}
		}),
	},
	{
		name: "a list shows writes before Commit", clause: listClause, unseen: noBatches,
		mutate: batchesBy(true, func(c *cache, into store.Batch[object]) store.Batch[object] { return early{into, c} }),
	},
	{
		name: "a list deletes nothing", clause: listClause, unseen: noBatches,
		mutate: batchesBy(true, func(c *cache, _ store.Batch[object]) store.Batch[object] { return c.BeginBatch(c, false) }),
	},
	{
		name: "a list stores unchanged objects again", clause: listClause, unseen: noBatches,
		mutate: batchesBy(true, func(c *cache, into store.Batch[object]) store.Batch[object] {
			return &altered{into: into, change: func(all []said) []said {
				for _, s := range all {
					if s.Err == nil && s.Type == store.Modification && valid(s.Object) {
						_ = c.DeleteKey(mustKey(s.Object))
					}
				}
				return all
			}}
		}),
	},
	{
		name: "a list forgets what has an Err", clause: listErrClause, unseen: noBatches,
		mutate: batchesBy(true, forgetting),
	},
	{
		name: "a list deletes what has an Err", clause: listErrClause, unseen: noBatches,
		mutate: listing(func(all []said) []said {
			for i := range all {
				if failed(all[i]) { // of an object that is not held
					all[i].Key.Name += " "
				}
			}
			return all
		}),
	},
	{
		name: "a list takes an Err without a key for nothing", clause: listErrClause, unseen: noBatches,
		mutate: listing(func(all []said) []said {
			for i := range all {
				if failed(all[i]) {
					all[i].Version.UID = ""
				}
			}
			return all
		}),
	},
	{
		name: "a list makes the first write of a key", clause: lastClause, unseen: noBatches,
		mutate: listing(func(all []said) []said { slices.Reverse(all); return all }),
	},
	{
		name: "a list prefers what it keeps", clause: lastClause, unseen: noBatches,
		mutate: listing(reordered(func(s said) bool { return s.kept })),
	},
	{
		name: "a list prefers what has an Err", clause: lastClause, unseen: noBatches,
		mutate: listing(reordered(failed)),
	},
	{
		name: "a list prefers objects", clause: lastClause, unseen: noBatches,
		mutate: listing(reordered(func(s said) bool { return s.Type == store.Modification })),
	},
	{
		name: "a list ignores deletions", clause: lastClause, unseen: noBatches,
		mutate: listing(without(func(s said) bool { return s.Type == store.Deletion })),
	},
}
