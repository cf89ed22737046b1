package store

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/internal/versions"
)

// door is what the model knows of a partition, or of the cache itself.
type door struct {
	to       BatchStore[*corev1.Pod]
	scope    *Scope    // nil for the cache itself
	at       *progress // of to
	version  string
	listed   bool
	rejected rejectedKeys
}

// lack notes that a door lacks an object, if it is one of its own.
func (d *door) lack(to *rejectedKeys, key Key) {
	if key == (Key{}) || d.scope == nil || d.scope.Contains(key) {
		to.add(key)
	}
}

func (d *door) moved(key Key, version string) {
	if key != (Key{}) {
		delete(d.rejected, key)
	}
	if d.listed && version != "" && len(d.rejected) == 0 {
		d.version = version
	}
}

// model is a cache with everything, and plain maps that say what it should hold.
type model struct {
	c      *Cache[*corev1.Pod]
	doors  []*door
	rec    *recorder
	byTag  *Index[string, *corev1.Pod]
	byRank *Index[float64, *corev1.Pod]
	byHost *Index[string, *corev1.Pod]
	late   *Index[string, *corev1.Pod]

	held     map[Key]*corev1.Pod
	hashes   map[Key]uint64 // of the bytes of the held objects
	serial   int            // of versions
	expected int            // changes that followers should have got

	pinned     *Snapshot[*corev1.Pod]
	pinnedHeld map[Key]*corev1.Pod
}

func poisoned(p *corev1.Pod, index string) bool { return p.Labels["poison"] == index }

func tagsOfPod(p *corev1.Pod) []string {
	if poisoned(p, "tag") {
		panic("tag")
	}
	return p.Finalizers // the object's own memory
}

func ranksOf(p *corev1.Pod) (ranks []float64) {
	for _, rank := range p.Spec.HostAliases {
		n, _ := strconv.ParseFloat(rank.IP, 64)
		ranks = append(ranks, n)
	}
	if poisoned(p, "rank") {
		panic("rank")
	}
	return ranks
}

func hostOf(p *corev1.Pod) []string {
	if poisoned(p, "host") {
		panic("host")
	}
	return []string{p.Spec.Hostname}
}

func newModel(t *rapid.T) *model {
	m := &model{c: newPods(), held: map[Key]*corev1.Pod{}, hashes: map[Key]uint64{}}
	var err error
	m.byTag, err = AddIndex(m.c, "tag", tagsOfPod)
	require.NoError(t, err)
	m.byRank, err = AddIndex(m.c, "rank", ranksOf)
	require.NoError(t, err)
	m.byHost, err = AddIndexFunc(m.c, "host", hostOf, func(a, b string) int { return strings.Compare(b, a) })
	require.NoError(t, err)
	m.rec = follow(m.c)
	m.doors = []*door{{to: m.c, at: &m.c.own}}
	return m
}

func (m *model) draw(t *rapid.T) *corev1.Pod {
	if rapid.IntRange(0, 20).Draw(t, "nil") == 0 {
		return nil
	}
	m.serial++
	p := pod(rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"a", "b", "c", "a", "b", "c", ""}).Draw(t, "name"),
		rapid.SampledFrom([]string{"u1", "u2", ""}).Draw(t, "uid"), strconv.Itoa(m.serial))
	p.Finalizers = rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z", ""}), 0, 4).Draw(t, "tags")
	for _, rank := range rapid.SliceOfN(rapid.SampledFrom([]string{"0", "-0", "1", "2.5", "NaN"}), 0, 3).Draw(t, "ranks") {
		p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: rank})
	}
	p.Spec.Hostname = rapid.SampledFrom([]string{"", "h1", "h2"}).Draw(t, "host")
	if poison := rapid.SampledFrom([]string{"", "", "", "", "", "tag", "rank", "host", "late"}).Draw(t, "poison"); poison != "" {
		p.Labels = map[string]string{"poison": poison}
	}
	return p
}

// again returns something that is held, perhaps with another content under the same version, or
// something new.
func (m *model) again(t *rapid.T) *corev1.Pod {
	keys := slices.SortedFunc(maps.Keys(m.held), Key.Compare)
	if len(keys) == 0 || rapid.Bool().Draw(t, "new") {
		return m.draw(t)
	}
	p := m.held[rapid.SampledFrom(keys).Draw(t, "held")]
	if rapid.IntRange(0, 5).Draw(t, "the same pointer") == 0 {
		return p
	}
	p = p.DeepCopy()
	switch rapid.IntRange(0, 5).Draw(t, "shown as") {
	case 0:
		p.Spec.Hostname = rapid.SampledFrom([]string{"", "h1", "h2"}).Draw(t, "host")
	case 1:
		p.Finalizers = rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2).Draw(t, "tags")
	case 2:
		p.ResourceVersion = ""
	}
	return p
}

