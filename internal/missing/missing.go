package missing

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Path reports whether a 404 says that the server has no such path: it does not serve the resource, or
// not without a namespace. A server then names no object, or answers by no Status. A 404 without details
// is not a server's, but that of a program's function.
func Path(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || Denial(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && (details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse))
}

// Denial reports whether an error is the answer of an admission webhook. The API server passes on the
// webhook's code, reason and details, which may be about another object, and marks only the message.
func Denial(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.HasPrefix(status.Status().Message, "admission webhook ")
}
