package prometheus

import (
	"errors"
	"net"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// reasonOf returns the kind of a failure as a label value. There are few of them.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return "expired"
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	case apierrors.IsForbidden(err):
		return "forbidden"
	case apierrors.IsUnauthorized(err):
		return "unauthorized"
	case apierrors.IsNotFound(err):
		return "not_found"
	case apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || isTimeout(err):
		return "timeout"
	case errors.Is(err, client.ErrMalformed) || errors.Is(err, client.ErrTooLarge) || errors.Is(err, client.ErrContentType):
		return "malformed"
	case errors.Is(err, client.ErrTruncated) || utilnet.IsProbableEOF(err):
		return "cut_off"
	case isStatus(err):
		return "server"
	case isNet(err):
		return "connection"
	}
	return "other"
}

func isTimeout(err error) bool {
	wrong, ok := errors.AsType[*reflector.ProtocolError](err)
	return ok && (wrong.Reason == "NoAnswer" || wrong.Reason == "SilentWatch")
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func isNet(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}