// hashed returns a hash of the bytes of a pod, or 0. Equal contents may have different bytes.
func (m *model) hashed(t *rapid.T, p *corev1.Pod) uint64 {
	order := rapid.IntRange(0, 2).Draw(t, "order of members")
	if order == 0 {
		return 0
	}
	data, err := json.Marshal(p)
	require.NoError(t, err)
	return ShardHash(append(data, byte(order)))
}

// isRepeated reports whether a pod is what the model holds under a key.
func (m *model) isRepeated(key Key, p *corev1.Pod) bool {
	held := m.held[key]
	return held != nil && held.UID == p.UID && held.ResourceVersion == p.ResourceVersion && equality.Semantic.DeepEqual(held, p)
}

// put stores a pod with the hash of its bytes.
func (m *model) put(key Key, p *corev1.Pod, hash uint64) {
	held := m.held[key]
	switch {
	case m.isRepeated(key, p):
		if hash != 0 {
			m.hashes[key] = hash
		}
		return
	case held != nil && held.UID != "" && p.UID != "" && held.UID != p.UID:
		m.expected++ // a Deletion as well
	}
	m.expected++
	m.held[key], m.hashes[key] = p, hash
}

// remove deletes a key.
func (m *model) remove(key Key) {
	if m.held[key] != nil {
		m.expected++
		delete(m.held, key)
		delete(m.hashes, key)
	}
}

func (m *model) door(t *rapid.T) *door { return rapid.SampledFrom(m.doors).Draw(t, "door") }

