package storetest

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
)

// batching has the clauses about batches, for stores that have batches of their own.
var batching = []clause{
	{
		name: "a store has batches of its own",
		rule: "BeginBatch returns a batch for the store itself, and nil for a store that embeds it: that one may override Add",
		check: func(t *testing.T, s *subject) {
			for _, replace := range []bool{false, true} {
				s.begin(t, replace).Discard()
				if _, own := begin(&embedding{s.batches(t)}, replace); own {
					s.errorf(t, "BeginBatch(self, %t) returned a batch although self is not the store, but a type that embeds it", replace)
				}
			}
		},
	},
	{
		name: "a batch makes its writes in order and at once",
		rule: "a batch leads where its writes lead one by one, and shows nothing before Commit; the resource version is that of Commit, or of the last write if Commit has none",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "2"), New("n", "c", "u3", "3")
			s.replace(t, "1", a)
			batch := s.begin(t, false)
			s.say(t, batch, put(b), gone(a.At("3")), put(c.At("4")), put(b.At("5")), put(c.At("6")), goneKey(c, ""), put(a.At("7")))
			s.wantAll(t, a)
			s.wantVersion(t, "1")
			s.wrote(t, batch.Commit(""), "Commit(%q)", "")
			s.wantAll(t, a.At("7"), b.At("5"))
			s.wantNone(t, keyOf(c))
			s.wantLen(t, 2)
			s.wantVersion(t, "7")
			s.committed(t, s.commit(t, false, "8")).leaves("8")
			s.committed(t, s.commit(t, false, "", goneKey(b, "9")))
			s.wantAll(t, a.At("7"))
			s.wantVersion(t, "9")
			s.committed(t, s.commit(t, false, "11", put(a.At("10"))))
			s.wantAll(t, a.At("10"))
			s.wantVersion(t, "11")
		},
	},
	{
		name: "a batch can be used again",
		rule: "after Commit and after Discard a batch is empty: earlier writes are not made again, and discarded ones never",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "2"), New("n", "c", "u3", "3")
			for _, replace := range []bool{false, true} {
				s.replace(t, "1", a)
				batch := s.begin(t, replace)
				s.say(t, batch, put(a.At("2")), put(b))
				batch.Discard()
				s.note("Discard()")
				s.wantAll(t, a)
				s.say(t, batch, keep(a), put(c))
				s.wrote(t, batch.Commit("4"), "Commit(%q)", "4")
				s.wantAll(t, a, c)
				s.deleteKey(t, keyOf(c))
				s.say(t, batch, keep(a), put(b.At("5")))
				s.wrote(t, batch.Commit("6"), "Commit(%q)", "6")
				s.wantAll(t, a, b.At("5"))
				s.wantVersion(t, "6")
			}
		},
	},
	{
		name: "a batch leaves out what is bad",
		rule: "what is bad in a batch comes back in one *RejectedError, and everything else is written; the resource version stays before it",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "3")
			s.replace(t, "1", a)
			s.wantRejections(t, s.commit(t, false, "5", put(a.At("2")), put(nil), put(b), put(New("n", "", "u3", "4"))), nil, New("n", "", "u3", "4"))
			s.wantAll(t, a.At("2"), b)
			s.wantVersion(t, "2")
			s.wantRejections(t, s.commit(t, true, "7", put(nil), put(a.At("6")), put(New("n", "", "u3", "6"))), nil, New("n", "", "u3", "6"))
			s.wantAll(t, a.At("6"))
			s.wantVersion(t, "2")
		},
	},
	{
		name: "a batch rejects an object with another key than its write",
		rule: "an object with another key than its Write says is rejected with ErrBadKey under the key of the Write, where the store keeps what it holds",
		check: func(t *testing.T, s *subject) {
			for _, replace := range []bool{false, true} {
				a := New("n", "a", "u1", "1")
				s.replace(t, "1", a)
				mismatch := write(store.Write[*Object]{Type: store.Modification, Object: New("n", "b", "u2", "2"), Key: keyOf(a)})
				s.wantRejection(t, s.commit(t, replace, "3", mismatch), keyOf(a), store.ErrBadKey)
				s.wantAll(t, a)
				s.wantVersion(t, "1")
			}
		},
	},
	{
		name: "an object with an Err keeps its old value",
		rule: "a Write with an Err is no deletion: the store keeps what it holds, the Err comes back as it was told, and the resource version stays before it until the object is stored",
		check: func(t *testing.T, s *subject) {
			a, b := New("n", "a", "u1", "1"), New("n", "b", "u2", "3")
			s.replace(t, "1", a)
			s.wantRejection(t, s.commit(t, false, "4", failed(a.At("2")), put(b)), keyOf(a), errDecode)
			s.wantAll(t, a, b)
			s.bookmark(t, "4").leaves("1")
			s.update(t, a.At("5")).leaves("5")
		},
	},
	{
		name: "Has tells states of objects apart",
		rule: "Has is true for nothing but what is held at that UID and resource version, with the content that has that hash, and never for a version without one of the two, nor without a hash",
		check: func(t *testing.T, s *subject) {
			a, half := New("n", "a", "u1", "1"), New("n", "half", "", "1")
			s.committed(t, s.commit(t, true, "1", read(a, 7), read(half, 7)))
			s.wantHas(t, true, 7, a)
			s.wantHas(t, false, 8, a)
			s.wantHas(t, false, 0, a)
			s.wantHas(t, false, 7,
				a.At("2"), New("n", "a", "u2", "1"), New("n", "a", "", "1"), New("n", "a", "u1", ""),
				New("n", "b", "u1", "1"), New("m", "a", "u1", "1"), half)
			s.committed(t, s.commit(t, false, "2", read(a.At("2"), 9)))
			s.wantHas(t, false, 7, a)
			s.wantHas(t, true, 9, a.At("2"))
			s.update(t, a.At("3"))
			s.wantHas(t, false, 9, a.At("3"))
			s.wantHas(t, false, 0, a.At("3"))
			s.delete(t, a.At("4"))
			s.wantHas(t, false, 9, a.At("2"))
			for _, replace := range []bool{true, false} {
				s.committed(t, s.commit(t, true, "2", read(a, 7)))
				before, _ := s.reader.Get(keyOf(a))
				same := *a
				s.committed(t, s.commit(t, replace, "3", read(&same, 8)))
				if after, _ := s.reader.Get(keyOf(a)); after != before {
					s.errorf(t, "Get(%v) returned another pointer than before, although the content is the same", keyOf(a))
				}
				s.wantHas(t, true, 8, a)
				other := *a
				other.Payload = "another form"
				s.committed(t, s.commit(t, replace, "4", read(&other, 9)))
				s.wantAll(t, &other)
				s.wantHas(t, true, 9, a)
				s.replace(t, "5")
			}
		},
	},
	{
		name: "a batch that replaces everything becomes the content",
		rule: "Commit makes the list the content of the store at its resource version, keeps what Keep names, and shows nothing before",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "1"), New("n", "c", "u3", "1")
			s.replace(t, "1", a, b, c)
			before, _ := s.reader.Get(keyOf(a))
			batch := s.begin(t, true)
			s.say(t, batch, keep(a), put(b.At("2")), put(New("n", "d", "u4", "2")))
			s.wantAll(t, a, b, c)
			s.wantVersion(t, "1")
			s.wrote(t, batch.Commit("3"), "Commit(%q)", "3")
			s.wantAll(t, a, b.At("2"), New("n", "d", "u4", "2"))
			s.wantVersion(t, "3")
			s.committed(t, s.commit(t, true, "4", put(New("n", "a", "u1", "1"))))
			s.wantAll(t, a)
			if after, _ := s.reader.Get(keyOf(a)); after != before {
				s.errorf(t, "Get(%v) returned another pointer than before, although UID and resource version are the same", keyOf(a))
			}
			s.wantRejection(t, s.commit(t, true, "5", put(a), keep(c)), keyOf(c), store.ErrNotHeld)
			s.wantAll(t, a)
			s.wantVersion(t, "4")
		},
	},
	{
		name: "a batch that replaces everything keeps what has an Err",
		rule: "an object of a list with an Err is not gone: what the store holds under its key stays, or of its UID if it has no key, and the resource version stays before it",
		check: func(t *testing.T, s *subject) {
			a, b, c := New("n", "a", "u1", "1"), New("n", "b", "u2", "1"), New("n", "c", "u3", "1")
			s.replace(t, "1", a, b, c)
			s.wantRejection(t, s.commit(t, true, "5", put(a.At("4")), failed(b.At("4"))), keyOf(b), errDecode)
			s.wantAll(t, a.At("4"), b)
			s.wantVersion(t, "1")
			keyless := write(store.Write[*Object]{Version: store.VersionOf(b.At("6")), Err: errDecode})
			s.wantRejection(t, s.commit(t, true, "7", keyless), store.Key{}, errDecode)
			s.wantAll(t, b)
			s.wantVersion(t, "1")
			s.committed(t, s.commit(t, true, "8", keep(b))).leaves("8")
		},
	},
	{
		name: "a batch that replaces everything makes the last write of a key",
		rule: "of several writes of a key in a list, and of a Keep, the last counts, whatever it is; a Deletion takes the key back",
		check: func(t *testing.T, s *subject) {
			a, other := New("n", "a", "u1", "1"), New("n", "other", "u2", "1")
			for _, c := range []struct {
				steps []step
				want  *Object
			}{
				{[]step{put(a.At("2")), put(a.At("3"))}, a.At("3")},
				{[]step{put(a.At("3")), put(a.At("2"))}, a.At("2")},
				{[]step{put(a.At("2")), keep(a)}, a},
				{[]step{keep(a), put(a.At("2"))}, a.At("2")},
				{[]step{put(a.At("2")), gone(a.At("3"))}, nil},
				{[]step{keep(a), goneKey(a, "")}, nil},
				{[]step{gone(a.At("2")), put(a.At("3"))}, a.At("3")},
				{[]step{failed(a.At("2")), put(a.At("3"))}, a.At("3")},
				{[]step{failed(a.At("2")), keep(a)}, a},
				{[]step{failed(a.At("2")), goneKey(a, "")}, nil},
			} {
				s.written = nil
				s.replace(t, "1", a, other)
				s.committed(t, s.commit(t, true, "9", append(c.steps[:1:1], put(other), c.steps[1])...))
				if c.want == nil {
					s.wantAll(t, other)
				} else {
					s.wantAll(t, c.want, other)
				}
				s.wantVersion(t, "9")
			}
			for _, before := range []step{put(a.At("2")), keep(a), gone(a.At("2"))} {
				s.written = nil
				s.replace(t, "1", a, other)
				s.wantRejection(t, s.commit(t, true, "9", before, put(other), failed(a.At("3"))), keyOf(a), errDecode)
				s.wantAll(t, a, other)
				s.wantVersion(t, "1")
			}
		},
	},
}

