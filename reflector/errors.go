package reflector

import (
	"errors"
	"fmt"
	"net"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrNoStore means that the program made a reflector with a nil store.
	ErrNoStore = errors.New("reflector has no store: pass one to New, such as store.New(store.ObjectKey[*corev1.Pod])")

	// ErrRunning means that Run was called while it runs: of a reflector, or of an informer, which has
	// one. It is the same value as controller.ErrRunning, and the wrapping error names what runs.
	ErrRunning = lifecycle.ErrRunning

	// ErrNotServed means that the server does not serve the resource (404). Its
	// CustomResourceDefinition may not be installed yet. The reflector asks again after each
	// back-off.
	ErrNotServed = protocol.ErrNotServed

	// ErrNothingSelected means that a selector matches no object at all. The API has no way to
	// express such a selector.
	ErrNothingSelected = errors.New("selector matches nothing: use another one, or no reflector")
)

// ProtocolError means that the server answered, but not as the protocol of list and watch requires,
// or that it did not answer in time. The store keeps its content, and the reflector retries.
type ProtocolError struct {
	// Reason is one of these words:
	//
	//   - NoResourceVersion: a list has no resource version although one had some minutes ago, a
	//     watch-list has none, or the answer is no list. A proxy may have answered instead of the server.
	//     If the first list has no version, the reflector polls instead: see [Polling].
	//   - RepeatedPage: a page of a list names itself, or an earlier page, as the next one.
	//   - EndlessList: a list has more pages than any server has objects, or its pages arrived for
	//     half an hour.
	//   - ShortWatch: the server ended a watch within a second without a new event, or two watches in
	//     a row within ten seconds each, with fewer than a hundred changes. A proxy may block watches, or
	//     the Timeout of the config of a generated client may end them.
	//   - StreamEnded: a watch-list ended before the server had sent all objects.
	//   - NoInitialEventsEnd: a watch-list sent no closing bookmark in time. The server may not support
	//     watch-lists. The reflector lists for an hour, and then tries a watch-list again.
	//   - SilentWatch: a watch lasted longer than the reflector requested, and was silent for two
	//     minutes. A proxy may keep a dead connection open. Test doubles that neither end watches nor
	//     send bookmarks, such as client-go's fakes, also cause it.
	//   - NoAnswer: the server did not answer the request for a watch or a probe within two minutes,
	//     or that for a whole page within ten.
	//   - ServerBehind: the server is at an older resource version than before, or an object differs
	//     although it is no newer. The server was restored from a backup. The reflector relists.
	Reason string
	// Err is the error of the client, if there is one.
	Err error
}

// Error returns the reason as a sentence, and Err.
func (e *ProtocolError) Error() string {
	text := protocol.Reason(e.Reason).Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason and Err.
func (e *ProtocolError) Unwrap() []error {
	if e.Err == nil {
		return []error{protocol.Reason(e.Reason)}
	}
	return []error{protocol.Reason(e.Reason), e.Err}
}

// Error is one failure of a running reflector. Use errors.As, errors.Is and the functions of
// k8s.io/apimachinery/pkg/api/errors to examine its cause.
type Error struct {
	// Reflector is the reflector's name: see WithName.
	Reflector string
	// Op is the operation that failed: "list", "watch" or "watch-list" for a request or its
	// response, "store" for a write to the store, and "record" for the recording (package record).
	// After a failed watch-list the reflector lists, or asks again.
	Op string
	// Key is the key of the affected object. It is zero if the failure is not about one object, or
	// if the object has no key.
	Key store.Key
	// ResourceVersion is the version of the object, or else the version of the request for the list
	// or the watch. It may be empty.
	ResourceVersion string
	Err             error
}

// Error names the reflector, the operation, the object, the resource version and the cause, in at
// most 1 KiB. If there was no connection to the server, it ends with what to check.
func (e *Error) Error() string {
	s := fmt.Sprintf("reflector %s: %s", cut.Text(e.Reflector, cut.MaxName), e.Op)
	if e.Key != (store.Key{}) {
		s += fmt.Sprintf(" %q", cut.Text(e.Key.String(), cut.MaxName))
	}
	if e.ResourceVersion != "" {
		s += fmt.Sprintf(" at resource version %q", cut.Text(e.ResourceVersion, 64))
	}
	advice := ""
	if network, ok := errors.AsType[*net.OpError](e.Err); ok && network.Op == "dial" {
		advice = "; check the server's address in the config, and that the server answers: kubectl get --raw /readyz"
	}
	return cut.Text(fmt.Sprintf("%s: %v", s, e.Err), cut.MaxText-len(advice)) + advice
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
