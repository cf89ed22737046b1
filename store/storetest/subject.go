package storetest

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
)

// subject is the store under test. Its methods write, read and compare. A failure prints the
// difference and all earlier writes.
type subject struct {
	store   store.Store[*Object]
	reader  store.Reader[*Object]
	written []string
}

func newSubject(t rapid.TB, open func() (store.Store[*Object], store.Reader[*Object])) *subject {
	t.Helper()
	s := &subject{}
	s.store, s.reader = open()
	if s.store == nil || s.reader == nil {
		t.Fatalf("open returned a Store of type %T and a Reader of type %T: neither may be nil", s.store, s.reader)
	}
	if n, version := s.reader.Len(), s.reader.ResourceVersion(); n != 0 || version != "" {
		t.Fatalf("open returned a store with %d objects at resource version %q: it has to be fresh and empty", n, version)
	}
	return s
}

func (s *subject) errorf(t rapid.TB, format string, args ...any) {
	t.Helper()
	history := "nothing was written"
	if len(s.written) > 0 {
		history = strings.Join(s.written, "\n\t")
	}
	t.Errorf("%s\nafter:\n\t%s", fmt.Sprintf(format, args...), history)
}

// outcome is the last write of a test.
type outcome struct {
	s *subject
	t rapid.TB
}

// leaves expects a resource version after the write.
func (o outcome) leaves(resourceVersion string) {
	o.t.Helper()
	o.s.wantVersion(o.t, resourceVersion)
}

// wrote records a write and expects that it succeeded.
func (s *subject) wrote(t rapid.TB, err error, format string, args ...any) outcome {
	t.Helper()
	s.note(format, args...)
	if err != nil {
		s.errorf(t, "the last write returned an error: %v", err)
	}
	return outcome{s, t}
}

func (s *subject) note(format string, args ...any) {
	s.written = append(s.written, fmt.Sprintf(format, args...))
}

func (s *subject) add(t rapid.TB, o *Object) outcome {
	t.Helper()
	return s.wrote(t, s.store.Add(o), "Add(%v)", o)
}

func (s *subject) update(t rapid.TB, o *Object) outcome {
	t.Helper()
	return s.wrote(t, s.store.Update(o), "Update(%v)", o)
}

func (s *subject) delete(t rapid.TB, o *Object) outcome {
	t.Helper()
	return s.wrote(t, s.store.Delete(o), "Delete(%v)", o)
}

func (s *subject) deleteKey(t rapid.TB, key store.Key) outcome {
	t.Helper()
	return s.wrote(t, s.store.DeleteKey(key), "DeleteKey(%v)", key)
}

func (s *subject) replace(t rapid.TB, resourceVersion string, objects ...*Object) outcome {
	t.Helper()
	return s.wrote(t, s.store.Replace(slices.Clone(objects), resourceVersion), "Replace(%v, %q)", objects, resourceVersion)
}

func (s *subject) bookmark(t rapid.TB, resourceVersion string) outcome {
	t.Helper()
	return s.wrote(t, s.store.Bookmark(resourceVersion), "Bookmark(%q)", resourceVersion)
}

// badWrite is one method to write a single object.
type badWrite struct {
	name string
	call func(store.Store[*Object], *Object) error
}

var singleWrites = []badWrite{
	{"Add", store.Store[*Object].Add},
	{"Update", store.Store[*Object].Update},
	{"Delete", store.Store[*Object].Delete},
}

// rejects expects that a single write is rejected.
func (s *subject) rejects(t rapid.TB, w badWrite, bad *Object) outcome {
	t.Helper()
	err := recovering(func() error { return w.call(s.store, bad) })
	s.note("%s(%v)", w.name, bad)
	s.wantRejections(t, err, bad)
	return outcome{s, t}
}

// replaceRejects expects that a Replace rejects some of its objects. bad lists these objects again.
func (s *subject) replaceRejects(t rapid.TB, resourceVersion string, objects []*Object, bad ...*Object) outcome {
	t.Helper()
	err := recovering(func() error { return s.store.Replace(slices.Clone(objects), resourceVersion) })
	s.note("Replace(%v, %q)", objects, resourceVersion)
	s.wantRejections(t, err, bad...)
	return outcome{s, t}
}

