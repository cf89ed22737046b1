package wire

import (
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ListMeta has the kind and metadata of a list.
type ListMeta struct {
	metav1.TypeMeta
	metav1.ListMeta
}

// List cuts the body of a list into its items.
type List struct {
	body body
	meta ListMeta
}

// NewList returns a list that reads from r. A limit of 0 means [DefaultLimit] bytes. The limit
// applies to each item, and to the bytes between two items, before the first and after the last.
func NewList(r io.Reader, format Format, limit int) *List {
	if limit <= 0 {
		limit = DefaultLimit
	}
	l := &List{}
	var c cutter = &jsonItems{meta: &l.meta}
	if format == Protobuf {
		c = &protobufItems{meta: &l.meta, limit: limit}
	}
	l.body = newBody(r, limit, c)
	return l
}

// Next returns the items that have arrived, and waits only if there are none. It returns io.EOF
// after the last item, an [*Error] if the body cannot be cut, and otherwise the error of r.
func (l *List) Next() (*Batch, error) { return l.body.next() }

// Meta returns the list's metadata as far as it has arrived. It may come before or after the items,
// so it is complete only when Next has returned io.EOF. The kind comes early.
func (l *List) Meta() ListMeta { return l.meta }

// Head returns the beginning of the body, at most 512 bytes, for error texts.
func (l *List) Head() []byte { return l.body.head }

// notList returns an error if the body has the kind of something other than a list. Without this
// check, a body without items, such as a Status, would pass for an empty list.
func (m *ListMeta) notList() error {
	if m.Kind == "" || strings.HasSuffix(m.Kind, "List") {
		return nil
	}
	return malformed("a %s is no list", m.Kind)
}
