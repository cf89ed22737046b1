package overlay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a server, a cache that is behind it by some events, and a program whose writes
// are reported late, in any order.
type world struct {
	t       *rapid.T
	into    store.Store[*object] // the cache or a partition of it
	cache   *store.Cache[*object]
	overlay *Overlay[*object]
	byValue *Index[string, *object]

	version int
	objects map[store.Key]*object // on the server
	log     []happening
	seen    int // how many of the log the cache has been told
	upTo    int // the last version that it received
	answers []*object
	newest  map[store.Key]*object // of the writes that were told to the overlay
}

type happening struct {
	deleted bool
	object  *object
}

func newWorld(t *rapid.T, partitioned bool) *world {
	w := &world{t: t, cache: store.New(store.ObjectKey[*object]), objects: map[store.Key]*object{}, newest: map[store.Key]*object{}, version: 1}
	w.into = w.cache
	if partitioned {
		partition, err := w.cache.Partition(store.Scope{Namespace: "ns"})
		require.NoError(t, err)
		w.into = partition
	}
	w.overlay = New(w.cache, time.Hour)
	var err error
	w.byValue, err = AddIndex(w.overlay, "payload", func(o *object) []string { return []string{o.Payload} })
	require.NoError(t, err)
	return w
}

// write changes an object on the server. The answer to it may be told later.
func (w *world) write(key store.Key, deleted bool) {
	held := w.objects[key]
	if held == nil && deleted {
		return
	}
	w.version++
	next := storetest.New(key.Namespace, key.Name, "uid-"+strconv.Itoa(w.version), strconv.Itoa(w.version))
	next.Payload = rapid.SampledFrom([]string{"x", "y"}).Draw(w.t, "payload")
	if held != nil {
		next.UID = held.UID
	}
	w.log = append(w.log, happening{deleted, next})
	if deleted {
		delete(w.objects, key)
		return
	}
	w.objects[key] = next
	w.answers = append(w.answers, next)
}

// watch tells the cache of the next events, in one commit.
func (w *world) watch(n int) {
	var writes []store.Write[*object]
	for ; n > 0 && w.seen < len(w.log); n-- {
		one := w.log[w.seen]
		w.seen++
		w.upTo, _ = strconv.Atoi(one.object.ResourceVersion)
		if one.deleted {
			writes = append(writes, store.Write[*object]{Type: store.Deletion, Object: one.object, FinalStateKnown: true})
		} else {
			writes = append(writes, store.Write[*object]{Type: store.Modification, Object: one.object})
		}
	}
	require.NoError(w.t, commit(w.into, false, "", writes...))
}

// list tells the cache what the server holds. If something else is lacking, the
// resource version stays where it was.
func (w *world) list(lacking bool) {
	var writes []store.Write[*object]
	for _, o := range w.objects {
		writes = append(writes, store.Write[*object]{Type: store.Addition, Object: o})
	}
	if lacking {
		writes = append(writes, store.Write[*object]{Key: store.Key{Namespace: "ns", Name: "bad"}, Err: errors.New("bad")})
	}
	_ = commit(w.into, true, strconv.Itoa(w.version), writes...)
	w.seen, w.upTo = len(w.log), w.version
}

func (w *world) tell(n int) {
	told := w.answers[n]
	w.answers = slices.Delete(w.answers, n, n+1)
	require.NoError(w.t, w.overlay.Wrote(told))
	key, _ := store.ObjectKey(told)
	if newest := w.newest[key]; newest == nil || !reached(newest.ResourceVersion, told.ResourceVersion) {
		w.newest[key] = told
	}
}

// check compares everything that can be read with what the program must see: its newest
// write, unless the cache has been told of something later, and else the cache.
func (w *world) check() {
	want := map[store.Key]*object{}
	for key, held := range w.cache.All() {
		want[key] = held
	}
	for key, written := range w.newest {
		if version, _ := strconv.Atoi(written.ResourceVersion); version > w.upTo {
			want[key] = written
		}
	}
	sorted := slices.SortedFunc(maps.Keys(want), store.Key.Compare)
	var keys, inNamespace, values, wantValues []string
	for key, got := range w.overlay.All() {
		require.Equal(w.t, want[key], got)
		keys = append(keys, key.String())
		seen, ok := w.overlay.Get(key)
		require.True(w.t, ok)
		require.Equal(w.t, got, seen)
	}
	require.Equal(w.t, fmt.Sprint(sorted), fmt.Sprint(keys))
	require.Equal(w.t, len(sorted), w.overlay.Len())
	for key := range w.overlay.Namespace("ns") {
		inNamespace = append(inNamespace, key.String())
	}
	require.Equal(w.t, keys, inNamespace)
	for key, got := range w.byValue.Get("x") {
		require.Equal(w.t, want[key], got)
		values = append(values, key.String())
	}
	for _, key := range sorted {
		if want[key].Payload == "x" {
			wantValues = append(wantValues, key.String())
		}
	}
	require.Equal(w.t, wantValues, values)
	for _, name := range names {
		key := store.Key{Namespace: "ns", Name: name}
		got, ok := w.overlay.Get(key)
		require.Equal(w.t, want[key] != nil, ok)
		require.Equal(w.t, want[key], got)
	}
}

var names = []string{"a", "b", "c"}

func TestEveryInterleavingOfWritesAndCommits(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("partitioned %v", partitioned), rapid.MakeCheck(func(t *rapid.T) {
			w := newWorld(t, partitioned)
			defer w.overlay.Close()
			if rapid.Bool().Draw(t, "listed") {
				w.list(false)
			}
			key := func(t *rapid.T) store.Key {
				return store.Key{Namespace: "ns", Name: rapid.SampledFrom(names).Draw(t, "name")}
			}
			t.Repeat(map[string]func(*rapid.T){
				"write":  func(t *rapid.T) { w.write(key(t), false) },
				"delete": func(t *rapid.T) { w.write(key(t), true) },
				"watch":  func(t *rapid.T) { w.watch(rapid.IntRange(1, 4).Draw(t, "events")) },
				"list":   func(t *rapid.T) { w.list(rapid.Bool().Draw(t, "lacking")) },
				"bookmark": func(t *rapid.T) {
					if w.seen == len(w.log) {
						w.upTo = w.version
						require.NoError(t, w.into.Bookmark(strconv.Itoa(w.version)))
					}
				},
				"tell": func(t *rapid.T) {
					if len(w.answers) > 0 {
						w.tell(rapid.IntRange(0, len(w.answers)-1).Draw(t, "answer"))
					}
				},
				"": func(*rapid.T) { w.check() },
			})
		}))
	}
}

// A reader that runs while the cache and the writes change never goes back.
func TestReadsNeverGoBack(t *testing.T) {
	cache, o := over(t, "1", pod("u", "1"))
	const last = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := 1
		for seen < last {
			for _, read := range []func() *object{
				func() *object { got, _ := o.Get(podKey); return got },
				func() (got *object) {
					for _, got = range o.All() {
					}
					return got
				},
			} {
				version, _ := strconv.Atoi(read().ResourceVersion)
				if version < seen {
					t.Errorf("read %d after %d", version, seen)
					return
				}
				seen = version
			}
		}
	}()
	for version := 2; version <= last; version++ {
		updated := storetest.New("ns", "pod", "u", strconv.Itoa(version))
		if version%3 > 0 {
			require.NoError(t, o.Wrote(updated))
		}
		if version%2 > 0 || version == last {
			require.NoError(t, cache.Update(updated))
		}
	}
	<-done
}
