package storetest

import "testing"

// rejecting has the clauses about objects that a store must reject.
var rejecting = []clause{
	{
		name: "a nil object is rejected",
		rule: "a nil object is rejected with a *RejectedError of the cause ErrBadKey, and changes nothing",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.replace(t, "1", a)
			for _, write := range singleWrites {
				s.rejects(t, write, nil)
			}
			s.wantAll(t, a)
			s.replaceRejects(t, "2", []*Object{a, nil}, nil)
			s.wantAll(t, a)
		},
	},
	{
		name: "an object without a name is rejected",
		rule: "an object without a name has no key: it is rejected with a *RejectedError of the cause ErrBadKey that carries its UID and resource version, and what is held stays",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.replace(t, "1", a)
			for _, write := range singleWrites {
				s.rejects(t, write, New("n", "", "u1", "2"))
				s.rejects(t, write, &Object{})
			}
			s.wantAll(t, a)
			s.replaceRejects(t, "2", []*Object{New("", "", "u2", "2"), a}, New("", "", "u2", "2"))
			s.wantAll(t, a)
		},
	},
	{
		name: "Replace commits everything but the rejected objects",
		rule: "one bad object does not stop the others: new and changed objects are stored, missing ones removed, and each bad one is named",
		check: func(t *testing.T, s *subject) {
			gone, changed := New("n", "gone", "u1", "1"), New("n", "changed", "u2", "1")
			s.replace(t, "1", gone, changed)
			added, nameless := New("n", "added", "u3", "2"), New("n", "", "u4", "3")
			s.replaceRejects(t, "4", []*Object{nil, changed.At("2"), nameless, added, nil}, nil, nameless, nil)
			s.wantObjects(t, changed.At("2"), added)
			s.wantNone(t, keyOf(gone))
			s.wantLen(t, 2)
		},
	},
	{
		name: "a rejected object keeps its old value in a Replace",
		rule: "a rejected object is not missing: what is held with its UID stays, unless the list has another object under that key",
		check: func(t *testing.T, s *subject) {
			held, other := New("n", "held", "u1", "1"), New("n", "other", "u2", "1")
			s.replace(t, "1", held, other)
			s.replaceRejects(t, "2", []*Object{New("n", "", "u1", "2")}, New("n", "", "u1", "2"))
			s.wantObjects(t, held)
			s.wantNone(t, keyOf(other))
			recreated := New("n", "held", "u3", "3")
			s.replaceRejects(t, "3", []*Object{New("n", "", "u1", "2"), recreated}, New("n", "", "u1", "2"))
			s.wantAll(t, recreated)
		},
	},
	{
		name: "the resource version stays before a rejected object",
		rule: "as long as an object is lacking that the store was given, a watch must begin before it: nothing moves the resource version but a Replace without rejections",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			for _, write := range singleWrites {
				s.written = nil
				s.replace(t, "1", a)
				s.rejects(t, write, New("n", "", "u2", "2")).leaves("1")
				s.add(t, a.At("3")).leaves("1")
				s.bookmark(t, "4").leaves("1")
				s.delete(t, a.At("5")).leaves("1")
				s.deleteKey(t, keyOf(a)).leaves("1")
				s.update(t, a.At("5")).leaves("1")
				s.replaceRejects(t, "6", []*Object{a, nil}, nil).leaves("1")
			}
		},
	},
	{
		name: "a Replace with rejections leaves the resource version",
		rule: "a list of which an object was rejected was not stored completely: the resource version stays where it was, empty before the first Replace that is complete",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.replaceRejects(t, "1", []*Object{a, nil}, nil).leaves("")
			s.update(t, a.At("2"))
			s.bookmark(t, "3").leaves("")
			s.replace(t, "4", a)
			s.replaceRejects(t, "5", []*Object{a, nil}, nil)
			s.bookmark(t, "6").leaves("4")
		},
	},
	{
		name: "a Replace with rejections that lowers the resource version leaves none",
		rule: "a list with a lower resource version comes from a server that went back to an older state: where an object of it was rejected, neither its version nor the old one is a place to watch from",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.replace(t, "100", a)
			s.replaceRejects(t, "20", []*Object{a, nil}, nil).leaves("")
			s.update(t, a.At("21"))
			s.bookmark(t, "22").leaves("")
			s.replaceRejects(t, "23", []*Object{a, nil}, nil).leaves("")
			s.replace(t, "24", a).leaves("24")
		},
	},
	{
		name: "a Replace without rejections ends the wait for rejected objects",
		rule: "a list of which everything was stored leaves nothing lacking: the resource version moves as before",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.replace(t, "1", a)
			for _, write := range singleWrites {
				s.rejects(t, write, nil)
			}
			s.replace(t, "2", a).leaves("2")
			s.update(t, a.At("3")).leaves("3")
			s.replaceRejects(t, "4", []*Object{nil}, nil)
			s.replace(t, "5")
			s.bookmark(t, "6").leaves("6")
		},
	},
}
