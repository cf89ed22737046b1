package storetest_test

import (
	"cmp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/store"
)

// ordered breaks the order of both walks.
func ordered(compare func(a, b store.Key) int) func(*cache, *writes, *reads) {
	return func(c *cache, _ *writes, r *reads) {
		r.all = func() seq { return inOrder(c.All(), compare) }
		r.namespace = func(namespace string) seq { return inOrder(c.Namespace(namespace), compare) }
	}
}

// where yields the objects whose keys are kept.
func where(walk seq, keep func(store.Key) bool) seq {
	return func(yield func(store.Key, object) bool) {
		for key, o := range walk {
			if keep(key) && !yield(key, o) {
				return
			}
		}
	}
}

// stubborn yields on after the body has left.
func stubborn(walk seq) seq {
	return func(yield func(store.Key, object) bool) {
		for key, o := range walk {
			yield(key, o)
		}
	}
}

// live yields the objects that are held when the walk arrives.
func live(c *cache, walk seq) seq {
	return func(yield func(store.Key, object) bool) {
		for key := range walk {
			if o, ok := c.Get(key); ok && !yield(key, o) {
				return
			}
		}
	}
}

const unseenWalks = "it neither breaks nor writes in a walk"

var brokenReading = []mutant{
	{
		name: "walks run backwards", clause: "All runs in the order of keys",
		mutate: ordered(func(a, b store.Key) int { return b.Compare(a) }),
	},
	{
		name: "walks sort joined keys", clause: "All runs in the order of keys",
		mutate: ordered(func(a, b store.Key) int { return cmp.Compare(a.String(), b.String()) }),
	},
	{
		name: "namespaces run backwards", clause: "Namespace runs over one namespace in the order of keys",
		mutate: func(c *cache, _ *writes, r *reads) {
			r.namespace = func(namespace string) seq {
				return inOrder(c.Namespace(namespace), func(a, b store.Key) int { return b.Compare(a) })
			}
		},
	},
	{
		name: "namespaces are searched by prefix", clause: "Namespace runs over one namespace in the order of keys",
		mutate: func(c *cache, _ *writes, r *reads) {
			r.namespace = func(namespace string) seq {
				return where(c.All(), func(key store.Key) bool {
					return key.Namespace == namespace || namespace != "" && strings.HasPrefix(key.Namespace, namespace)
				})
			}
		},
	},
	{
		name: "the empty namespace is all of them", clause: "Namespace of an unknown namespace is empty",
		mutate: func(c *cache, _ *writes, r *reads) {
			r.namespace = func(namespace string) seq {
				if namespace == "" {
					return c.All()
				}
				return c.Namespace(namespace)
			}
		},
	},
	{
		name: "namespaces come before clusters", clause: "clusters come first in the order, and share namespaces",
		unseen: "it has no clusters",
		mutate: ordered(func(a, b store.Key) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), a.Compare(b))
		}),
	},
	{
		name: "namespaces are those of no cluster", clause: "clusters come first in the order, and share namespaces",
		unseen: "it has no clusters",
		mutate: func(c *cache, _ *writes, r *reads) {
			r.namespace = func(namespace string) seq {
				return where(c.Namespace(namespace), func(key store.Key) bool { return key.Cluster == "" })
			}
		},
	},
	{
		name: "walks go on after a break", clause: "a walk can be left early",
		unseen: unseenWalks,
		mutate: func(c *cache, _ *writes, r *reads) { r.all = func() seq { return stubborn(c.All()) } },
	},
	{
		name: "namespaces go on after a break", clause: "a walk can be left early",
		unseen: unseenWalks,
		mutate: func(c *cache, _ *writes, r *reads) {
			r.namespace = func(namespace string) seq { return stubborn(c.Namespace(namespace)) }
		},
	},
	{
		name: "Len counts additions", clause: "Len counts the objects",
		mutate: func(c *cache, w *writes, r *reads) {
			var mu sync.Mutex
			n := 0
			w.add = func(o object) error {
				mu.Lock()
				defer mu.Unlock()
				n++
				return c.Add(o)
			}
			r.length = func() int {
				mu.Lock()
				defer mu.Unlock()
				return n
			}
		},
	},
	{
		name: "a walk shows what is held when it arrives", clause: "a walk sees one state although its body writes",
		unseen: unseenWalks,
		mutate: func(c *cache, _ *writes, r *reads) { r.all = func() seq { return live(c, c.All()) } },
	},
	{
		name: "a namespace shows what is held when it arrives", clause: "a walk sees one state although its body writes",
		unseen: unseenWalks,
		mutate: func(c *cache, _ *writes, r *reads) {
			r.namespace = func(namespace string) seq { return live(c, c.Namespace(namespace)) }
		},
	},
	{
		name: "a walk holds a lock", clause: "a walk sees one state although its body writes",
		unseen:    unseenWalks,
		impatient: true,
		mutate: func(c *cache, w *writes, r *reads) {
			var mu sync.RWMutex
			w.del = func(o object) error {
				mu.Lock()
				defer mu.Unlock()
				return c.Delete(o)
			}
			r.all = func() seq {
				return func(yield func(store.Key, object) bool) {
					mu.RLock()
					defer mu.RUnlock()
					c.All()(yield)
				}
			}
		},
	},
}

