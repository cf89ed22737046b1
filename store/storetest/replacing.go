package storetest

import "testing"

// replacing has the clauses about Replace.
var replacing = []clause{
	{
		name: "Replace stores what is in the list",
		rule: "Replace makes the given objects the content of the store: new ones, changed ones and those of another UID",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "2"), New("", "c", "u3", "3")
			s.replace(t, "3", a, b)
			s.wantObjects(t, a, b)
			recreated := New("n", "b", "u4", "5")
			s.replace(t, "6", c, a.At("4"), recreated)
			s.wantOnly(t, a.At("4"), recreated, c)
		},
	},
	{
		name: "Replace removes what is not in the list",
		rule: "Replace makes the given objects the content of the store: what is missing among them is gone",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "2"), New("m", "a", "u3", "3")
			s.replace(t, "1", a)
			s.add(t, b)
			s.add(t, c)
			s.replace(t, "4", b)
			s.wantNone(t, keyOf(a), keyOf(c))
			s.wantOnly(t, b)
		},
	},
	{
		name: "Replace by nothing empties the store",
		rule: "a list without objects says that there are none",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.replace(t, "1")
			s.wantAll(t)
			s.add(t, a)
			s.replace(t, "2")
			s.wantNone(t, keyOf(a))
			s.wantAll(t)
			s.wantLen(t, 0)
		},
	},
	{
		name: "Replace keeps the pointer of an unchanged object",
		rule: "an object whose UID, resource version and content did not change keeps its old pointer, so that its decoded copy can be freed and nobody takes it for changed",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "2")
			s.replace(t, "1", a)
			s.add(t, b)
			before := map[string]*Object{}
			for key, o := range s.reader.All() {
				before[key.Name] = o
			}
			sameA, sameB := *a, *b
			s.replace(t, "3", &sameB, &sameA)
			s.wantObjects(t, a, b)
			for key, o := range s.reader.All() {
				if o != before[key.Name] {
					s.errorf(t, "All yielded another pointer than before for %v", o)
				}
				if got, _ := s.reader.Get(key); got != before[key.Name] {
					s.errorf(t, "Get returned another pointer than before for %v", o)
				}
			}
		},
	},
	{
		name: "Replace takes an object of unknown version as changed",
		rule: "an empty UID or resource version is no knowledge, and so never equal to anything",
		check: func(t *testing.T, s *subject) {
			for _, held := range []*Object{New("n", "a", "", "1"), New("n", "b", "u", ""), New("n", "c", "", "")} {
				s.replace(t, "1", held)
				fresh := *held
				fresh.Payload = "fresh"
				s.replace(t, "2", &fresh)
				s.wantObjects(t, &fresh)
			}
		},
	},
	{
		name: "Replace tells objects apart by UID and resource version",
		rule: "an object is unchanged only if its UID, its resource version and its content are",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "2")
			s.replace(t, "2", a, b)
			otherUID, otherVersion := New("n", "a", "u3", "1"), New("n", "b", "u2", "3")
			s.replace(t, "3", otherUID, otherVersion)
			s.wantObjects(t, otherUID, otherVersion)
			otherForm := *otherVersion // as after a new default in the definition of the resource
			otherForm.Payload = "another form"
			s.replace(t, "4", otherUID, &otherForm)
			s.wantObjects(t, otherUID, &otherForm)
		},
	},
	{
		name: "Replace takes the last of two objects with one key",
		rule: "where two objects of a list have one key, the later one counts",
		check: func(t *testing.T, s *subject) {
			first, second := New("n", "a", "u1", "1"), New("n", "a", "u2", "2")
			s.replace(t, "2", first, New("n", "b", "u3", "1"), second)
			s.wantObjects(t, second)
			s.wantLen(t, 2)
			s.replace(t, "4", second.At("3"), second)
			s.wantOnly(t, second)
			s.replace(t, "5", second, second.At("3"))
			s.wantOnly(t, second.At("3"))
		},
	},
}