// embedding inherits BeginBatch from the store under test.
type embedding struct{ store.BatchStore[*Object] }

// begin starts a batch of a list, or of a watch.
func begin(s store.Store[*Object], replace bool) (batch store.Batch[*Object], own bool) {
	if replace {
		return decorate.BeginList(s)
	}
	return decorate.BeginWatch(s)
}

// begin starts a batch. A store without batches of its own fails the clause.
func (s *subject) begin(t *testing.T, replace bool) store.Batch[*Object] {
	t.Helper()
	batch, own := begin(s.store, replace)
	if !own {
		t.Fatalf("%T has no batches of its own: it is no store.BatchStore, or its BeginBatch(self, %t) returned nil for the store itself; "+
			"test a store without batches with storetest.Run", s.store, replace)
	}
	s.note("Begin(replace %t)", replace)
	return batch
}

func (s *subject) batches(t *testing.T) store.BatchStore[*Object] {
	t.Helper()
	s.begin(t, false).Discard()
	return s.store.(store.BatchStore[*Object])
}

// step is one call of a batch.
type step struct {
	text string
	call func(store.Batch[*Object]) error
}

func write(w store.Write[*Object]) step {
	text := fmt.Sprintf("Write(%v %v", w.Type, w.Object)
	if w.Hash != 0 {
		text += fmt.Sprintf(" with hash %d", w.Hash)
	}
	if w.Err != nil {
		text = fmt.Sprintf("Write(Err of version %+v", w.Version)
	}
	return step{fmt.Sprintf("%s, key %q)", text, w.Key), func(b store.Batch[*Object]) error { return b.Write(w) }}
}

