package storetest

import "testing"

// versions has the clauses about the resource version.
var versions = []clause{
	{
		name: "the resource version is empty before the first Replace",
		rule: "until a list was seen nobody knows what is missing, so no watch can begin where the store is",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "3")
			s.wantVersion(t, "")
			s.add(t, a).leaves("")
			s.update(t, a.At("4")).leaves("")
			s.bookmark(t, "5").leaves("")
			s.delete(t, a.At("6")).leaves("")
		},
	},
	{
		name: "the resource version follows Replace",
		rule: "a Replace has the resource version of the list, not of its objects, also if it is lower than before, as after the restoration of a backup, or if there is none",
		check: func(t *testing.T, s *subject) {
			s.replace(t, "10", New("n", "a", "u1", "3")).leaves("10")
			s.replace(t, "20", New("n", "a", "u1", "3")).leaves("20")
			s.replace(t, "21").leaves("21")
			s.replace(t, "7", New("n", "a", "u1", "6")).leaves("7")
			s.replace(t, "").leaves("")
			s.add(t, New("n", "a", "u1", "8")).leaves("8")
		},
	},
	{
		name: "the resource version follows stored objects",
		rule: "after a Replace the resource version is that of the last object stored",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "3")
			s.replace(t, "10")
			s.add(t, a.At("11")).leaves("11")
			s.update(t, a.At("12")).leaves("12")
			s.update(t, New("n", "b", "u2", "13")).leaves("13")
		},
	},
	{
		name: "the resource version follows deletions",
		rule: "a deletion has a resource version, that of the last state, also if the object was not held: the store was told of it. DeleteKey has none",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "3"), New("n", "b", "u2", "4")
			s.replace(t, "10", a, b)
			s.delete(t, a.At("11")).leaves("11")
			s.delete(t, New("n", "unknown", "u3", "12")).leaves("12")
			s.deleteKey(t, keyOf(b)).leaves("12")
		},
	},
	{
		name: "the resource version follows bookmarks",
		rule: "a bookmark says that the store was told everything up to its resource version; it changes no object",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "3")
			s.replace(t, "10", a)
			s.bookmark(t, "11").leaves("11")
			s.wantOnly(t, a)
		},
	},
	{
		name: "an unknown resource version moves nothing",
		rule: "an object or a bookmark without a resource version leaves that of the store; the object is stored all the same",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "")
			s.replace(t, "10")
			s.add(t, a).leaves("10")
			s.wantObjects(t, a)
			s.bookmark(t, "").leaves("10")
			s.delete(t, a).leaves("10")
			s.wantNone(t, keyOf(a))
		},
	},
	{
		name: "resource versions are opaque",
		rule: "a resource version need not be a number, and none is rejected, compared or changed: it is kept as it came",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "v1:abc")
			s.replace(t, "not a number", a).leaves("not a number")
			s.update(t, a.At("another/thing")).leaves("another/thing")
			s.bookmark(t, "0x1f").leaves("0x1f")
			s.update(t, a.At("007")).leaves("007")
			s.update(t, a.At("6")).leaves("6")
			s.wantObjects(t, a.At("6"))
			s.delete(t, a.At("Ω")).leaves("Ω")
		},
	},
}