const unseenReaders = "it reads between the writes alone"

// window is the moment in which a write is half done. It is left once others have
// read in it, or if nobody seems to.
type window struct{ reads atomic.Int64 }

// watch counts reads.
func (w *window) watch(r *reads) {
	get, all := r.get, r.all
	r.get = func(key store.Key) (object, bool) { defer w.reads.Add(1); return get(key) }
	r.all = func() seq { w.reads.Add(1); return all() }
}

func (w *window) open() {
	const enough, nobody = 10, 100
	before := w.reads.Load()
	for i := 0; i < nobody && w.reads.Load() < before+enough; i++ {
		runtime.Gosched()
	}
}

var brokenConcurrency = []mutant{
	{
		name: "the resource version comes before the object", clause: "a resource version is never visible before its objects",
		unseen: unseenReaders,
		mutate: func(c *cache, w *writes, r *reads) {
			v, half := &version{}, &window{}
			v.set("")
			half.watch(r)
			early := func(write func(object) error) func(object) error {
				return onValid(write, func(o object) error {
					v.set(o.ResourceVersion)
					half.open()
					return write(o)
				})
			}
			w.add, w.update, w.del = early(c.Add), early(c.Update), early(c.Delete)
			w.replace = func(list []object, s string) error { v.set(s); return c.Replace(list, s) }
			w.version, r.version = v.get, v.get
		},
	},
	{
		name: "the resource version comes before the list", clause: "a resource version is never visible before its objects",
		unseen: unseenReaders,
		mutate: func(c *cache, w *writes, r *reads) {
			v, half := &version{}, &window{}
			v.set("")
			half.watch(r)
			showVersion(w, r, func(_, _ string, _ error, _, right string) string { v.set(right); return right })
			replace := w.replace
			w.replace = func(list []object, s string) error {
				v.set(s)
				half.open()
				return replace(list, s)
			}
			w.version, r.version = v.get, v.get
		},
	},
	{
		name: "Replace works in two steps", clause: "readers see whole commits while others are made",
		unseen: unseenReaders,
		mutate: func(c *cache, w *writes, r *reads) {
			half := &window{}
			half.watch(r)
			w.replace = func(list []object, s string) error {
				gone := heldBesides(c, list)
				if err := c.Replace(append(gone, list...), s); err != nil {
					return c.Replace(list, s)
				}
				half.open()
				return c.Replace(list, s)
			}
		},
	},
	{
		name: "Len is counted by steps", clause: "readers see whole commits while others are made",
		unseen: unseenReaders,
		mutate: func(c *cache, _ *writes, r *reads) {
			r.length = func() int {
				n, before, all := 0, c.ResourceVersion(), c.Snapshot()
				for i := 0; i < 100 && c.ResourceVersion() == before; i++ {
					runtime.Gosched()
				}
				for key := range all.All() {
					if _, ok := c.Get(key); ok {
						n++
					}
				}
				return n
			}
		},
	},
}