func put(o *Object) step { return write(store.Write[*Object]{Type: store.Modification, Object: o}) }

// read writes an object that was read from bytes with a hash.
func read(o *Object, hash uint64) step {
	return write(store.Write[*Object]{Type: store.Modification, Object: o, Hash: hash})
}

func gone(o *Object) step {
	return write(store.Write[*Object]{Type: store.Deletion, Object: o, FinalStateKnown: true})
}

func goneKey(o *Object, resourceVersion string) step {
	return write(store.Write[*Object]{Type: store.Deletion, Key: keyOf(o), Version: store.Version{ResourceVersion: resourceVersion}})
}

func failed(o *Object) step {
	return write(store.Write[*Object]{Key: keyOf(o), Version: store.VersionOf(o), Err: errDecode})
}

func keep(o *Object) step {
	return step{fmt.Sprintf("Keep(%q)", keyOf(o)), func(b store.Batch[*Object]) error {
		b.Keep(keyOf(o))
		return nil
	}}
}

var errDecode = errors.New("cannot be decoded")

// say passes some writes to a batch, and expects no error.
func (s *subject) say(t *testing.T, batch store.Batch[*Object], steps ...step) {
	t.Helper()
	for _, each := range steps {
		s.wrote(t, recovering(func() error { return each.call(batch) }), "%s", each.text)
	}
}

