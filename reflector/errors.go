package reflector

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

var (
	// ErrNoClient means that the program made a reflector with a nil client.
	ErrNoClient = errors.New("reflector has no client: pass one to New, such as clientset.CoreV1().Pods(namespace)")

	// ErrNoStore means that the program made a reflector with a nil store.
	ErrNoStore = errors.New("reflector has no store: pass one to New, such as store.New(store.ObjectKey[*corev1.Pod])")

	// ErrRunning means that the program called Run while Run was active already.
	ErrRunning = errors.New("reflector is running already")

	// ErrNoResourceVersion means that a list has no resource version, so that no watch can start
	// from it. The store keeps its content.
	ErrNoResourceVersion = errors.New("list has no resource version: the server or the client is not a Kubernetes API")

	// ErrRepeatedPage means that a page of a list names itself as the next one.
	ErrRepeatedPage = errors.New("list repeats its continue token and would never end")

	// ErrEndlessList means that a list has more pages than any server has objects, or that its
	// pages arrived for half an hour. Its continue tokens may never end.
	ErrEndlessList = errors.New("list does not end: its continue tokens may go on for ever")

	// ErrShortWatch means that the server ended a watch within a second without a new event. It
	// also means that two watches in a row ended within ten seconds each. A proxy may block
	// watches.
	ErrShortWatch = errors.New("watch ended too soon: a proxy may not let watches through")

	// ErrStreamEnded means that a watch-list ended before the server had sent all objects.
	ErrStreamEnded = errors.New("watch-list ended before all objects had come")

	// ErrNoInitialEventsEnd means that a watch-list sent no closing bookmark. The
	// server may not support watch-lists. The reflector uses lists for an hour, then
	// tries a watch-list again.
	ErrNoInitialEventsEnd = errors.New("watch-list fell silent before its closing bookmark")

	// ErrSilentWatch means that a watch lasted longer than the reflector requested, and was silent
	// for two minutes. A proxy may keep a dead connection open. The reflector opens another watch.
	// Test doubles that neither end watches nor send bookmarks, such as client-go's fakes, also
	// cause this error.
	ErrSilentWatch = errors.New("watch is overdue and silent: something may keep a dead connection open")

	// ErrNoAnswer means that the server did not answer in time. The reflector waits two minutes for
	// the answer to a watch or a probe, and ten minutes for a whole page of a list.
	ErrNoAnswer = errors.New("server did not answer in time")

	// ErrServerBehind means that the server is at an older resource version than before, or that an
	// object differs although it is no newer. The server was restored from a backup. The reflector
	// lists anew.
	ErrServerBehind = errors.New("server does not know what it sent before: it may have been restored from a backup")

	// ErrNotServed means that the server does not serve the resource (404). Its
	// CustomResourceDefinition may not be installed yet. The reflector asks again after each
	// back-off.
	ErrNotServed = errors.New("server does not serve the resource: its CustomResourceDefinition or aggregated API may not be installed yet")

	// ErrTable means that the server sent a Table, a format for display, instead of objects.
	ErrTable = errors.New("server sent a Table instead of objects: the client must not accept as=Table")

	// ErrNothingSelected means that a selector matches no object at all. The API has no way to
	// express such a selector.
	ErrNothingSelected = errors.New("selector matches nothing: use another one, or no reflector")

	errNoWatch = errors.New("client returned neither a watch nor an error")
	errNoList  = errors.New("client returned neither a list nor an error")
)

// TypeError means that a watch event carried something other than an object of the reflector's
// type.
type TypeError struct {
	// Want and Got are Go types, such as "*v1.Pod".
	Want, Got string
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("watch event carries a %s, want a %s", e.Got, e.Want)
}

func newTypeError[T any](got runtime.Object) *TypeError {
	e := &TypeError{Want: reflect.TypeFor[T]().String(), Got: "nil"}
	if got != nil {
		e.Got = reflect.TypeOf(got).String()
		if isNil(got) {
			e.Got = "nil " + e.Got
		}
	}
	return e
}

// MismatchError means that the server sent an object of another kind, API group, namespace or name
// than the client requested. The reflector stores nothing more from that list or watch, and lists
// again after a back-off.
type MismatchError struct {
	// What is "kind", "API group", "namespace" or "name".
	What string
	// Want is the requested value, and Got is the value that the server sent.
	Want, Got string
}

