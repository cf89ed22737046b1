package persist

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// model is a store, and what the file must hold at any moment.
type model struct {
	t       *rapid.T
	path    string
	options Options[*object]
	s       *Store[*object]
	version int

	// saved are the states that the file may have: the one that was written last, and
	// those after it, since nobody knows when too much was unwritten.
	saved []snapshot
}

// snapshot is a state of a store with its resource versions.
type snapshot struct {
	objects  map[store.Key]object
	versions map[store.Scope]string // the zero Scope for the cache itself
}

var scopes = []store.Scope{{Cluster: "west"}, {Cluster: "east", Namespace: "m"}, {Cluster: "east", Namespace: "n"}}

func (m *model) snapshot() snapshot {
	now := snapshot{held(m.s), map[store.Scope]string{{}: m.s.ResourceVersion()}}
	for _, p := range m.s.Cache().Partitions() {
		now.versions[p.Scope()] = p.ResourceVersion()
	}
	return now
}

func (m *model) open() {
	s, err := Open(m.path, storetest.ClusterKey, m.options)
	require.NoError(m.t, err)
	m.s = s
}

// door draws the destination of a write, and the namespace of its objects.
func (m *model) door() (store.Store[*object], store.Scope) {
	parts := m.s.Scopes()
	if len(parts) == 0 {
		return m.s, store.Scope{}
	}
	scope := rapid.SampledFrom(parts).Draw(m.t, "scope")
	p, err := m.s.Partition(scope)
	require.NoError(m.t, err)
	return p, scope
}

func (m *model) draw(scope store.Scope) *object {
	m.version++
	namespace := scope.Namespace
	if namespace == "" {
		namespace = rapid.SampledFrom([]string{"m", "n", "o\x00", ""}).Draw(m.t, "namespace")
	}
	name := rapid.SampledFrom([]string{"a", "b", "c", "c\x00", "c\x00\x01", "ÿ"}).Draw(m.t, "name")
	uid := rapid.SampledFrom([]string{"1", "2", ""}).Draw(m.t, "uid")
	o := storetest.New(namespace, name, uid, strconv.Itoa(m.version))
	o.Cluster = scope.Cluster
	if rapid.IntRange(0, 9).Draw(m.t, "good") == 0 {
		o.Payload = bad
	}
	return o
}

func (m *model) wrote(err error) {
	require.NoError(m.t, err)
	m.saved = append(m.saved, m.snapshot())
}

func (m *model) batch(*rapid.T) {
	to, scope := m.door()
	var writes []store.Write[*object]
	bookmarked := false
	for range rapid.IntRange(1, 4).Draw(m.t, "writes") {
		o := m.draw(scope)
		switch rapid.IntRange(0, 3).Draw(m.t, "write") {
		case 0:
			writes = append(writes, store.Write[*object]{Type: store.Deletion, Object: o, FinalStateKnown: true})
		case 1:
			key := store.Key{Cluster: o.Cluster, Namespace: o.Namespace, Name: o.Name}
			writes = append(writes, store.Write[*object]{Type: store.Deletion, Key: key})
		case 2:
			bookmarked = true
		default:
			writes = append(writes, store.Write[*object]{Type: store.Modification, Object: o})
		}
	}
	version := ""
	if bookmarked {
		version = strconv.Itoa(m.version)
	}
	m.wrote(commit(to, false, version, writes...))
}

func (m *model) replace(*rapid.T) {
	to, scope := m.door()
	var all []*object
	for range rapid.IntRange(0, 8).Draw(m.t, "objects") {
		all = append(all, m.draw(scope))
	}
	m.version++
	m.wrote(to.Replace(all, strconv.Itoa(m.version)))
}