// commit makes a batch of some writes, and returns the error of Commit.
func (s *subject) commit(t *testing.T, replace bool, resourceVersion string, steps ...step) error {
	t.Helper()
	batch := s.begin(t, replace)
	s.say(t, batch, steps...)
	s.note("Commit(%q)", resourceVersion)
	return recovering(func() error { return batch.Commit(resourceVersion) })
}

// committed expects that Commit succeeded.
func (s *subject) committed(t *testing.T, err error) outcome {
	t.Helper()
	if err != nil {
		s.errorf(t, "Commit returned an error: %v", err)
	}
	return outcome{s, t}
}

// wantRejection expects that one object was rejected.
func (s *subject) wantRejection(t rapid.TB, err error, key store.Key, cause error) {
	t.Helper()
	var rejected *store.RejectedError
	if !errors.As(err, &rejected) || len(rejected.Rejections) != 1 || rejected.Rejections[0].Key != key || !errors.Is(rejected.Rejections[0].Err, cause) {
		s.errorf(t, "the last batch returned the error %v, want a *store.RejectedError of the key %q with the cause %q and nothing else", err, key, cause)
	}
}

func (s *subject) wantHas(t *testing.T, want bool, hash uint64, objects ...*Object) {
	t.Helper()
	batches := s.batches(t)
	for _, o := range objects {
		if batches.Has(keyOf(o), store.VersionOf(o), hash) != want {
			s.errorf(t, "Has returned %t for %v with hash %d, want %t", !want, o, hash, want)
		}
	}
}
