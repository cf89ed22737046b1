package persist

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultDelay is how long a change waits at most until its writing begins.
	DefaultDelay = time.Second

	// DefaultMaxUnwritten is how many bytes of changes may be on their way to the
	// file until those who write to the store wait.
	DefaultMaxUnwritten = 16 << 20

	// defaultChunk is how many objects one transaction writes while nothing can be lost.
	defaultChunk = 4096
)

// Options say what is stored and how. The zero Options are those of most stores; set
// Resource and Cluster, so that no file is taken for another.
type Options[T any] struct {
	// Resource names what is stored: the resource, and namespace and selectors if
	// it is not all of it, such as "pods in default with app=web". A file that was
	// made under another name is refused with a [*MismatchError].
	Resource string

	// Cluster names the API server, such as the UID of its namespace kube-system: a
	// resource version of one cluster means nothing in another. A file that was made
	// under another name is refused with a [*MismatchError].
	Cluster string

	// Codec is how objects are written. The default is [Protobuf] for the types that
	// have it, and else [JSON]; an interface type has none.
	Codec Codec[T]

	// AllowSecrets lets Secrets be written to the disk, in clear text.
	AllowSecrets bool

	// Delay is how long a change waits at most until its writing begins: what comes
	// meanwhile goes into the same transaction. The default is [DefaultDelay]; less
	// than 0 means not at all.
	Delay time.Duration

	// MaxUnwritten bounds the changes that are not in the file, in bytes as they
	// are written; each change counts with the mean of those before it. Who writes
	// to the store waits beyond it. One commit is never split, and may be more. The default, for 0 or
	// less, is [DefaultMaxUnwritten].
	MaxUnwritten int

	// ErrorHook is called with each failure to write, a [*FileError], from the
	// goroutine that writes; with an [*EncodeError] in it if all was written but some
	// objects that cannot be encoded. It must be quick and must not write to the store; it may
	// close it. The default does nothing.
	ErrorHook func(error)

	chunk int // defaultChunk, but in tests
}

func (o Options[T]) withDefaults() (Options[T], error) {
	if o.Codec == nil {
		codec, err := defaultCodec[T]()
		if err != nil {
			return o, err
		}
		o.Codec = codec
	}
	if o.Delay == 0 {
		o.Delay = DefaultDelay
	}
	if o.MaxUnwritten <= 0 {
		o.MaxUnwritten = DefaultMaxUnwritten
	}
	if o.chunk == 0 {
		o.chunk = defaultChunk
	}
	if o.ErrorHook == nil {
		o.ErrorHook = func(error) {}
	}
	if !o.AllowSecrets && (isSecretType(reflect.TypeFor[T]()) || isSecretResource(o.Resource)) {
		return o, ErrSecret
	}
	return o, nil
}

// isSecretResource reports whether the name of a resource has that of Secrets in it.
func isSecretResource(resource string) bool {
	words := strings.FieldsFunc(strings.ToLower(resource), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
	return slices.Contains(words, "secrets")
}

func (o Options[T]) header() header {
	return header{
		Format:   format,
		Type:     nameOf(reflect.TypeFor[T]()),
		Resource: o.Resource,
		Cluster:  o.Cluster,
		Codec:    o.Codec.Name(),
	}
}

// nameOf returns the name of a type with the whole path of its package: there is more than one
// *v1.Event.
func nameOf(t reflect.Type) string {
	switch {
	case t.PkgPath() != "":
		return t.PkgPath() + "." + t.Name()
	case t.Kind() == reflect.Pointer && t.Name() == "":
		return "*" + nameOf(t.Elem())
	}
	return t.String()
}