// recovering turns a panic into an error, so that the message can list the writes.
func recovering(write func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return write()
}

func (s *subject) wantRejections(t rapid.TB, err error, bad ...*Object) {
	t.Helper()
	var rejected *store.RejectedError
	if !errors.As(err, &rejected) {
		s.errorf(t, "the last write returned the error %v, want a *store.RejectedError that names %v", err, bad)
		return
	}
	rest := slices.Clone(rejected.Rejections)
	for _, o := range bad {
		cause, version := store.ErrBadKey, store.Version{}
		if o != nil {
			cause, version = store.ErrBadKey, store.Version{UID: o.UID, ResourceVersion: o.ResourceVersion}
		}
		i := slices.IndexFunc(rest, func(r store.Rejection) bool {
			return r.Key == store.Key{} && r.Version == version && errors.Is(r.Err, cause)
		})
		if i < 0 {
			s.errorf(t, "the last write returned no Rejection without a key, with version %+v and the cause %q: %+v",
				version, cause, rejected.Rejections)
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	if len(rest) > 0 {
		s.errorf(t, "the last write rejected more than %v: %+v", bad, rest)
	}
}

// wantObjects expects that the store holds objects under their keys.
func (s *subject) wantObjects(t rapid.TB, objects ...*Object) {
	t.Helper()
	for _, want := range objects {
		got, ok := s.reader.Get(keyOf(want))
		if !ok || got == nil || *got != *want {
			s.errorf(t, "Get(%v) returned %v, %t, want %v", keyOf(want), got, ok, want)
		}
	}
}

// wantOnly expects that the store holds these objects and no others.
func (s *subject) wantOnly(t rapid.TB, objects ...*Object) {
	t.Helper()
	s.wantObjects(t, objects...)
	s.wantLen(t, len(objects))
}

// wantNone expects that the store holds no object under some keys.
func (s *subject) wantNone(t rapid.TB, keys ...store.Key) {
	t.Helper()
	for _, key := range keys {
		if got, ok := s.reader.Get(key); ok || got != nil {
			s.errorf(t, "Get(%v) returned %v, %t, want nil, false", key, got, ok)
		}
	}
}

// wantWalk expects that an iteration yields objects under their keys in the given order.
func (s *subject) wantWalk(t rapid.TB, name string, walk iter.Seq2[store.Key, *Object], want ...*Object) {
	t.Helper()
	var got []*Object
	for key, o := range walk {
		got = append(got, o)
		if o != nil && key != keyOf(o) {
			s.errorf(t, "%s yielded %v under the key %v", name, o, key)
		}
	}
	if !slices.EqualFunc(got, want, equal) {
		s.errorf(t, "%s yielded\n\t%v, want\n\t%v", name, got, want)
	}
}

func equal(a, b *Object) bool { return a == b || a != nil && b != nil && *a == *b }

func (s *subject) wantAll(t rapid.TB, want ...*Object) {
	t.Helper()
	s.wantWalk(t, "All", s.reader.All(), want...)
}

func (s *subject) wantNamespace(t rapid.TB, namespace string, want ...*Object) {
	t.Helper()
	s.wantWalk(t, fmt.Sprintf("Namespace(%q)", namespace), s.reader.Namespace(namespace), want...)
}

func (s *subject) wantLen(t rapid.TB, want int) {
	t.Helper()
	if got := s.reader.Len(); got != want {
		s.errorf(t, "Len returned %d, want %d", got, want)
	}
}

// wantVersion expects a resource version of the store and of the reader.
func (s *subject) wantVersion(t rapid.TB, want string) {
	t.Helper()
	if got := s.store.ResourceVersion(); got != want {
		s.errorf(t, "the Store's ResourceVersion returned %q, want %q", got, want)
	}
	if got := s.reader.ResourceVersion(); got != want {
		s.errorf(t, "the Reader's ResourceVersion returned %q, want %q", got, want)
	}
}
