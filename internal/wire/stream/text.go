package stream

import (
	"fmt"
	"unicode/utf8"

	"github.com/kubereflector/kubereflector/internal/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MaxText is the largest size of an error's text in bytes. MaxMessage is the largest kept part
	// of a server's message: a server has sent 15 MB.
	MaxText    = 1 << 10
	MaxMessage = 512
	MaxName    = 253 // the longest name of an object, by the rules of DNS
	// MaxVersion is the largest size of a resource version in bytes. Versions of etcd have at most
	// 19.
	MaxVersion = 256
	maxCauses  = 8
)

// Cut shortens a text to at most n bytes. A shortened text does not keep the memory of the
// original.
func Cut(text string, n int) string {
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

// Wrap returns an error with the text "what: err" of at most 1 KiB, which wraps err.
func Wrap(what string, err error) error { return &wrapped{what, err} }

type wrapped struct {
	what string
	err  error
}

func (e *wrapped) Error() string {
	return Cut(Cut(e.what, MaxText-MaxMessage)+": "+e.err.Error(), MaxText)
}

func (e *wrapped) Unwrap() error { return e.err }

// CheckVersion rejects a resource version that is too long. URLs and logs would contain it.
func CheckVersion(version string) error {
	if len(version) > MaxVersion {
		return fmt.Errorf("%w: a resource version has %d bytes, want at most %d", wire.ErrMalformed, len(version), MaxVersion)
	}
	return nil
}

// Bound shortens the texts in a server's status error.
func Bound(err error) error {
	refusal, ok := err.(*apierrors.StatusError)
	if !ok {
		return err
	}
	s := refusal.ErrStatus
	if s.Size() <= MaxMessage {
		return err
	}
	s.Message, s.Status, s.Reason = Cut(s.Message, MaxMessage), Cut(s.Status, MaxName), metav1.StatusReason(Cut(string(s.Reason), MaxName))
	s.Kind, s.APIVersion = Cut(s.Kind, MaxName), Cut(s.APIVersion, MaxName)
	s.ListMeta = metav1.ListMeta{}
	if s.Details != nil {
		d := *s.Details
		d.Name, d.Group, d.Kind = Cut(d.Name, MaxName), Cut(d.Group, MaxName), Cut(d.Kind, MaxName)
		if len(d.UID) > MaxName {
			d.UID = ""
		}
		causes := d.Causes[:min(len(d.Causes), maxCauses)]
		d.Causes = nil
		for _, c := range causes {
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type: metav1.CauseType(Cut(string(c.Type), MaxName)), Message: Cut(c.Message, MaxMessage), Field: Cut(c.Field, MaxName),
			})
		}
		s.Details = &d
	}
	return &apierrors.StatusError{ErrStatus: s}
}
