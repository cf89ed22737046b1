package store

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// door is what the model knows of a partition, or of the cache itself.
type door struct {
	p        *Partition[*corev1.Pod]
	version  string
	listed   bool
	rejected rejectedKeys
}

// lack notes that a door lacks an object, if it is one of its own.
func (d *door) lack(to *rejectedKeys, key Key) {
	if key == (Key{}) || d.p.scope == nil || d.p.scope.mayContain(key) {
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

	held   map[Key]*corev1.Pod
	serial int // of versions

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
	m := &model{c: newPods(), held: map[Key]*corev1.Pod{}}
	var err error
	m.byTag, err = AddIndex(m.c, "tag", tagsOfPod)
	require.NoError(t, err)
	m.byRank, err = AddIndex(m.c, "rank", ranksOf)
	require.NoError(t, err)
	m.byHost, err = AddIndexFunc(m.c, "host", hostOf, func(a, b string) int { return strings.Compare(b, a) })
	require.NoError(t, err)
	m.rec = follow(m.c)
	m.doors = []*door{{p: m.c.whole}}
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

// again returns something that is held, as a list would tell it, or something new.
func (m *model) again(t *rapid.T) *corev1.Pod {
	keys := slices.SortedFunc(maps.Keys(m.held), Key.Compare)
	if len(keys) == 0 || rapid.Bool().Draw(t, "new") {
		return m.draw(t)
	}
	return m.held[rapid.SampledFrom(keys).Draw(t, "held")].DeepCopy()
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
	return key, d.p.scope == nil || d.p.scope.mayContain(key)
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
			p := m.draw(t)
			batch.Update(p)
			key, ok := placed(d, p)
			if !ok || !m.indexable(p) {
				bad++
				d.lack(&d.rejected, key)
				continue
			}
			m.held[key] = p
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
			delete(m.held, key)
			d.moved(key, versionOfPod(p))
		case 5:
			key := m.key(t)
			batch.DeleteKey(key)
			if d.p.scope != nil && !d.p.scope.mayContain(key) {
				bad++
				continue
			}
			delete(m.held, key)
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
	m.rejected(t, bad, batch.to(d.p))
}

// replace writes a random listing to the cache and to the model.
func (m *model) replace(t *rapid.T) {
	d := m.door(t)
	var l list[*corev1.Pod]
	puts := map[Key]*corev1.Pod{}
	listed, kept := map[Key]bool{}, map[types.UID]bool{}
	var missing rejectedKeys
	nameless, outside := 0, map[Key]bool{}
	reject := func(key Key) {
		switch {
		case key == (Key{}):
			nameless++
		case d.p.scope != nil && !d.p.scope.mayContain(key):
			outside[key] = true
		}
		d.lack(&missing, key)
	}
	for range rapid.IntRange(0, 2).Draw(t, "unchanged") {
		key := m.key(t)
		l.Unchanged = append(l.Unchanged, key)
		if m.held[key] == nil || d.p.scope != nil && !d.p.scope.mayContain(key) {
			reject(key)
			continue
		}
		listed[key] = true
	}
	for range rapid.IntRange(0, 6).Draw(t, "objects") {
		p := m.again(t)
		l.Objects = append(l.Objects, p)
		key, ok := placed(d, p)
		held := m.held[key]
		switch {
		case !ok:
			reject(key)
			if p != nil && key == (Key{}) && p.UID != "" {
				kept[p.UID] = true
			}
		case held != nil && held.UID != "" && held.UID == p.UID && held.ResourceVersion == p.ResourceVersion:
			delete(puts, key)
			listed[key] = true
			delete(missing, key)
		case !m.indexable(p):
			reject(key)
			delete(puts, key)
		default:
			puts[key], listed[key] = p, true
			delete(missing, key)
		}
	}
	for range rapid.IntRange(0, 1).Draw(t, "lacking") {
		key := m.key(t)
		l.Failed = append(l.Failed, Rejection{Key: key, Err: errNoName})
		reject(key)
		delete(puts, key)
	}
	m.serial++
	l.ResourceVersion = strconv.Itoa(m.serial)
	if rapid.IntRange(0, 5).Draw(t, "restored") == 0 {
		l.ResourceVersion = strconv.Itoa(rapid.IntRange(1, m.serial).Draw(t, "version"))
	}
	for key, p := range maps.Clone(m.held) {
		if (d.p.scope == nil || d.p.scope.mayContain(key)) && !listed[key] && !missing[key] && !kept[p.UID] {
			delete(m.held, key)
		}
	}
	for key, p := range puts {
		m.held[key] = p
	}
	d.rejected, d.listed = missing, true
	if len(missing) == 0 {
		d.version = l.ResourceVersion
	} else if lower(l.ResourceVersion, d.version) {
		d.version = ""
	}
	withKey := len(missing)
	if missing[Key{}] {
		withKey--
	}
	m.rejected(t, nameless+withKey+len(outside), l.to(d.p))
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
