package reflector

import (
	"errors"
	"fmt"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxText is how many bytes the text of an error has at most, and maxMessage how many of a
	// server's message are kept: a server has sent 15 MB.
	maxText    = 1 << 10
	maxMessage = 512
	maxName    = 253 // of an object, by the rules of DNS
	// maxVersion is how many bytes a resource version may have. etcd's have 19.
	maxVersion = 256
	maxCauses  = 8
)

// cut returns a text of at most n bytes. It does not keep the memory of a longer one.
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

// checkVersion refuses a resource version that is too long for one: it would be in URLs and logs.
func checkVersion(version string) error {
	if len(version) > maxVersion {
		return fmt.Errorf("%w: a resource version has %d bytes, want at most %d", ErrMalformed, len(version), maxVersion)
	}
	return nil
}

// bounded cuts the texts of a server's refusal.
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

// isUnexpected reports whether a refusal is not the API server's own: client-go made it of the
// status code.
func isUnexpected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
