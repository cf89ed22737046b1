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
	// ErrNoClient means that a reflector was made with a nil client.
	ErrNoClient = errors.New("reflector has no client: pass one to New, such as clientset.CoreV1().Pods(namespace)")

	// ErrNoStore means that a reflector was made with a nil store.
	ErrNoStore = errors.New("reflector has no store: pass one to New, such as store.New(store.ObjectKey[*corev1.Pod])")

	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("reflector is running already")

	// ErrNoResourceVersion means that a list came without a resource version,
	// so that there is no place to watch from. What the store holds stays.
	ErrNoResourceVersion = errors.New("list has no resource version: the server or the client is not a Kubernetes API")

	// ErrRepeatedPage means that a page of a list names itself as the next one.
	ErrRepeatedPage = errors.New("list repeats its continue token and would never end")

	// ErrEndlessList means that a list has more pages than any server has objects, or
	// that its pages came for half an hour. Its continue tokens may never end.
	ErrEndlessList = errors.New("list does not end: its continue tokens may go on for ever")

	// ErrShortWatch means that the server ended a watch within a second with nothing new,
	// or two watches in a row within ten seconds each. A proxy may not let watches through.
	ErrShortWatch = errors.New("watch ended too soon: a proxy may not let watches through")

	// ErrStreamEnded means that a watch-list ended before it was complete.
	ErrStreamEnded = errors.New("watch-list ended before all objects had come")

	// ErrNoInitialEventsEnd means that a watch-list sent no closing bookmark. The
	// server may not support watch-lists. The reflector uses lists for an hour, then
	// tries a watch-list again.
	ErrNoInitialEventsEnd = errors.New("watch-list fell silent before its closing bookmark")

	// ErrSilentWatch means that a watch went on for longer than the server was asked to
	// let it, and was silent for two minutes. What is between here and there may keep
	// connections open that lead nowhere. The reflector opens another watch. A double that
	// neither ends watches nor sends bookmarks, as client-go's fakes, has this reported, too.
	ErrSilentWatch = errors.New("watch is overdue and silent: something may keep a dead connection open")

	// ErrNoAnswer means that the server did not open a watch within two minutes, or did not
	// send all of a page of a list within ten.
	ErrNoAnswer = errors.New("server did not answer in time")

	// ErrServerBehind means that the server is at an older resource version than before,
	// or that an object has another past: the server was restored from a backup. The
	// reflector lists anew.
	ErrServerBehind = errors.New("server does not know what it sent before: it may have been restored from a backup")

	// ErrNotServed means that the server does not know the resource (404): its
	// definition may not be installed yet. The reflector waits for it, and asks again
	// after each back-off.
	ErrNotServed = errors.New("server does not serve the resource: its CustomResourceDefinition or aggregated API may not be installed yet")

	// ErrTable means that the server sent a Table, which is for people to read,
	// instead of objects.
	ErrTable = errors.New("server sent a Table instead of objects: the client must not accept as=Table")

	// ErrNothingSelected means that a selector matches no object at all, which
	// the API has no way to ask for.
	ErrNothingSelected = errors.New("selector matches nothing: use another one, or no reflector")

	errNoWatch = errors.New("client returned neither a watch nor an error")
	errNoList  = errors.New("client returned neither a list nor an error")
)

// TypeError means that a watch event carried something else than an object of
// the reflector's type.
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

// MismatchError means that the server sent an object of another kind, API group or namespace than
// it was asked for. Nothing of that list or watch is stored any more; the reflector lists again
// after a back-off.
type MismatchError struct {
	// What is "kind", "API group", "namespace" or "name".
	What string
	// Want was asked for, and Got was sent.
	Want, Got string
}

// Error names both.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("server sent an object whose %s is %q, want %q: the client and the server do not mean the same resource", e.What, e.Got, e.Want)
}

// EventTypeError means that a watch event was of a type that this version of the
// library does not know.
type EventTypeError struct{ Type string }

// Error names the type.
func (e *EventTypeError) Error() string {
	return fmt.Sprintf("unknown type %q of a watch event", cut(e.Type, 64))
}

// Op is what a reflector was doing when something went wrong.
type Op string

const (
	// OpList is asking for a list, or reading it.
	OpList Op = "list"
	// OpWatch is asking for a watch, or reading it.
	OpWatch Op = "watch"
	// OpStore is putting what came into the store.
	OpStore Op = "store"
	// OpRecord is recording what came: see [WithRecorder].
	OpRecord Op = "record"
)

// Error is one thing that went wrong while a reflector ran. What it means can be
// asked of the cause with errors.As and errors.Is, and with the functions of
// k8s.io/apimachinery/pkg/api/errors.
type Error struct {
	// Reflector is the reflector's name: see WithName.
	Reflector string
	Op        Op
	// Key is the object in question; zero if it is not about one, or if the
	// object has no key.
	Key store.Key
	// ResourceVersion is that of the object, or else the one that the list or
	// the watch was asked for; it may be empty.
	ResourceVersion string
	Err             error
}

// Error names the reflector, what it did, the object, the resource version and
// the cause, in at most 1 KiB.
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

// isTable reports whether an object is a Table, of whatever Go type.
func isTable(object any) bool {
	o, ok := object.(runtime.Object)
	if !ok || isNil(o) {
		return false
	}
	kind := o.GetObjectKind().GroupVersionKind()
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}

// expired reports whether the server no longer knows the resource version that
// it was asked for: 410, either of its two reasons.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// tooLarge reports whether the server is behind the resource version that it was
// asked for, as after the restoring of a backup. Servers have said so in three ways.
func tooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsTimeout(err) || !errors.As(err, &status) {
		return false
	}
	// Before Kubernetes 1.17 there was no cause of a type, only these words.
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

// refused reports whether the server will not list or watch at the resource version
// that it was asked for, now or later: it expired, is ahead of the server's own, or
// is none of the server's at all.
func refused(err error) bool {
	return expired(err) || tooLarge(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// undecoded reports whether a client of client-go could not read a watch: the connection
// broke, or what came could not be decoded. client-go makes an ERROR event of it, as if the
// server had sent it, and marks that with a cause.
func undecoded(err error) bool { return apierrors.HasStatusCause(err, "ClientWatchDecoding") }

// isRefusal reports whether the server refuses a request, and so will refuse it again.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
}

// unreachable reports whether nobody answered at all.
func unreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || errors.Is(err, ErrNoAnswer)
}

// verdict is what the error of a store says of what the store was given.
type verdict uint8

const (
	took   verdict = iota // everything
	lacks                 // everything but what the error names
	broken                // nobody knows what
)

// judge returns the worst of what an error says: several stores behind a Tee have
// their errors joined, and one of them that failed is not made good by another one
// that rejected an object.
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
