package storetest

import (
	"fmt"
	"iter"
	"testing"

	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
)

// unsorted returns objects in no order, and the same objects in order. It has neighbours that a
// store confuses if it compares joined strings, or searches by prefix.
func unsorted() (unsorted, sorted []*Object) {
	node, n := New("", "z", "u1", "1"), New("", "n", "u2", "2")
	na, nb, nab := New("n", "a", "u3", "3"), New("n", "b", "u4", "4"), New("n", "ab", "u5", "5")
	dash, nn := New("n-1", "a", "u6", "6"), New("nn", "a", "u7", "7")
	ten, two := New("m", "10", "u8", "8"), New("m", "2", "u9", "9")
	return []*Object{nn, nb, two, node, dash, nab, na, n, ten}, []*Object{n, node, ten, two, na, nab, nb, dash, nn}
}

// addUnsorted adds these objects.
func (s *subject) addUnsorted(t rapid.TB) (objects, sorted []*Object) {
	t.Helper()
	objects, sorted = unsorted()
	for _, o := range objects {
		s.add(t, o)
	}
	return objects, sorted
}

// reading has the clauses about the results of a Reader.
var reading = []clause{
	{
		name: "All runs in the order of keys",
		rule: "walks run in the order of Key.Compare: by cluster, then namespace, then name, each compared as a string",
		check: func(t *testing.T, s *subject) {
			objects, sorted := s.addUnsorted(t)
			s.wantAll(t, sorted...)
			s.replace(t, "10", objects...)
			s.update(t, sorted[0].At("11"))
			s.delete(t, sorted[3])
			s.wantAll(t, append(append([]*Object{sorted[0].At("11")}, sorted[1:3]...), sorted[4:]...)...)
		},
	},
	{
		name: "Namespace runs over one namespace in the order of keys",
		rule: "Namespace yields the objects of exactly that namespace in the order of keys; those that live in none are in the empty one",
		check: func(t *testing.T, s *subject) {
			_, sorted := s.addUnsorted(t)
			s.wantNamespace(t, "n", sorted[4:7]...)
			s.wantNamespace(t, "nn", sorted[8])
			s.wantNamespace(t, "m", sorted[2:4]...)
			s.wantNamespace(t, "", sorted[:2]...)
		},
	},
	{
		name: "Namespace of an unknown namespace is empty",
		rule: "a namespace without objects yields nothing, also once its last object was deleted",
		check: func(t *testing.T, s *subject) {
			a := New("n", "a", "u1", "1")
			s.wantNamespace(t, "")
			s.add(t, a)
			s.wantNamespace(t, "")
			s.wantNamespace(t, "a")
			s.wantNamespace(t, "n/a")
			s.wantNamespace(t, "z")
			s.delete(t, a)
			s.wantNamespace(t, "n")
		},
	},
	{
		name: "clusters come first in the order, and share namespaces",
		rule: "keys are ordered by cluster first; Namespace yields the objects of a namespace in every cluster",
		check: func(t *testing.T, s *subject) {
			var all, inB []*Object
			for _, cluster := range []string{"", "c1", "c2"} {
				for _, namespace := range []string{"a", "b", "c"} {
					o := New(namespace, "x", "u-"+cluster+namespace, "1")
					o.Cluster = cluster
					all = append(all, o)
					if namespace == "b" {
						inB = append(inB, o)
					}
				}
			}
			s.add(t, all[8])
			if _, ok := s.reader.Get(store.Key{Namespace: "c", Name: "x"}); ok {
				t.Skip("the keys of this store have no clusters: to test that, use storetest.ClusterKey")
			}
			for i := range 8 {
				s.add(t, all[7-i])
			}
			s.wantAll(t, all...)
			s.wantNamespace(t, "b", inB...)
			s.wantObjects(t, all...)
		},
	},
	{
		name: "a walk can be left early",
		rule: "a walk whose body breaks yields nothing more, and changes nothing",
		check: func(t *testing.T, s *subject) {
			objects, sorted := unsorted()
			s.replace(t, "9", objects...)
			for name, walk := range walks(s.reader, "n") {
				n := 0
				for range walk {
					if n++; n == 2 {
						break
					}
				}
				if n != 2 {
					s.errorf(t, "%s yielded %d objects to a body that breaks at the second", name, n)
				}
			}
			s.wantAll(t, sorted...)
			s.add(t, New("n", "after", "u", "10"))
		},
	},
	{
		name: "Len counts the objects",
		rule: "Len returns the number of objects that are held",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("m", "b", "u2", "2")
			s.add(t, a)
			s.wantLen(t, 1)
			s.add(t, b)
			s.update(t, a.At("3"))
			s.wantLen(t, 2)
			s.delete(t, a)
			s.delete(t, a)
			s.wantLen(t, 1)
			s.replace(t, "4", a, b, a)
			s.wantLen(t, 2)
			s.deleteKey(t, keyOf(b))
			s.wantLen(t, 1)
		},
	},
	{
		name:  "a walk sees one state although its body writes",
		rule:  "a walk holds no lock, and sees the state that was current when it began, whatever is written meanwhile; a Get sees the newest state",
		check: checkWalksWhileWriting,
	},
}

// walks returns both iterations, by name.
func walks(r store.Reader[*Object], namespace string) map[string]iter.Seq2[store.Key, *Object] {
	return map[string]iter.Seq2[store.Key, *Object]{
		"All":                                   r.All(),
		fmt.Sprintf("Namespace(%q)", namespace): r.Namespace(namespace),
	}
}

func checkWalksWhileWriting(t *testing.T, s *subject) {
	a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "1"), New("n", "c", "u3", "1")
	for name, walk := range walks(s.reader, "n") {
		s.written = nil
		s.replace(t, "1")
		s.replace(t, "2", a, b, c)
		within(t, func() {
			var seen []*Object
			s.wantWalk(t, name+", whose body wrote,", func(yield func(store.Key, *Object) bool) {
				for key, o := range walk {
					seen = append(seen, o)
					s.writeDuringWalk(t, len(seen), a, b, c)
					if !yield(key, o) {
						return
					}
				}
			}, a, b, c)
		}, "a write from the body of "+name+" does not return: does the walk hold a lock?")
		s.wantAll(t, New("n", "e", "u5", "7"))
	}
}

// writeDuringWalk makes a change of every kind, before and after the position of an iteration.
func (s *subject) writeDuringWalk(t *testing.T, step int, a, b, c *Object) {
	switch step {
	case 1:
		s.delete(t, b.At("3"))
		s.update(t, c.At("4"))
		s.wantNone(t, keyOf(b))
		s.wantObjects(t, a, c.At("4"))
		s.add(t, New("n", "d", "u4", "5"))
	case 2:
		s.deleteKey(t, keyOf(a))
		s.wantNone(t, keyOf(a))
	case 3:
		s.replace(t, "7", New("n", "e", "u5", "7"))
	}
}