func (m *model) key(t *rapid.T) Key {
	return Key{Namespace: rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
}

// placed returns the key of a pod as a door sees it, and whether it is one.
func placed(d *door, p *corev1.Pod) (Key, bool) {
	if p == nil || p.Name == "" {
		return Key{}, false
	}
	key := Key{Namespace: p.Namespace, Name: p.Name}
	return key, d.scope == nil || d.scope.Contains(key)
}

func (m *model) indexable(p *corev1.Pod) bool {
	switch p.Labels["poison"] {
	case "":
		return true
	case "late":
		return m.late == nil
	}
	return false
}

func versionOfPod(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	return p.ResourceVersion
}

// batch writes a random batch to the cache and to the model.
func (m *model) batch(t *rapid.T) {
	d := m.door(t)
	var batch writes[*corev1.Pod]
	bad := 0
	for range rapid.IntRange(1, 6).Draw(t, "writes") {
		switch rapid.IntRange(0, 6).Draw(t, "write") {
		case 0, 1, 2, 3:
			p := m.again(t)
			hash := m.hashed(t, p)
			batch.Append(Write[*corev1.Pod]{Type: Modification, Object: p, Hash: hash})
			key, ok := placed(d, p)
			if !ok || !m.indexable(p) {
				bad++
				d.lack(&d.rejected, key)
				continue
			}
			m.put(key, p, hash)
			d.moved(key, versionOfPod(p))
		case 4:
			p := m.draw(t)
			batch.Delete(p)
			key, ok := placed(d, p)
			if !ok {
				bad++
				d.lack(&d.rejected, key)
				continue
			}
			m.remove(key)
			d.moved(key, versionOfPod(p))
		case 5:
			key := m.key(t)
			batch.DeleteKey(key)
			if d.scope != nil && !d.scope.Contains(key) {
				bad++
				continue
			}
			m.remove(key)
			d.moved(key, "")
		case 6:
			key := m.key(t)
			batch.Fail(Rejection{Key: key, Err: errNoName})
			bad++
			d.lack(&d.rejected, key)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "told up to") == 0 {
		m.serial++
		batch.Bookmark(strconv.Itoa(m.serial))
		d.moved(Key{}, strconv.Itoa(m.serial))
	}
	m.rejected(t, bad, batch.to(d.to))
}

// replace writes a random listing to the cache and to the model.
func (m *model) replace(t *rapid.T) {
	d := m.door(t)
	var l list[*corev1.Pod]
	puts, hashes := map[Key]*corev1.Pod{}, map[Key]uint64{}
	listed, kept := map[Key]bool{}, map[types.UID]bool{} // kept has those of rejected objects
	uids := map[Key]types.UID{}                          // of rejected objects with a key
	var missing rejectedKeys
	nameless, outside := 0, map[Key]bool{}
	reject := func(key Key, uid types.UID) {
		uids[key] = uid
		switch {
		case key == (Key{}):
			nameless++
			kept[uid] = true
		case d.scope != nil && !d.scope.Contains(key):
			outside[key] = true
		}
		d.lack(&missing, key)
	}
	for range rapid.IntRange(0, 2).Draw(t, "unchanged") {
		key := m.key(t)
		l.Unchanged = append(l.Unchanged, key)
		if m.held[key] == nil || d.scope != nil && !d.scope.Contains(key) {
			reject(key, "")
			continue
		}
		listed[key] = true
	}
	for range rapid.IntRange(0, 6).Draw(t, "objects") {
		p := m.again(t)
		hash := m.hashed(t, p)
		l.Objects = append(l.Objects, p)
		l.Told = append(l.Told, Write[*corev1.Pod]{Hash: hash})
		key, ok := placed(d, p)
		switch {
		case p == nil:
			reject(key, "")
		case !ok:
			reject(key, p.UID)
		case !m.isRepeated(key, p) && !m.indexable(p):
			reject(key, p.UID)
			delete(puts, key)
		default:
			puts[key], hashes[key], listed[key] = p, hash, true
			delete(missing, key)
			delete(uids, key)
		}
	}
	for range rapid.IntRange(0, 1).Draw(t, "lacking") {
		key := m.key(t)
		l.Failed = append(l.Failed, Rejection{Key: key, Err: errNoName})
		reject(key, "")
		delete(puts, key)
	}
	for _, uid := range uids {
		kept[uid] = true
	}
	delete(kept, "")
	m.serial++
	l.ResourceVersion = strconv.Itoa(m.serial)
	if rapid.IntRange(0, 5).Draw(t, "restored") == 0 {
		l.ResourceVersion = strconv.Itoa(rapid.IntRange(1, m.serial).Draw(t, "version"))
	}
	for key, p := range maps.Clone(m.held) {
		if (d.scope == nil || d.scope.Contains(key)) && !listed[key] && !missing[key] && !kept[p.UID] {
			m.remove(key)
		}
	}
	for key, p := range puts {
		m.put(key, p, hashes[key])
	}
	d.rejected, d.listed = missing, true
	if len(missing) == 0 {
		d.version = l.ResourceVersion
	} else if versions.Later(d.version, l.ResourceVersion) {
		d.version = ""
	}
	withKey := len(missing)
	if missing[Key{}] {
		withKey--
	}
	m.rejected(t, nameless+withKey+len(outside), l.to(d.to))
}

func (m *model) rejected(t *rapid.T, bad int, err error) {
	if bad == 0 {
		require.NoError(t, err)
		return
	}
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, bad)
}

func (m *model) addIndex(t *rapid.T) {
	if m.late != nil {
		t.Skip("added already")
	}
	poison := false
	for _, p := range m.held {
		poison = poison || poisoned(p, "late")
	}
	late, err := AddIndex(m.c, "late", func(p *corev1.Pod) []string {
		if poisoned(p, "late") {
			panic("late")
		}
		return p.Finalizers
	})
	if poison {
		require.ErrorIs(t, err, ErrPanic)
		require.Nil(t, late)
		return
	}
	require.NoError(t, err)
	m.late = late
}

// check holds the cache to the model, and each of its parts to the others.
func (m *model) check(t *rapid.T) {
	checkCache(t, m.c)
	checkIndex(t, m.byTag)
	checkIndex(t, m.byRank)
	checkIndex(t, m.byHost)
	if m.late != nil {
		checkIndex(t, m.late)
	}
	checkQuiet(t, m.c)
	require.Equal(t, m.held, m.rec.state, "what followers were told")
	require.Empty(t, m.rec.illegal)
	require.Len(t, m.rec.all, m.expected, "a repeated object is no change")
	for key, p := range m.held {
		for _, hash := range []uint64{0, 1, m.hashes[key]} {
			want := hash > 1 && p.UID != "" && p.ResourceVersion != ""
			require.Equal(t, want, m.c.Has(key, VersionOf(p), hash), "%v, hash %d", key, hash)
		}
	}
	for _, d := range m.doors {
		require.Equal(t, d.version, d.to.ResourceVersion())
		require.Equal(t, len(d.rejected) > 0, len(d.at.rejected) > 0)
	}
	m.checkState(t, m.c.Snapshot(), m.held)
	if m.pinned != nil {
		m.checkState(t, m.pinned, m.pinnedHeld)
	}
}

func (m *model) checkState(t *rapid.T, s *Snapshot[*corev1.Pod], held map[Key]*corev1.Pod) {
	keys := slices.SortedFunc(maps.Keys(held), Key.Compare)
	require.Equal(t, len(keys), s.Len())
	require.True(t, slices.Equal(keys, slices.Collect(first(s.All()))))
	for _, key := range keys {
		got, ok := s.Get(key)
		require.True(t, ok)
		require.Same(t, held[key], got)
	}
	tagged := map[string]bool{}
	for _, tag := range []string{"x", "y", "z", ""} {
		want := slices.DeleteFunc(slices.Clone(keys), func(key Key) bool { return !slices.Contains(held[key].Finalizers, tag) })
		tagged[tag] = len(want) > 0
		for _, x := range []*Index[string, *corev1.Pod]{m.byTag, m.late} {
			if x != nil && int(x.indexer.position) < len(s.indexes) { // else the state is older than the index
				got := slices.Collect(first(x.On(s).Get(tag)))
				require.True(t, slices.Equal(want, got), "%s %q: want %v, got %v", x.indexer.name, tag, want, got)
			}
		}
	}
	for tag := range m.byTag.On(s).Values() {
		require.True(t, tagged[tag], tag)
		delete(tagged, tag)
	}
	require.NotContains(t, slices.Collect(maps.Values(tagged)), true)
	require.True(t, slices.IsSortedFunc(slices.Collect(m.byHost.On(s).Values()), func(a, b string) int { return strings.Compare(b, a) }))
	last := math.Inf(-1)
	for key, p := range m.byRank.On(s).All() {
		ranks := slices.DeleteFunc(ranksOf(p), func(rank float64) bool { return rank < last })
		require.NotEmpty(t, ranks, "%v comes too late", key)
		last = slices.Min(slices.DeleteFunc(ranks, math.IsNaN))
	}
}

func first[K, V any](seq func(func(K, V) bool)) func(func(K) bool) {
	return func(yield func(K) bool) { seq(func(k K, _ V) bool { return yield(k) }) }
}

func TestEverythingAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"batch":   m.batch,
			"batch 2": m.batch,
			"replace": m.replace,
			"split":   m.split,
			"drop":    m.drop,
			"drop 2":  m.dropSome,
			"bypass":  m.bypass,
			"index":   m.addIndex,
			"pin":     func(*rapid.T) { m.pinned, m.pinnedHeld = m.c.Snapshot(), maps.Clone(m.held) },
			"":        m.check,
		})
	})
}

