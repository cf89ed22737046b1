package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
)

var (
	modelNamespaces = []string{"", "n", "n-1"}
	modelNames      = []string{"a", "b", "ab"}
)

// model is a reference store: a map and two rules about the resource version.
type model struct {
	objects         map[store.Key]*Object
	resourceVersion string
	complete        bool // there was a Replace
	lacking         bool // an object was rejected since the last Replace without rejections

	clock int // counts the drawn values, so that no two states are the same
}

// againstModel makes random writes to a store and to a model. After each write every read must
// return the same from both.
func againstModel(t *rapid.T, s *subject) {
	m := &model{objects: map[store.Key]*Object{}}
	single := func(write func(rapid.TB, *Object) outcome, to func(*Object)) func(*rapid.T) {
		return func(t *rapid.T) {
			o := m.drawObject(t)
			write(t, o)
			to(o)
			m.moveTo(o.ResourceVersion)
		}
	}
	put := func(o *Object) { m.objects[keyOf(o)] = o }
	t.Repeat(map[string]func(*rapid.T){
		"Add":    single(s.add, put),
		"Update": single(s.update, put),
		"Delete": single(s.delete, func(o *Object) { delete(m.objects, keyOf(o)) }),
		"DeleteKey": func(t *rapid.T) {
			key := drawKey(t)
			s.deleteKey(t, key)
			delete(m.objects, key)
		},
		"Bookmark": func(t *rapid.T) {
			version := m.drawVersion(t)
			s.bookmark(t, version)
			m.moveTo(version)
		},
		"bad": func(t *rapid.T) {
			s.rejects(t, rapid.SampledFrom(singleWrites).Draw(t, "write"), m.drawBad(t))
			m.lacking = true
		},
		"Replace":       func(t *rapid.T) { m.replace(t, s, false) },
		"Replace a bad": func(t *rapid.T) { m.replace(t, s, true) },
		"":              func(t *rapid.T) { m.compare(t, s) },
	})
}

func (m *model) moveTo(resourceVersion string) {
	if m.complete && !m.lacking && resourceVersion != "" {
		m.resourceVersion = resourceVersion
	}
}

// replace draws a list and makes it the content of both.
func (m *model) replace(t *rapid.T, s *subject, withBad bool) {
	list, bad := m.drawList(t, withBad)
	version := m.drawVersion(t)

	next, unchanged := map[store.Key]*Object{}, map[store.Key]*Object{}
	for _, o := range list {
		if o != nil && o.Name != "" {
			next[keyOf(o)] = o
		}
	}
	for key, held := range m.objects {
		o, listed := next[key]
		switch {
		case listed && sameVersion(o, held):
			next[key] = held
			unchanged[key], _ = s.reader.Get(key)
		case !listed && slices.ContainsFunc(bad, func(b *Object) bool { return b != nil && b.UID != "" && b.UID == held.UID }):
			next[key] = held // it was listed without its name, so it is not missing
		}
	}

	if len(bad) > 0 {
		s.replaceRejects(t, version, list, bad...)
	} else {
		s.replace(t, version, list...)
	}
	m.objects, m.complete, m.lacking = next, true, len(bad) > 0
	if !m.lacking {
		m.resourceVersion = version
	} else if c, err := resourceversion.CompareResourceVersion(version, m.resourceVersion); err == nil && c < 0 {
		m.resourceVersion = ""
	}
	for key, before := range unchanged {
		if got, _ := s.reader.Get(key); got != before {
			s.errorf(t, "Get(%v) returned another pointer than before the Replace, although UID and resource version are the same", key)
		}
	}
}

func sameVersion(a, b *Object) bool {
	return a.UID != "" && a.ResourceVersion != "" && a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

// compare compares every read of the store with the model.
func (m *model) compare(t *rapid.T, s *subject) {
	var all []*Object
	for _, key := range slices.SortedFunc(maps.Keys(m.objects), store.Key.Compare) {
		all = append(all, m.objects[key])
	}
	for _, namespace := range append(modelNamespaces, "unknown") {
		for _, name := range modelNames {
			key := store.Key{Namespace: namespace, Name: name}
			if o := m.objects[key]; o != nil {
				s.wantObjects(t, o)
			} else {
				s.wantNone(t, key)
			}
		}
		s.wantNamespace(t, namespace, slices.DeleteFunc(slices.Clone(all), func(o *Object) bool { return o.Namespace != namespace })...)
	}
	s.wantAll(t, all...)
	s.wantLen(t, len(all))
	s.wantVersion(t, m.resourceVersion)
}

func drawKey(t *rapid.T) store.Key {
	return store.Key{
		Namespace: rapid.SampledFrom(modelNamespaces).Draw(t, "namespace"),
		Name:      rapid.SampledFrom(modelNames).Draw(t, "name"),
	}
}

// drawVersion returns a version that no state had before, or none.
func (m *model) drawVersion(t *rapid.T) string {
	m.clock++
	return rapid.SampledFrom([]string{
		strconv.Itoa(m.clock), strconv.Itoa(1000 + m.clock), strconv.Itoa(-m.clock), "opaque-" + strconv.Itoa(m.clock), "",
	}).Draw(t, "version")
}

// drawUID returns one of the UIDs that objects under a key may have, or none.
func drawUID(t *rapid.T, key store.Key) string {
	return rapid.SampledFrom([]string{"1 of " + key.String(), "2 of " + key.String(), ""}).Draw(t, "uid")
}

// drawObject returns a new state of some object.
func (m *model) drawObject(t *rapid.T) *Object { return m.drawState(t, drawKey(t)) }

func (m *model) drawState(t *rapid.T, key store.Key) *Object {
	o := New(key.Namespace, key.Name, drawUID(t, key), m.drawVersion(t))
	o.Payload = fmt.Sprint("state ", m.clock)
	return o
}

// drawBad returns nil, or an object that lost its name.
func (m *model) drawBad(t *rapid.T) *Object {
	if rapid.Bool().Draw(t, "nil") {
		return nil
	}
	bad := m.drawObject(t)
	bad.Name = ""
	return bad
}

// drawList returns a list of unchanged, changed, recreated and new objects, some
// of them twice, and the bad ones in it.
func (m *model) drawList(t *rapid.T, withBad bool) (list, bad []*Object) {
	for _, key := range slices.SortedFunc(maps.Keys(m.objects), store.Key.Compare) {
		held := *m.objects[key]
		switch rapid.SampledFrom([]string{"unchanged", "changed", "another version", "gone"}).Draw(t, key.String()) {
		case "unchanged":
			list = append(list, &held)
		case "changed":
			list = append(list, m.drawState(t, key))
		case "another version":
			later := m.drawState(t, key)
			later.UID = held.UID
			list = append(list, later)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "others") {
		list = append(list, m.drawObject(t))
	}
	if withBad {
		for range rapid.IntRange(1, 2).Draw(t, "bad") {
			b := m.drawBad(t)
			list, bad = append(list, b), append(bad, b)
		}
	}
	return rapid.Permutation(list).Draw(t, "list"), bad
}
