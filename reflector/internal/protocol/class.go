package protocol

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Class is the kind of a failure. It decides, with the phase, what the reflector does: see the
// table in the package documentation.
type Class uint8

// The classes of failures.
const (
	// Other is every failure without a class of its own, for example an event of a wrong type.
	Other Class = iota
	// Expired means that the server no longer knows the resource version (410, with either of its
	// two reasons).
	Expired
	// Ahead means that the resource version is newer than the server: it lags behind other servers,
	// or was restored from a backup.
	Ahead
	// Invalid means that the server does not accept the request (400 or 422): it may not know
	// watch-lists, or the resource version is not one of its own.
	Invalid
	// Busy means that the server accepts no more requests at present (429).
	Busy
	// Unreachable means that the connection was refused.
	Unreachable
	// Unanswered means that the answer took too long. Perhaps something between passes lists on, but
	// holds back an answer until it is complete, as that of a watch never is.
	Unanswered
	// NotServed means that the server does not serve the resource (404).
	NotServed
	// Forbidden means that the client may not send the request (403).
	Forbidden
	// Unsupported means that the server does not know the verb for the resource (405).
	Unsupported
	// Refused is every other status below 500.
	Refused
	// Unreadable means that client-go could not read a watch: the connection broke, or client-go
	// could not decode an event. client-go turns this into an ERROR event, as if the server had sent
	// it, and marks the event with a cause.
	Unreadable
	// OverBudget means that a list exceeds the store's budget.
	OverBudget

	numClasses = iota
)

// Classify returns the class of a failure. It looks through wrapped errors, and never at their
// texts, with one exception: servers before Kubernetes 1.17 said Ahead only in words. A reflector
// asks for each event, so nil, which is Other, costs nothing.
func Classify(err error) Class {
	if err == nil {
		return Other
	}
	switch status := statusOf(err); {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return Expired
	case isAhead(err, status):
		return Ahead
	case apierrors.IsBadRequest(err) || apierrors.IsInvalid(err):
		return Invalid
	case apierrors.IsTooManyRequests(err):
		return Busy
	case errors.Is(err, NoAnswer):
		return Unanswered
	case utilnet.IsConnectionRefused(err):
		return Unreachable
	case errors.Is(err, ErrNotServed) || apierrors.IsNotFound(err):
		return NotServed
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsMethodNotSupported(err):
		return Unsupported
	case apierrors.HasStatusCause(err, "ClientWatchDecoding"):
		return Unreadable
	case errors.Is(err, store.ErrOverBudget):
		return OverBudget
	case status != nil && status.Code < http.StatusInternalServerError:
		return Refused
	}
	return Other
}

// statusOf returns the server's status in err, or nil.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	s := status.Status()
	return &s
}

// isAhead reports whether err is of the class Ahead. Before Kubernetes 1.17, servers sent only words,
// in the message or in a cause without a type.
func isAhead(err error, status *metav1.Status) bool {
	const words = "Too large resource version"
	saysSo := func(cause metav1.StatusCause) bool { return cause.Message == words }
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || apierrors.IsTimeout(err) &&
		(strings.Contains(status.Message, words) || status.Details != nil && slices.ContainsFunc(status.Details.Causes, saysSo))
}

// Rejected reports whether an error of a store names all objects that the store lacks, so that the
// store took the rest of the write. A store that writes to several others may join their errors: if
// one of them failed and another one rejected an object, the failure counts.
func Rejected(err error) bool {
	switch e := err.(type) {
	case *store.RejectedError:
		return true
	case interface{ Unwrap() error }:
		return Rejected(e.Unwrap())
	case interface{ Unwrap() []error }:
		causes := e.Unwrap()
		return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool { return !Rejected(cause) })
	}
	return false
}
