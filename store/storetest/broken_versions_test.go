package storetest_test

import (
	"errors"
	"strconv"

	"github.com/kubereflector/kubereflector/store"
)

// showing breaks nothing but the resource version.
func showing(after func(write, told string, err error, shown, right string) string) func(*cache, *writes, *reads) {
	return func(_ *cache, w *writes, r *reads) { showVersion(w, r, after) }
}

// notAfter is a store whose resource version does not follow one kind of write.
func notAfter(not string) func(*cache, *writes, *reads) {
	return showing(func(write, _ string, _ error, shown, right string) string {
		if write == not {
			return shown
		}
		return right
	})
}

// neverBack is a store whose resource version some writes do not lower.
func neverBack(by func(write string) bool) func(*cache, *writes, *reads) {
	return showing(func(write, _ string, _ error, shown, right string) string {
		before, err1 := strconv.Atoi(shown)
		now, err2 := strconv.Atoi(right)
		if err1 == nil && err2 == nil && now < before && by(write) {
			return shown
		}
		return right
	})
}

var brokenVersions = []mutant{
	{
		name: "single objects make a resource version", clause: "the resource version is empty before the first Replace",
		mutate: showing(func(_, told string, err error, _, right string) string {
			if right == "" && err == nil {
				return told
			}
			return right
		}),
	},
	{
		name: "the resource version does not follow Replace", clause: "the resource version follows Replace",
		mutate: notAfter("Replace"),
	},
	{
		name: "Replace has the version of its last object", clause: "the resource version follows Replace",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.replace = func(list []object, version string) error {
				if n := len(list); n > 0 && valid(list[n-1]) {
					version = list[n-1].ResourceVersion
				}
				return c.Replace(list, version)
			}
		},
	},
	{
		name: "the resource version does not follow Add", clause: "the resource version follows stored objects",
		mutate: notAfter("Add"),
	},
	{
		name: "the resource version does not follow Update", clause: "the resource version follows stored objects",
		mutate: notAfter("Update"),
	},
	{
		name: "the resource version does not follow Delete", clause: "the resource version follows deletions",
		mutate: notAfter("Delete"),
	},
	{
		name: "a deletion of something unknown was not seen", clause: "the resource version follows deletions",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.del = instead(c, c.Delete, unheld, func(object) error { return nil })
		},
	},
	{
		name: "DeleteKey forgets the resource version", clause: "the resource version follows deletions",
		mutate: showing(func(write, _ string, _ error, _, right string) string {
			if write == "DeleteKey" {
				return ""
			}
			return right
		}),
	},
	{
		name: "the resource version does not follow Bookmark", clause: "the resource version follows bookmarks",
		mutate: notAfter("Bookmark"),
	},
	{
		name: "an empty resource version counts", clause: "an unknown resource version moves nothing",
		mutate: showing(func(write, told string, _ error, _, right string) string {
			if told == "" && write != "DeleteKey" {
				return ""
			}
			return right
		}),
	},
	{
		name: "resource versions have to be numbers", clause: "resource versions are opaque",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.update = onValid(c.Update, func(o object) error {
				if _, err := strconv.Atoi(o.ResourceVersion); err != nil {
					return err
				}
				return c.Update(o)
			})
		},
	},
	{
		name: "resource versions never go back", clause: "resource versions are opaque",
		mutate: neverBack(func(write string) bool { return write != "Replace" }),
	},
	{
		name: "Replace never lowers the resource version", clause: "the resource version follows Replace",
		mutate: neverBack(func(write string) bool { return write == "Replace" }),
	},
	{
		name: "the Reader's resource version lags", clause: "the resource version follows bookmarks",
		mutate: func(c *cache, w *writes, r *reads) {
			w.bookmark = func(version string) error {
				before := c.ResourceVersion()
				r.version = func() string { return before }
				return c.Bookmark(version)
			}
		},
	},
}

// onBad lets a mutant treat the objects that cannot be taken in its own way.
func onBad(f func(object) error) func(*cache, *writes, *reads) {
	return func(c *cache, w *writes, _ *reads) {
		instead := func(original func(object) error) func(object) error {
			return func(o object) error {
				if valid(o) {
					return original(o)
				}
				return f(o)
			}
		}
		w.add, w.update, w.del = instead(c.Add), instead(c.Update), instead(c.Delete)
	}
}

