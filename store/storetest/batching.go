package storetest

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
)

// batching has the clauses about batches, for stores that take them. One that can
// hand a batch to a store which takes none, as a decorator in front of such a one,
// says that it holds nothing; then it need not keep what it is not given.
var batching = []clause{
	{
		name: "Apply makes the writes of a batch in order",
		rule: "a batch leads where its writes lead one by one, the last one on a key counts, and the resource version is that of the last write",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "2"), New("n", "c", "u3", "3")
			s.replace(t, "1", a)
			batches := s.batches(t)
			var batch store.Batch[*Object]
			batch.Add(b)
			batch.Delete(a.At("3"))
			batch.Add(c.At("4"))
			batch.Update(b.At("5"))
			batch.Update(c.At("6"))
			batch.DeleteKey(keyOf(c))
			batch.Update(a.At("7"))
			s.wrote(t, batches.Apply(&batch), "Apply(Add b, Delete a, Add c, Update b, Update c, DeleteKey c, Update a)")
			s.wantObjects(t, a.At("7"), b.At("5"))
			s.wantNone(t, keyOf(c))
			s.wantLen(t, 2)
			s.wantVersion(t, "7")
			batch.Reset()
			batch.Bookmark("8")
			batch.Append(store.Write[*Object]{Type: store.WriteDeleteKey, Key: keyOf(b), Version: store.Version{ResourceVersion: "9"}})
			s.wrote(t, batches.Apply(&batch), "Apply(Bookmark 8, DeleteKey b at 9)")
			s.wantNone(t, keyOf(b))
			s.wantVersion(t, "9")
		},
	},
	{
		name: "Apply leaves out what is bad",
		rule: "what is bad in a batch comes back in one *RejectedError, and everything else is written; the resource version stays before it",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "3")
			s.replace(t, "1", a)
			var batch store.Batch[*Object]
			batch.Update(a.At("2"))
			batch.Add(nil)
			batch.Add(b)
			batch.Add(New("n", "", "u3", "4"))
			err := recovering(func() error { return s.batches(t).Apply(&batch) })
			s.note("Apply(Update a, Add nil, Add b, Add a nameless one)")
			s.wantRejections(t, err, nil, New("n", "", "u3", "4"))
			s.wantObjects(t, a.At("2"), b)
			s.wantVersion(t, "2")
		},
	},
	{
		name: "a lacking object keeps its old value in a batch",
		rule: "an object that exists and cannot be had is no deletion: what is held stays, it comes back as it was told, and the resource version stays before it until it is stored",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "3")
			s.replace(t, "1", a)
			batches := s.batches(t)
			if !s.holds(batches, a) {
				return
			}
			var batch store.Batch[*Object]
			batch.Lack(lackOf(a.At("2")))
			batch.Add(b)
			s.lacks(t, batches.Apply(&batch), a.At("2"), "Apply(Lack a, Add b)")
			s.wantObjects(t, a, b)
			s.bookmark(t, "4")
			s.wantVersion(t, "1")
			s.update(t, a.At("5"))
			s.wantVersion(t, "5")
		},
	},
	{
		name: "Holds tells states of objects apart",
		rule: "Holds is true for nothing but what is held at that UID and resource version, and never for a version that is not known in full",
		check: func(t *testing.T, s *subject) {
			a, half := New("n", "a", "u1", "1"), New("n", "half", "", "1")
			s.replace(t, "1", a, half)
			batches := s.batches(t)
			if !s.holds(batches, a) {
				return
			}
			for _, not := range []*Object{
				a.At("2"), New("n", "a", "u2", "1"), New("n", "a", "", "1"), New("n", "a", "u1", ""),
				New("n", "b", "u1", "1"), New("m", "a", "u1", "1"), half,
			} {
				if s.holds(batches, not) {
					s.errorf(t, "Holds returned true for %v", not)
				}
			}
			s.update(t, a.At("2"))
			if s.holds(batches, a) || !s.holds(batches, a.At("2")) {
				s.errorf(t, "Holds does not tell the state that is held")
			}
			s.delete(t, a.At("3"))
			if s.holds(batches, a.At("2")) {
				s.errorf(t, "Holds returned true for what was deleted")
			}
		},
	},
	{
		name: "ReplaceAll keeps what it is told of by key",
		rule: "what a list has unchanged or lacking stays as it is held, and is no deletion; Lacking beats Objects, which beat Unchanged, and the resource version stays before what is lacking",
		check: func(t *testing.T, s *subject) {
			a, b, c, d := New("n", "a", "u1", "1"), New("n", "b", "u2", "1"), New("n", "c", "u3", "1"), New("n", "d", "u4", "1")
			s.replace(t, "1", a, b, c, d)
			batches := s.batches(t)
			if !s.holds(batches, a) {
				return
			}
			s.wrote(t, batches.ReplaceAll(store.Listing[*Object]{
				Objects: []*Object{b.At("2")}, Unchanged: []store.Key{keyOf(a), keyOf(b), keyOf(d)}, ResourceVersion: "3",
			}), "ReplaceAll(b@2, unchanged a b d, %q)", "3")
			s.wantAll(t, a, b.At("2"), d)
			s.wantVersion(t, "3")
			s.lacks(t, batches.ReplaceAll(store.Listing[*Object]{
				Objects: []*Object{b.At("4"), c.At("4")}, Lacking: []store.Rejection{lackOf(b.At("5"))}, ResourceVersion: "6",
			}), b.At("5"), "ReplaceAll(b@4 c@4, lacking b@5, %q)", "6")
			s.wantAll(t, b.At("2"), c.At("4"))
			s.wantVersion(t, "3")
		},
	},
}

// batches returns the store's way to take batches. A store without one passes.
func (s *subject) batches(t *testing.T) store.BatchStore[*Object] {
	t.Helper()
	batches := store.Batches(s.store)
	if own, ok := s.store.(store.BatchStore[*Object]); !ok || batches != own {
		t.Skip("the store takes no batches: it has no methods of a store.BatchStore, or its Itself returns another one")
	}
	return batches
}

func (s *subject) holds(batches store.BatchStore[*Object], o *Object) bool {
	return batches.Holds(keyOf(o), store.Version{UID: o.UID, ResourceVersion: o.ResourceVersion})
}

var errLacking = errors.New("cannot be had")

func lackOf(o *Object) store.Rejection {
	return store.Rejection{Key: keyOf(o), Version: store.Version{UID: o.UID, ResourceVersion: o.ResourceVersion}, Err: errLacking}
}

// lacks expects that one object was rejected because it cannot be had.
func (s *subject) lacks(t rapid.TB, err error, o *Object, format string, args ...any) {
	t.Helper()
	s.note(format, args...)
	var rejected *store.RejectedError
	if !errors.As(err, &rejected) || !slices.Equal(rejected.Rejections, []store.Rejection{lackOf(o)}) {
		s.errorf(t, "the last write returned the error %v, want a *store.RejectedError of %+v and nothing else", err, lackOf(o))
	}
}