// Error names both.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("server sent an object whose %s is %q, want %q: the client and the server do not mean the same resource", e.What, e.Got, e.Want)
}

// EventTypeError means that a watch event has a type that this version of the library does not
// know.
type EventTypeError struct{ Type string }

// Error names the type.
func (e *EventTypeError) Error() string {
	return fmt.Sprintf("unknown type %q of a watch event", cut(e.Type, 64))
}

// Op is the operation of a reflector that failed.
type Op string

const (
	// OpList is requesting a list, or reading it.
	OpList Op = "list"
	// OpWatch is requesting a watch, or reading it.
	OpWatch Op = "watch"
	// OpStore is writing objects to the store.
	OpStore Op = "store"
	// OpRecord is writing the recording: see [WithRecorder].
	OpRecord Op = "record"
)

// Error is one failure of a running reflector. Use errors.As, errors.Is and the functions of
// k8s.io/apimachinery/pkg/api/errors to examine its cause.
type Error struct {
	// Reflector is the reflector's name: see WithName.
	Reflector string
	Op        Op
	// Key is the key of the affected object. It is zero if the failure is not about one object, or
	// if the object has no key.
	Key store.Key
	// ResourceVersion is the version of the object, or else the version of the request for the list
	// or the watch. It may be empty.
	ResourceVersion string
	Err             error
}

// Error names the reflector, the operation, the object, the resource version and the cause, in at
// most 1 KiB.
func (e *Error) Error() string {
	s := fmt.Sprintf("reflector %s: %s", cut(e.Reflector, maxName), e.Op)
	if e.Key != (store.Key{}) {
		s += fmt.Sprintf(" %q", cut(e.Key.String(), maxName))
	}
	if e.ResourceVersion != "" {
		s += fmt.Sprintf(" at resource version %q", cut(e.ResourceVersion, 64))
	}
	return cut(fmt.Sprintf("%s: %v", s, e.Err), maxText)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// isTable reports whether an object is a Table, in any Go type.
func isTable(object any) bool {
	o, ok := object.(runtime.Object)
	if !ok || isNil(o) {
		return false
	}
	kind := o.GetObjectKind().GroupVersionKind()
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}

// expired reports whether the server no longer knows the requested resource version: status 410,
// with either of its two reasons.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// tooLarge reports whether the server is behind the requested resource version, for example after a
// restore from a backup. Servers report this in three ways.
func tooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsTimeout(err) || !errors.As(err, &status) {
		return false
	}
	// Before Kubernetes 1.17, servers sent only these words, without a cause type.
	const words = "Too large resource version"
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Message == words {
				return true
			}
		}
	}
	return strings.Contains(status.Status().Message, words)
}

// refused reports whether the server will never list or watch at the requested resource version.
// The version expired, is ahead of the server's own, or is not valid.
func refused(err error) bool {
	return expired(err) || tooLarge(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// undecoded reports whether a client of client-go could not read a watch: the connection broke, or
// client-go could not decode an event. client-go turns this into an ERROR event, as if the server
// had sent it, and marks the event with a cause.
func undecoded(err error) bool { return apierrors.HasStatusCause(err, "ClientWatchDecoding") }

// isRefusal reports whether the server refuses a request with a status below 500, and so will
// refuse it again.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
}

// unreachable reports whether the server did not answer at all.
func unreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || errors.Is(err, ErrNoAnswer)
}

// verdict says which part of a write the store accepted, according to its error.
type verdict uint8

const (
	took   verdict = iota // everything
	lacks                 // everything except the objects that the error names
	broken                // an unknown part
)

// judge returns the worst verdict in an error. A Tee joins the errors of several stores. If one
// store failed and another one rejected an object, the failure counts.
func judge(err error) verdict {
	switch e := err.(type) {
	case nil:
		return took
	case *store.RejectedError:
		return lacks
	case interface{ Unwrap() error }:
		if cause := e.Unwrap(); cause != nil {
			return judge(cause)
		}
	case interface{ Unwrap() []error }:
		worst := took
		for _, cause := range e.Unwrap() {
			worst = max(worst, judge(cause))
		}
		return worst
	}
	return broken
}