var brokenRejecting = []mutant{
	{
		name: "nil panics", clause: "a nil object is rejected",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.add = func(o object) error { _ = o.GetName(); return c.Add(o) }
		},
	},
	{
		name: "nil in a list panics", clause: "a nil object is rejected",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.replace = func(list []object, version string) error {
				for _, o := range list {
					_ = o.GetName()
				}
				return c.Replace(list, version)
			}
		},
	},
	{
		name: "bad objects are ignored", clause: "a nil object is rejected",
		mutate: onBad(func(object) error { return nil }),
	},
	{
		name: "bad objects are an error of another type", clause: "an object without a name is rejected",
		mutate: onBad(func(object) error { return store.ErrBadKey }),
	},
	{
		name: "rejections have no version", clause: "an object without a name is rejected",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.update = func(o object) error {
				err := c.Update(o)
				var rejected *store.RejectedError
				if errors.As(err, &rejected) {
					rejected.Rejections[0].Version = store.Version{}
				}
				return err
			}
		},
	},
	{
		name: "an object without a name is stored", clause: "an object without a name is rejected",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.add = func(o object) error {
				if o != nil && o.Name == "" {
					named := *o
					named.Name = "unnamed"
					o = &named
				}
				return c.Add(o)
			}
		},
	},
	{
		name: "Replace names the first rejection alone", clause: "Replace commits everything but the rejected objects",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.replace = func(list []object, version string) error {
				err := c.Replace(list, version)
				var rejected *store.RejectedError
				if errors.As(err, &rejected) {
					rejected.Rejections = rejected.Rejections[:1]
				}
				return err
			}
		},
	},
	{
		name: "Replace stops at a bad object", clause: "Replace commits everything but the rejected objects",
		mutate: replaceBy(func(c *cache, list []object) []object {
			var bad []object
			for _, o := range list {
				if !valid(o) {
					bad = append(bad, o)
				}
			}
			if len(bad) > 0 {
				return append(heldBesides(c, nil), bad...)
			}
			return list
		}),
	},
	{
		name: "Replace with a bad object deletes nothing", clause: "Replace commits everything but the rejected objects",
		mutate: replaceBy(func(c *cache, list []object) []object {
			for _, o := range list {
				if !valid(o) {
					return append(heldBesides(c, list), list...)
				}
			}
			return list
		}),
	},
	{
		name: "a rejected object is taken for missing", clause: "a rejected object keeps its old value in a Replace",
		mutate: func(c *cache, w *writes, _ *reads) {
			w.replace = func(list []object, version string) error {
				err := c.Replace(list, version)
				for _, o := range heldBesides(c, list) {
					_ = c.DeleteKey(mustKey(o))
				}
				return err
			}
		},
	},
	{
		name: "the resource version moves past a rejected object", clause: "the resource version stays before a rejected object",
		mutate: func(_ *cache, w *writes, r *reads) {
			complete := false
			showVersion(w, r, func(write, told string, err error, shown, right string) string {
				complete = complete || write == "Replace" && err == nil
				if complete && err == nil && told != "" {
					return told
				}
				if right == "" {
					return right
				}
				return shown
			})
		},
	},
	{
		name: "a list has its resource version whatever was rejected", clause: "a Replace with rejections leaves the resource version",
		mutate: showing(func(write, told string, _ error, _, right string) string {
			if write == "Replace" {
				return told
			}
			return right
		}),
	},
	{
		name: "a server that went back leaves the old resource version", clause: "a Replace with rejections that lowers the resource version leaves none",
		mutate: showing(func(write, _ string, err error, shown, right string) string {
			if right == "" && err != nil {
				return shown
			}
			return right
		}),
	},
	{
		name: "rejections are forgotten with the next object", clause: "the resource version stays before a rejected object",
		mutate: showing(func(write, told string, err error, _, right string) string {
			if write == "Add" && err == nil && told != "" && right != "" {
				return told
			}
			return right
		}),
	},
	{
		name: "rejections are never forgotten", clause: "a Replace without rejections ends the wait for rejected objects",
		mutate: func(_ *cache, w *writes, r *reads) {
			stuck := false
			showVersion(w, r, func(_, _ string, err error, shown, right string) string {
				if stuck = stuck || err != nil; stuck {
					return shown
				}
				return right
			})
		},
	},
}
