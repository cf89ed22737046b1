package storetest

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
)

// storing has the clauses about single objects.
var storing = []clause{
	{
		name: "Add stores an object",
		rule: "an object is held under its key from the return of Add on, and under no other key",
		check: func(t *testing.T, s *subject) {
			s.wantNone(t, store.Key{}, store.Key{Namespace: "n", Name: "a"})
			a, b := New("n", "a", "u1", "1"), New("", "b", "u2", "2")
			s.add(t, a)
			s.add(t, b)
			s.wantObjects(t, a, b)
			s.wantNone(t, store.Key{}, store.Key{Name: "a"}, store.Key{Namespace: "n", Name: "b"}, store.Key{Namespace: "n"})
		},
	},
	{
		name: "Add over a held key replaces the object",
		rule: "if an object is held under the key already, the new one takes its place",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.add(t, a)
			s.add(t, a.At("2"))
			s.wantObjects(t, a.At("2"))
			recreated := New("n", "a", "u2", "3")
			s.add(t, recreated)
			s.wantOnly(t, recreated)
		},
	},
	{
		name: "Update replaces the object",
		rule: "the new state of an object takes the place of the old one, also one without a version, and one of another UID",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "", "")
			s.add(t, a)
			s.add(t, b)
			s.update(t, a.At("2"))
			later := *b
			later.Payload = "later"
			s.update(t, &later)
			s.wantObjects(t, a.At("2"), &later)
			recreated := New("n", "a", "u2", "3")
			s.update(t, recreated)
			s.wantObjects(t, recreated)
			s.wantLen(t, 2)
		},
	},
	{
		name: "Update of an unknown key adds the object",
		rule: "if no object is held under its key, Update adds it",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.update(t, a)
			s.wantOnly(t, a)
		},
	},
	{
		name: "Delete removes by the key of the last state",
		rule: "Delete removes the object held under the key of the given one, whatever else the given one says",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "2"), New("m", "a", "u3", "3")
			for _, o := range []*Object{a, b, c} {
				s.add(t, o)
			}
			s.delete(t, a.At("4"))
			s.wantNone(t, keyOf(a))
			s.delete(t, New("n", "b", "another", "5"))
			s.wantNone(t, keyOf(b))
			s.wantOnly(t, c)
		},
	},
	{
		name: "Delete of an unknown key changes no object",
		rule: "Delete is no error and removes nothing if nothing is held under the key",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.delete(t, a)
			s.add(t, a)
			s.delete(t, New("n", "b", "u1", "1"))
			s.delete(t, New("", "a", "u1", "1"))
			s.wantOnly(t, a)
		},
	},
	{
		name: "DeleteKey removes the object under the key",
		rule: "DeleteKey removes what is held under the key, and nothing else",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("", "a", "u2", "2")
			s.add(t, a)
			s.add(t, b)
			s.deleteKey(t, keyOf(a))
			s.wantNone(t, keyOf(a))
			s.wantOnly(t, b)
		},
	},
	{
		name: "DeleteKey of an unknown key changes nothing",
		rule: "DeleteKey is no error and removes nothing if nothing is held under the key",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.add(t, a)
			s.deleteKey(t, store.Key{Namespace: "n", Name: "b"})
			s.deleteKey(t, store.Key{Name: "a"})
			s.deleteKey(t, store.Key{})
			s.wantOnly(t, a)
		},
	},
	{
		name: "a deleted object can come again, and only then does",
		rule: "what was deleted stays away until it is stored again",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "1")
			s.replace(t, "1", a, b)
			s.delete(t, a.At("2"))
			s.bookmark(t, "3")
			s.update(t, b.At("4"))
			s.replace(t, "5", b.At("4"))
			s.wantNone(t, keyOf(a))
			s.add(t, New("n", "a", "u3", "6"))
			s.wantObjects(t, New("n", "a", "u3", "6"))
		},
	},
}
