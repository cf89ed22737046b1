package storetest_test

import (
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// noBatches is why the random writes see no mistake in batches.
const noBatches = "it writes no batches"

// applying breaks Apply alone: it is given the writes and returns those to make.
func applying(change func(c *cache, writes []store.Write[object]) []store.Write[object]) func(*cache, *writes, *reads) {
	return func(c *cache, w *writes, _ *reads) {
		w.apply = func(batch *store.Batch[object]) error {
			var changed store.Batch[object]
			for _, w := range change(c, slices.Collect(batch.All())) {
				changed.Append(w)
			}
			return c.Apply(&changed)
		}
	}
}

// listing breaks ReplaceAll alone.
func listing(change func(*store.Listing[object])) func(*cache, *writes, *reads) {
	return func(c *cache, w *writes, _ *reads) {
		w.replaceAll = func(l store.Listing[object]) error {
			change(&l)
			return c.ReplaceAll(l)
		}
	}
}

func ofType(t store.WriteType) func(store.Write[object]) bool {
	return func(w store.Write[object]) bool { return w.Type == t }
}

var brokenBatching = []mutant{
	{
		name: "Apply begins at the end", clause: "Apply makes the writes of a batch in order", unseen: noBatches,
		mutate: applying(func(_ *cache, all []store.Write[object]) []store.Write[object] {
			slices.Reverse(all)
			return all
		}),
	},
	{
		name: "Apply forgets DeleteKey", clause: "Apply makes the writes of a batch in order", unseen: noBatches,
		mutate: applying(func(_ *cache, all []store.Write[object]) []store.Write[object] {
			return slices.DeleteFunc(all, ofType(store.WriteDeleteKey))
		}),
	},
	{
		name: "Apply forgets the version of a DeleteKey", clause: "Apply makes the writes of a batch in order", unseen: noBatches,
		mutate: applying(func(_ *cache, all []store.Write[object]) []store.Write[object] {
			for i := range all {
				if all[i].Type == store.WriteDeleteKey {
					all[i].Version = store.Version{}
				}
			}
			return all
		}),
	},
	{
		name: "Apply stops at what is bad", clause: "Apply leaves out what is bad", unseen: noBatches,
		mutate: applying(func(_ *cache, all []store.Write[object]) []store.Write[object] {
			for i, w := range all {
				if w.Type == store.WriteAdd && !valid(w.Object) {
					return all[:i+1]
				}
			}
			return all
		}),
	},
	{
		name: "Apply is silent about what is bad", clause: "Apply leaves out what is bad", unseen: noBatches,
		mutate: applying(func(_ *cache, all []store.Write[object]) []store.Write[object] {
			return slices.DeleteFunc(all, func(w store.Write[object]) bool { return w.Type == store.WriteAdd && !valid(w.Object) })
		}),
	},
	{
		name: "Apply deletes what is lacking", clause: "a lacking object keeps its old value in a batch", unseen: noBatches,
		mutate: applying(func(_ *cache, all []store.Write[object]) []store.Write[object] {
			for _, w := range slices.Clone(all) {
				if w.Type == store.WriteLack {
					all = append(all, w, store.Write[object]{Type: store.WriteDeleteKey, Key: w.Rejection.Key})
				}
			}
			return all
		}),
	},
	{
		name: "Apply forgets what is lacking", clause: "a lacking object keeps its old value in a batch", unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.apply = func(batch *store.Batch[object]) error {
				var rest store.Batch[object]
				var lacking []store.Rejection
				for w := range batch.All() {
					if w.Type == store.WriteLack {
						lacking = append(lacking, *w.Rejection)
					} else {
						rest.Append(w)
					}
				}
				if err := c.Apply(&rest); err != nil || len(lacking) == 0 {
					return err
				}
				return &store.RejectedError{Rejections: lacking}
			}
		},
	},
	{
		name: "Holds looks at the key alone", clause: "Holds tells states of objects apart", unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.holds = func(key store.Key, _ store.Version) bool { _, ok := c.Get(key); return ok }
		},
	},
	{
		name: "Holds takes empty versions for equal", clause: "Holds tells states of objects apart", unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.holds = func(key store.Key, v store.Version) bool {
				o, ok := c.Get(key)
				return ok && o.UID == v.UID && o.ResourceVersion == v.ResourceVersion
			}
		},
	},
	{
		name: "ReplaceAll deletes what is unchanged", clause: "ReplaceAll keeps what it is told of by key", unseen: noBatches,
		mutate: listing(func(l *store.Listing[object]) { l.Unchanged = nil }),
	},
	{
		name: "ReplaceAll prefers what is unchanged", clause: "ReplaceAll keeps what it is told of by key", unseen: noBatches,
		mutate: listing(func(l *store.Listing[object]) {
			l.Objects = slices.DeleteFunc(slices.Clone(l.Objects), func(o object) bool {
				return valid(o) && slices.Contains(l.Unchanged, mustKey(o))
			})
		}),
	},
	{
		name: "ReplaceAll forgets what is lacking", clause: "ReplaceAll keeps what it is told of by key", unseen: noBatches,
		mutate: func(c *cache, w *writes, _ *reads) {
			w.replaceAll = func(l store.Listing[object]) error {
				lacking := l.Lacking
				l.Lacking = nil
				if err := c.ReplaceAll(l); err != nil || len(lacking) == 0 {
					return err
				}
				return &store.RejectedError{Rejections: lacking}
			}
		},
	},
}