// split adds a partition. That alone is no commit, so that the file is as it was.
func (m *model) split(*rapid.T) {
	scope := rapid.SampledFrom(scopes).Draw(m.t, "new scope")
	p, err := m.s.Partition(scope)
	require.NoError(m.t, err)
	m.version++
	m.wrote(p.Bookmark(strconv.Itoa(m.version)))
	m.wrote(p.Replace(nil, strconv.Itoa(m.version)))
}

func (m *model) drop(*rapid.T) {
	err := m.s.Drop(rapid.SampledFrom(scopes).Draw(m.t, "old scope"))
	m.wrote(err)
}

// written requires that all could be written that can be encoded.
func (m *model) written(err error) {
	for _, o := range held(m.s) {
		if o.Payload == bad {
			lack, ok := errors.AsType[*EncodeError](err)
			require.True(m.t, ok, "%v", err)
			require.Equal(m.t, m.s.State().Unencoded, lack.More+1)
			return
		}
	}
	require.NoError(m.t, err)
}

// readAs reports whether a file with this state may be read as another one: that lacks the
// latest state of what cannot be encoded, and the versions of where that is.
func (s snapshot) readAs(other snapshot) bool {
	versions, objects, others := maps.Clone(s.versions), map[store.Key]object{}, maps.Clone(other.objects)
	for key, o := range s.objects {
		if o.Payload != bad {
			objects[key] = o
			continue
		}
		if old, ok := others[key]; ok && (old.Payload == bad || old.UID != o.UID && old.UID != "" && o.UID != "") {
			return false
		}
		delete(others, key)
		own := store.Scope{}
		for scope := range versions {
			if scope != own && scope.Contains(key) {
				own = scope
			}
		}
		versions[own] = ""
	}
	return maps.Equal(objects, others) && maps.Equal(versions, other.versions)
}

func (m *model) flush(*rapid.T) {
	m.written(m.s.Flush())
	m.saved = []snapshot{m.snapshot()}
}

// crash opens the file anew, without the unwritten changes.
func (m *model) crash(*rapid.T) {
	m.s.stop()
	require.NoError(m.t, m.s.file.Close())
	m.open()
	now := m.snapshot()
	for _, one := range m.saved {
		if one.readAs(now) {
			m.saved = []snapshot{now}
			return
		}
	}
	m.t.Fatalf("the file has %v,\nwhich is none of %v", now, m.saved)
}

func (m *model) close(*rapid.T) {
	before := m.snapshot()
	m.written(m.s.Close())
	m.open()
	require.True(m.t, before.readAs(m.snapshot()), "%v is not %v", m.snapshot(), before)
	m.saved = []snapshot{m.snapshot()}
}

func TestFileAgainstAModel(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &model{t: rt, path: filepath.Join(dir, fmt.Sprint(n)), version: 100}
		m.options = Options[*object]{MaxUnwritten: rapid.SampledFrom([]int{1, 2000, 1 << 20}).Draw(rt, "most"), chunk: 3, Codec: picky{JSON[*object]()}}
		m.open()
		defer func() { m.s.Close() }()
		m.saved = []snapshot{m.snapshot()}
		rt.Repeat(map[string]func(*rapid.T){
			"batch": m.batch, "batch 2": m.batch, "replace": m.replace, "split": m.split, "drop": m.drop,
			"flush": m.flush, "crash": m.crash, "close": m.close,
		})
	})
}

func TestKeysInAFileAreInOrderAndComeBack(t *testing.T) {
	part := rapid.StringOf(rapid.RuneFrom([]rune{0, 1, 2, 'a', 255, 0xFFFD}))
	key := rapid.Custom(func(t *rapid.T) store.Key {
		return store.Key{Cluster: part.Draw(t, "cluster"), Namespace: part.Draw(t, "namespace"), Name: part.Draw(t, "name")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		back, ok := keyOfBytes(keyBytes(a))
		require.True(t, ok)
		require.Equal(t, a, back)
		require.Equal(t, a.Compare(b), bytes.Compare(keyBytes(a), keyBytes(b)))
	})
}
