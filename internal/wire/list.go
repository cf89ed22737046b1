package wire

import (
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ListMeta is what the body of a list says beside its items.
type ListMeta struct {
	metav1.TypeMeta
	metav1.ListMeta
}

// List cuts the body of a list into its items.
type List struct {
	body body
	meta ListMeta
}

// NewList returns a list that reads from r. A limit of 0 is [DefaultLimit] bytes. It is the limit of
// an item, and of all that comes between two items, before the first and after the last.
func NewList(r io.Reader, format Format, limit int) *List {
	if limit <= 0 {
		limit = DefaultLimit
	}
	l := &List{}
	switch format {
	case Protobuf:
		l.body = newBody(r, limit, &protobufItems{meta: &l.meta, limit: limit})
	case CBOR:
		l.body = newBody(r, limit, &cborItems{meta: &l.meta})
	default:
		l.body = newBody(r, limit, &jsonItems{meta: &l.meta})
	}
	return l
}

// Next returns the items that have come, and waits only if those are none. It returns io.EOF
// after the last, an [*Error] if the body cannot be cut, and else what r returned.
func (l *List) Next() (*Batch, error) { return l.body.next() }

// Meta returns what has come so far of the list's own metadata: it may be before or after the
// items, so it is complete only when Next has returned io.EOF. The kind comes early.
func (l *List) Meta() ListMeta { return l.meta }

// Head returns the first bytes of the body, for the text of an error: at most 512.
func (l *List) Head() []byte { return l.body.head }

// notList returns an error if what has no items, or has them where a protobuf list would, says
// that it is something else: its metadata would pass for that of an empty list.
func (m *ListMeta) notList() error {
	if m.Kind == "" || strings.HasSuffix(m.Kind, "List") {
		return nil
	}
	return malformed("a %s is no list", m.Kind)
}
