package storetest_test

import (
	"errors"
	"slices"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

var errBroken = errors.New("broken")

// skipping breaks a write: it moves only the resource version if skip returns true for the held
// object, which may be nil, and the written one.
func skipping(c *cache, write func(object) error, skip func(held, o object) bool) func(object) error {
	return instead(c, write, skip, func(o object) error { return c.Bookmark(o.ResourceVersion) })
}

// instead breaks a write: it calls other if when returns true for the held and the written object.
func instead(c *cache, write func(object) error, when func(held, o object) bool, other func(object) error) func(object) error {
	return onValid(write, func(o object) error {
		if held, _ := c.Get(mustKey(o)); when(held, o) {
			return other(o)
		}
		return write(o)
	})
}

func unheld(held, _ object) bool { return held == nil }

var brokenStoring = []mutant{
	{
		name: "a fresh store is not empty", clause: "Add stores an object",
		mutate: func(c *cache, _ *writes, _ *reads) {
			if err := c.Add(storetest.New("n", "left over", "u", "1")); err != nil {
				panic(err)
			}
		},
	},
	{
		name: "Add stores nothing", clause: "Add stores an object",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.add = onValid(c.Add, func(o object) error { return c.Bookmark(o.ResourceVersion) })
		},
	},
	{
		name: "keys have no namespace", clause: "Add stores an object",
		mutate: func(_ *cache, _ *writes, r *reads) {
			get, all := r.get, r.all
			r.get = func(key store.Key) (object, bool) {
				for k, o := range all() {
					if k.Name == key.Name {
						return o, true
					}
				}
				return get(key)
			}
		},
	},
	{
		name: "Add keeps what is held", clause: "Add over a held key replaces the object",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.add = skipping(c, c.Add, func(held, _ object) bool { return held != nil })
		},
	},
	{
		name: "Update keeps what has another UID", clause: "Update replaces the object",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.update = skipping(c, c.Update, func(held, o object) bool { return held != nil && held.UID != o.UID })
		},
	},
	{
		name: "Update adds nothing", clause: "Update of an unknown key adds the object",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.update = skipping(c, c.Update, unheld)
		},
	},
	{
		name: "Delete looks at the UID", clause: "Delete removes by the key of the last state",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.del = skipping(c, c.Delete, func(held, o object) bool { return held != nil && held.UID != o.UID })
		},
	},
	{
		name: "Delete looks for the same state", clause: "Delete removes by the key of the last state",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.del = skipping(c, c.Delete, func(held, o object) bool { return held != nil && *held != *o })
		},
	},
	{
		name: "Delete fails for an unknown key", clause: "Delete of an unknown key changes no object",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.del = instead(c, c.Delete, unheld, func(object) error { return errBroken })
		},
	},
	{
		name: "DeleteKey removes nothing", clause: "DeleteKey removes the object under the key",
		mutate: func(_ *cache, w *writes, _ *reads) { w.deleteKey = func(store.Key) error { return nil } },
	},
	{
		name: "DeleteKey fails for an unknown key", clause: "DeleteKey of an unknown key changes nothing",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.deleteKey = func(key store.Key) error {
				if _, ok := c.Get(key); !ok {
					return errBroken
				}
				return c.DeleteKey(key)
			}
		},
	},
	{
		name: "Replace resurrects what was deleted", clause: "a deleted object can come again, and only then does",
		mutate: func(c *cache, w *writes, _ *reads) {
			var deleted []object
			w.del = onValid(c.Delete, func(o object) error {
				if held, ok := c.Get(mustKey(o)); ok {
					deleted = append(deleted, held)
				}
				return c.Delete(o)
			})
			w.replace = func(list []object, version string) error {
				for _, o := range deleted {
					if !has(list, mustKey(o)) {
						list = append(list, o)
					}
				}
				deleted = nil
				return c.Replace(list, version)
			}
		},
	},
}

// replaceBy breaks Replace alone.
func replaceBy(list func(*cache, []object) []object) func(*cache, *writes, *reads) {
	return func(c *cache, w *writes, _ *reads) {
		w.replace = func(l []object, version string) error { return c.Replace(list(c, l), version) }
	}
}

var brokenReplacing = []mutant{
	{
		name: "Replace keeps what is held under a key", clause: "Replace stores what is in the list",
		mutate: replaceBy(func(c *cache, list []object) []object {
			return swapHeld(c, list, func(object, object) bool { return true })
		}),
	},
	{
		name: "Replace forgets to delete", clause: "Replace removes what is not in the list",
		mutate: replaceBy(func(c *cache, list []object) []object { return append(heldBesides(c, list), list...) }),
	},
	{
		name: "Replace ignores an empty list", clause: "Replace by nothing empties the store",
		mutate: replaceBy(func(c *cache, list []object) []object {
			if len(list) == 0 {
				return heldBesides(c, nil)
			}
			return list
		}),
	},
	{
		name: "Replace stores unchanged objects again", clause: "Replace keeps the pointer of an unchanged object",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.replace = func(list []object, version string) error {
				for _, o := range list {
					if valid(o) {
						if err := c.DeleteKey(mustKey(o)); err != nil {
							return err
						}
					}
				}
				return c.Replace(list, version)
			}
		},
	},
	{
		name: "Replace takes empty versions for equal", clause: "Replace takes an object of unknown version as changed",
		mutate: replaceBy(func(c *cache, list []object) []object {
			return swapHeld(c, list, func(a, b object) bool { return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion })
		}),
	},
	{
		name: "Replace compares UIDs alone", clause: "Replace tells objects apart by UID and resource version",
		mutate: replaceBy(func(c *cache, list []object) []object {
			return swapHeld(c, list, func(a, b object) bool { return a.UID != "" && a.UID == b.UID })
		}),
	},
	{
		name: "Replace compares resource versions alone", clause: "Replace tells objects apart by UID and resource version",
		unseen: "no two states that it writes have one resource version",
		mutate: replaceBy(func(c *cache, list []object) []object {
			return swapHeld(c, list, func(a, b object) bool { return a.ResourceVersion != "" && a.ResourceVersion == b.ResourceVersion })
		}),
	},
	{
		name: "Replace keeps the first of two", clause: "Replace takes the last of two objects with one key",
		mutate: replaceBy(func(_ *cache, list []object) []object {
			var first []object
			for _, o := range list {
				if !valid(o) || !has(first, mustKey(o)) {
					first = append(first, o)
				}
			}
			return first
		}),
	},
	{
		name: "Replace keeps what is unchanged somewhere in the list", clause: "Replace takes the last of two objects with one key",
		mutate: replaceBy(func(c *cache, list []object) []object {
			list = slices.Clone(list)
			for _, o := range list {
				if !valid(o) || o.UID == "" || o.ResourceVersion == "" {
					continue
				}
				if held, ok := c.Get(mustKey(o)); ok && held.UID == o.UID && held.ResourceVersion == o.ResourceVersion {
					list = append(list, o)
				}
			}
			return list
		}),
	},
}
