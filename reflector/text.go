package reflector

import (
	"errors"
	"fmt"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxText is the largest size of an error's text in bytes. maxMessage is the largest kept part
	// of a server's message: a server has sent 15 MB.
	maxText    = 1 << 10
	maxMessage = 512
	maxName    = 253 // the longest name of an object, by the rules of DNS
	// maxVersion is the largest size of a resource version in bytes. Versions of etcd have at most
	// 19.
	maxVersion = 256
	maxCauses  = 8
)

// cut shortens a text to at most n bytes. A shortened text does not keep the memory of the
// original.
func cut(text string, n int) string {
	const more = "…"
	if len(text) <= n {
		return text
	}
	n -= len(more)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + more
}

// checkVersion rejects a resource version that is too long. URLs and logs would contain it.
func checkVersion(version string) error {
	if len(version) > maxVersion {
		return fmt.Errorf("%w: a resource version has %d bytes, want at most %d", ErrMalformed, len(version), maxVersion)
	}
	return nil
}

// bounded shortens the texts in a server's status error.
func bounded(err error) error {
	refusal, ok := err.(*apierrors.StatusError)
	if !ok {
		return err
	}
	s := refusal.ErrStatus
	if s.Size() <= maxMessage {
		return err
	}
	s.Message, s.Status, s.Reason = cut(s.Message, maxMessage), cut(s.Status, maxName), metav1.StatusReason(cut(string(s.Reason), maxName))
	s.Kind, s.APIVersion = cut(s.Kind, maxName), cut(s.APIVersion, maxName)
	s.ListMeta = metav1.ListMeta{}
	if s.Details != nil {
		d := *s.Details
		d.Name, d.Group, d.Kind = cut(d.Name, maxName), cut(d.Group, maxName), cut(d.Kind, maxName)
		if len(d.UID) > maxName {
			d.UID = ""
		}
		causes := d.Causes[:min(len(d.Causes), maxCauses)]
		d.Causes = nil
		for _, c := range causes {
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type: metav1.CauseType(cut(string(c.Type), maxName)), Message: cut(c.Message, maxMessage), Field: cut(c.Field, maxName),
			})
		}
		s.Details = &d
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// isUnexpected reports whether client-go made the status error from the HTTP status code. Such an
// error does not come from the API server.
func isUnexpected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
