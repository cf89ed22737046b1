package storetest_test

import (
	"bytes"
	"iter"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mutant is a store with one mistake, and the clause that has to find it.
type mutant struct {
	name   string
	clause string
	// unseen is why the random writes cannot find the mistake, if they cannot.
	unseen string
	// impatient shortens the wait for what never ends.
	impatient bool
	mutate    func(*cache, *writes, *reads)
}

// inChild is set in the process in which the suite runs on broken stores.
const inChild = "KUBEREFLECTOR_STORETEST_BROKEN"

// sound is the mutant without a mistake.
const sound = "nothing is broken"

// TestSuiteCatchesBrokenStores runs the suite on stores that are wrong in one
// point each, in another process, because the suite fails its test; and demands
// that the clause about that point failed, and that there is such a store for
// every clause.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	all := slices.Concat(brokenStoring, brokenReplacing, brokenReading, brokenVersions, brokenRejecting, brokenBatching, brokenConcurrency)
	if os.Getenv(inChild) != "" {
		for _, m := range append(all, mutant{name: sound, mutate: func(*cache, *writes, *reads) {}}) {
			t.Run(m.name, func(t *testing.T) {
				if m.impatient {
					defer storetest.SetPatience(time.Second)()
				}
				storetest.RunBatches(t, m.open)
			})
		}
		return
	}

	results := childResults(t)
	require.Contains(t, results, sound, "the other process ended too early")
	unbroken := slices.Sorted(maps.Keys(results[sound]))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			clauses := results[m.name]
			require.Contains(t, clauses, m.clause, "no such clause")
			assert.Equal(t, "FAIL", clauses[m.clause], "%q finds nothing", m.clause)
			if m.unseen == "" {
				assert.Equal(t, "FAIL", clauses[storetest.ModelClause], "writes at random find nothing")
			}
		})
	}
	for _, clause := range unbroken {
		assert.Equal(t, "PASS", results[sound][clause], "%q fails for a sound store", clause)
		broken := slices.ContainsFunc(all, func(m mutant) bool { return m.clause == clause })
		assert.True(t, broken || clause == storetest.ModelClause, "no broken store shows that %q can fail", clause)
	}
}

var resultLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): TestSuiteCatchesBrokenStores/([^/\n]+)/(.+) \([0-9.]+s\)$`)

// childResults returns what became of each clause of each mutant.
func childResults(t *testing.T) map[string]map[string]string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	limit := time.Duration(0) // none, or what is left for this process, whose end would not end the other one
	if deadline, ok := t.Deadline(); ok {
		limit = max(time.Until(deadline)-10*time.Second, time.Second)
	}
	command := exec.CommandContext(t.Context(), self, "-test.run=^TestSuiteCatchesBrokenStores$", "-test.v", "-test.timeout="+limit.String(),
		// The same sequences each time, and no search for shorter ones.
		"-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	command.Env = append(os.Environ(), inChild+"=yes")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "broken stores passed the suite:\n%s", out)
	require.False(t, bytes.Contains(out, []byte("\npanic: ")) || bytes.Contains(out, []byte("\nfatal error: ")),
		"the suite did not survive a broken store:\n%s", out)

	results := map[string]map[string]string{}
	for _, line := range resultLine.FindAllSubmatch(out, -1) {
		name := strings.ReplaceAll(string(line[2]), "_", " ")
		if results[name] == nil {
			results[name] = map[string]string{}
		}
		results[name][strings.ReplaceAll(string(line[3]), "_", " ")] = string(line[1])
	}
	return results
}

type (
	cache = store.Cache[object]
	seq   = iter.Seq2[store.Key, object]
)

// writes is a BatchStore with methods that a test can swap.
type writes struct {
	add, update, del func(object) error
	deleteKey        func(store.Key) error
	replace          func([]object, string) error
	bookmark         func(string) error
	version          func() string
	has              func(store.Key, store.Version, uint64) bool
	begin            func(self store.Store[object], replace bool) store.Batch[object]
}

var _ store.BatchStore[object] = (*writes)(nil)

func (w *writes) Add(o object) error                          { return w.add(o) }
func (w *writes) Update(o object) error                       { return w.update(o) }
func (w *writes) Delete(o object) error                       { return w.del(o) }
func (w *writes) DeleteKey(key store.Key) error               { return w.deleteKey(key) }
func (w *writes) Replace(list []object, version string) error { return w.replace(list, version) }
func (w *writes) Bookmark(version string) error               { return w.bookmark(version) }
func (w *writes) ResourceVersion() string                     { return w.version() }

func (w *writes) Has(key store.Key, v store.Version, hash uint64) bool { return w.has(key, v, hash) }

func (w *writes) BeginBatch(self store.Store[object], replace bool) store.Batch[object] {
	return w.begin(self, replace)
}

// reads is a Reader with methods that a test can swap.
type reads struct {
	get       func(store.Key) (object, bool)
	all       func() seq
	namespace func(string) seq
	length    func() int
	version   func() string
}

func (r *reads) Get(key store.Key) (object, bool) { return r.get(key) }
func (r *reads) All() seq                         { return r.all() }
func (r *reads) Namespace(namespace string) seq   { return r.namespace(namespace) }
func (r *reads) Len() int                         { return r.length() }
func (r *reads) ResourceVersion() string          { return r.version() }

// open returns a good store that was broken by a mutant.
func (m mutant) open() (store.Store[object], store.Reader[object]) {
	c := store.New(storetest.ClusterKey)
	w := &writes{c.Add, c.Update, c.Delete, c.DeleteKey, c.Replace, c.Bookmark, c.ResourceVersion, c.Has, nil}
	w.begin = func(self store.Store[object], replace bool) store.Batch[object] {
		if self != store.Store[object](w) {
			return nil
		}
		return c.BeginBatch(c, replace)
	}
	r := &reads{c.Get, c.All, c.Namespace, c.Len, c.ResourceVersion}
	m.mutate(c, w, r)
	return w, r
}

// valid says whether a cache takes an object.
func valid(o object) bool { return o != nil && o.Name != "" }

// onValid calls f for the objects that can be taken and the original for others.
func onValid(original, f func(object) error) func(object) error {
	return func(o object) error {
		if !valid(o) {
			return original(o)
		}
		return f(o)
	}
}

func mustKey(o object) store.Key {
	key, err := storetest.ClusterKey(o)
	if err != nil {
		panic(err)
	}
	return key
}

func has(list []object, key store.Key) bool {
	return slices.ContainsFunc(list, func(o object) bool { return valid(o) && mustKey(o) == key })
}

// held returns what a cache holds and a list has not.
func heldBesides(c *cache, list []object) []object {
	var rest []object
	for key, o := range c.All() {
		if !has(list, key) {
			rest = append(rest, o)
		}
	}
	return rest
}

// swapHeld returns a list in which the held object takes the place of each that
// same says is the same.
func swapHeld(c *cache, list []object, same func(held, listed object) bool) []object {
	list = slices.Clone(list)
	for i, o := range list {
		if !valid(o) {
			continue
		}
		if held, ok := c.Get(mustKey(o)); ok && same(held, o) {
			list[i] = held
		}
	}
	return list
}

// inOrder walks over what a walk yields in another order.
func inOrder(walk seq, compare func(a, b store.Key) int) seq {
	return func(yield func(store.Key, object) bool) {
		objects := map[store.Key]object{}
		var keys []store.Key
		for key, o := range walk {
			objects[key] = o
			keys = append(keys, key)
		}
		slices.SortStableFunc(keys, compare)
		for _, key := range keys {
			if !yield(key, objects[key]) {
				return
			}
		}
	}
}

// version is a resource version that is shown in place of the cache's.
type version struct{ shown atomic.Pointer[string] }

func (v *version) set(s string) { v.shown.Store(&s) }
func (v *version) get() string  { return *v.shown.Load() }

// showVersion lets a mutant decide what resource version is seen after a write:
// it is given the write's name, the version that the write had, its error, and the
// version that is right, and returns the one to show.
func showVersion(w *writes, r *reads, after func(write, told string, err error, shown, right string) string) {
	right := w.version
	v := &version{}
	v.set("")
	moved := func(write, told string, err error) error {
		v.set(after(write, told, err, v.get(), right()))
		return err
	}
	single := func(name string, write func(object) error) func(object) error {
		return func(o object) error {
			told := ""
			if o != nil {
				told = o.ResourceVersion
			}
			return moved(name, told, write(o))
		}
	}
	w.add, w.update, w.del = single("Add", w.add), single("Update", w.update), single("Delete", w.del)
	deleteKey, replace, bookmark := w.deleteKey, w.replace, w.bookmark
	w.deleteKey = func(key store.Key) error { return moved("DeleteKey", "", deleteKey(key)) }
	w.replace = func(list []object, s string) error { return moved("Replace", s, replace(list, s)) }
	w.bookmark = func(s string) error { return moved("Bookmark", s, bookmark(s)) }
	w.version, r.version = v.get, v.get
}