// split makes partitions, if there are none.
func (m *model) split(t *rapid.T) {
	if len(m.doors) > 1 {
		t.Skip("split already")
	}
	m.doors = nil
	for _, namespace := range []string{"n1", "n2", "n3"} {
		p, err := m.c.Partition(Scope{Namespace: namespace})
		require.NoError(t, err)
		m.doors = append(m.doors, &door{to: p, scope: &p.scope, at: &p.progress})
	}
}

// drop drops a partition and makes it anew.
func (m *model) drop(t *rapid.T) {
	if len(m.doors) == 1 {
		t.Skip("nothing to drop")
	}
	d := m.door(t)
	for key := range m.held {
		if d.scope.Contains(key) {
			m.remove(key)
		}
	}
	require.NoError(t, m.c.Drop(*d.scope))
	require.ErrorIs(t, d.to.Bookmark("1"), errDropped)
	p, err := m.c.Partition(*d.scope)
	require.NoError(t, err)
	*d = door{to: p, scope: &p.scope, at: &p.progress}
}

// dropSome drops a namespace of a cache without partitions.
func (m *model) dropSome(t *rapid.T) {
	if len(m.doors) > 1 {
		t.Skip("that is for drop")
	}
	d, scope := m.doors[0], Scope{Namespace: m.key(t).Namespace}
	some := false
	for key := range d.rejected {
		if key != (Key{}) && scope.Contains(key) {
			some = true
			delete(d.rejected, key)
		}
	}
	for key := range m.held {
		if scope.Contains(key) {
			some = true
			m.remove(key)
		}
	}
	if some {
		d.version, d.listed = "", false
	}
	err := m.c.Drop(scope)
	require.NoError(t, err)
	require.False(t, some && m.c.Snapshot().Synced())
}

// bypass writes the objects of a partition through the cache.
func (m *model) bypass(t *rapid.T) {
	if len(m.doors) == 1 {
		t.Skip("there is no other way")
	}
	key := m.key(t)
	p := pod(key.Namespace, key.Name, "u9", strconv.Itoa(m.serial))
	var batch writes[*corev1.Pod]
	batch.Add(p)
	batch.Delete(p)
	batch.DeleteKey(key)
	batch.Fail(Rejection{Key: key, Err: errNoName})
	err := batch.to(m.c)
	m.rejected(t, 4, err)
	require.ErrorIs(t, err, errOverlap)
	require.ErrorIs(t, m.c.Replace(nil, "1"), errOverlap)
	err = m.c.Drop(Scope{Namespace: "n4"})
	require.NoError(t, err)
}
