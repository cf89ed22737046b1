package stream

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Reader reads the responses for one resource. The functions may be called by several goroutines at
// once.
type Reader[T Object] struct {
	Resource string // for errors, such as "foos.example.com/v1"
	Type     string // the Go type of the objects, for errors

	// NewDecoder returns a decoder of objects. The decoder calls report for JSON fields that the
	// type lacks, if Unknown is not nil.
	NewDecoder func(report func(error)) *decode.Decoder[T]
	Unknown    func(*answer.DecodeError) // for objects with fields that the type lacks; may be nil

	// WithoutManagedFields says that the decoder drops metadata.managedFields. They are then no part
	// of an object's content.
	WithoutManagedFields bool

	MaxObjectBytes int // 0 is the default
	Pool           *Pool[T]

	// These functions return an error if a response is not for the resource.

	CheckKind      func(metav1.TypeMeta) error
	CheckList      func(list metav1.TypeMeta, bare bool) error // bare: the items do not state their kind
	CheckNamespace func(string) error
}

// Object reads a response that is one object. It also returns the object's key, because the methods
// of the object may panic.
func (r *Reader[T]) Object(from *Response) (object T, key store.Key, err error) {
	data, err := from.ReadAll(r.MaxObjectBytes)
	if err != nil {
		return object, key, err
	}
	d := r.get()
	defer r.put(d)
	format, _ := from.format()
	if format == wire.JSON {
		data = bytes.TrimRight(data, " \t\r\n") // API servers end a response with a newline, and decoders are slow with it
	}
	decoded, err := d.decode(format, data)
	if err != nil {
		return object, key, err
	}
	if _, err := d.check(decoded.object, decoded.key.Namespace, format, data); err != nil {
		return object, key, from.Fail(nil, err)
	}
	return decoded.object, decoded.key, nil
}

// decoder decodes objects on one goroutine.
type decoder[T Object] struct {
	of *Reader[T]
	// objects is nil before the first object that the store does not hold, because its allocation is
	// costly.
	objects  *decode.Decoder[T]
	unknown  error           // the error for a field of the last object that T lacks
	passed   metav1.TypeMeta // the last kind that passed the check
	envelope metav1.TypeMeta // the last kind in an envelope
	ids      identities
}

// named is an object with its key and version. Other code uses these fields instead of the object's
// methods, which may panic: for example, if an embedded pointer is nil after decoding.
type named[T Object] struct {
	object  T
	key     store.Key
	version string
}

// decode decodes an object and calls its metadata methods. It recovers a panic of T's methods, so
// that one object does not stop the decoding of others. The error is an *answer.DecodeError.
func (d *decoder[T]) decode(format wire.Format, data []byte) (n named[T], err error) {
	defer func() {
		if value := recover(); value != nil {
			err = discreet.Panic(value)
		}
		if err != nil {
			key, _, _ := identify(format, data)
			n, err = named[T]{}, d.newError(key, err)
		} else if d.unknown != nil {
			d.of.Unknown(d.newError(n.key, d.unknown))
		}
	}()
	d.unknown = nil
	if d.objects == nil {
		d.objects = d.of.NewDecoder(func(err error) { d.unknown = err })
	}
	if n.object, err = d.objects.Decode(format, data); err != nil {
		return n, err
	}
	if kinded, ok := any(n.object).(kinded); ok {
		kinded.GetObjectKind() // check calls it later, without a recover
	}
	n.key = store.Key{Namespace: n.object.GetNamespace(), Name: n.object.GetName()}
	n.version = n.object.GetResourceVersion()
	return n, nil
}

func (d *decoder[T]) newError(key store.Key, err error) *answer.DecodeError {
	return &answer.DecodeError{
		Resource: d.of.Resource, Namespace: cut.Text(key.Namespace, cut.MaxName), Name: cut.Text(key.Name, cut.MaxName),
		Type: d.of.Type, Field: decode.Field(err), Err: err,
	}
}

// hash returns the hash of the content of a decoded frame.
func (d *decoder[T]) hash(format wire.Format, frame *wire.Frame) uint64 {
	if frame.Hash == 0 {
		o, _ := wire.Look(format, frame.Object, d.of.WithoutManagedFields)
		frame.Hash = o.Hash()
	}
	return frame.Hash
}

// ask notes in a frame if the caller holds its object with the same content, so that nothing decodes it.
// The goroutine that reads the frames calls it, because a look at the metadata is quicker than handing the
// object to another goroutine.
func (d *decoder[T]) ask(w *Wants[T], format wire.Format, frame *wire.Frame) {
	key, version, outline, ok := d.ids.look(format, frame.Object, d.of.WithoutManagedFields)
	if !ok {
		return
	}
	frame.Hash = outline.Hash() // for the decoder, if the store has another content
	if !w.Holds(key, version, frame.Hash) {
		return
	}
	// An object outside of the shards shows that the store was filled with other shards.
	if _, outside := w.Shards.excludes(format, frame.Object); !outside {
		frame.Held = wire.Held{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version.ResourceVersion}
	}
}

// check returns an error if a decoded object is not of the expected kind or namespace. bare is true
// if the object does not state its kind.
func (d *decoder[T]) check(object T, namespace string, format wire.Format, data []byte) (bare bool, err error) {
	if err := d.of.CheckNamespace(namespace); err != nil {
		return false, err
	}
	var kind metav1.TypeMeta
	stated := false // T has a field for the kind
	if kinded, ok := any(object).(kinded); ok {
		switch own := kinded.GetObjectKind().(type) {
		case *metav1.TypeMeta:
			if stated = own != nil; stated {
				kind = *own
			}
		case *unstructured.Unstructured:
			kind, stated = metav1.TypeMeta{Kind: own.GetKind(), APIVersion: own.GetAPIVersion()}, true
		}
	}
	if !stated {
		kind = kindOfBytes(format, data, d.passed)
	}
	if kind != d.passed {
		if err := d.of.CheckKind(kind); err != nil {
			return false, err
		}
		d.passed = kind
	}
	return kind.Kind == "", nil
}

// kinded is an object that can state its kind.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// setKind sets the kind of an object that states none. Protobuf has the kind in the envelope, and a
// list of a built-in type states the kind once for all items.
func setKind(object any, kind metav1.TypeMeta) {
	kinded, ok := object.(kinded)
	if !ok || kind.Kind == "" {
		return
	}
	switch own := kinded.GetObjectKind().(type) {
	case *metav1.TypeMeta:
		if own != nil && own.Kind == "" && own.APIVersion == "" {
			*own = kind
		}
	case *unstructured.Unstructured:
		if own.Object != nil && own.GetKind() == "" && own.GetAPIVersion() == "" {
			own.SetKind(kind.Kind)
			own.SetAPIVersion(kind.APIVersion)
		}
	}
}

// kindOfBytes returns the kind that the bytes of an object state: last, if it is the same, to save an
// allocation. It returns nothing for protobuf, which has the kind in the envelope.
func kindOfBytes(format wire.Format, data []byte, last metav1.TypeMeta) (kind metav1.TypeMeta) {
	if format != wire.JSON {
		return kind
	}
	apiVersion, name := wire.PeekKind(data)
	if string(apiVersion) == last.APIVersion && string(name) == last.Kind {
		return last
	}
	return metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(name)}
}

// readBookmark decodes a bookmark. Its object has only a version and, after the first objects of a
// watch-list, an annotation. A frame without an object is an error, too.
func readBookmark(format wire.Format, frame *wire.Frame) (version string, closing bool, err error) {
	var object metav1.PartialObjectMetadata
	if frame.Object == nil {
		return "", false, wire.ErrMalformed
	}
	if err := wire.Unmarshal(format, frame.Object, &object); err != nil {
		return "", false, err
	}
	return object.ResourceVersion, object.Annotations[metav1.InitialEventsAnnotationKey] == "true", CheckVersion(object.ResourceVersion)
}

// identify returns the key and version of an object, even if its other fields are unreadable.
func identify(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	if id, ok := wire.Peek(format, data); ok {
		return store.Key{Namespace: string(id.Namespace), Name: string(id.Name)},
			store.Version{UID: types.UID(id.UID), ResourceVersion: string(id.ResourceVersion)}, true
	}
	var m metav1.PartialObjectMetadata
	if err := wire.Unmarshal(format, data, &m); err != nil {
		return store.Key{}, store.Version{}, false
	}
	return store.Key{Namespace: m.Namespace, Name: m.Name}, store.Version{UID: m.UID, ResourceVersion: m.ResourceVersion}, true
}

// identities reads the identities of undecoded objects, and stores many of their strings in one piece
// of memory.
type identities struct{ b *strings.Builder }

// look returns the key, the version and the outline of an undecoded object. It returns false if a
// quick look at the bytes cannot determine them.
func (i *identities) look(format wire.Format, data []byte, withoutManagedFields bool) (store.Key, store.Version, wire.Outline, bool) {
	o, ok := wire.Look(format, data, withoutManagedFields)
	if !ok {
		return store.Key{}, store.Version{}, o, false
	}
	return store.Key{Namespace: i.text(o.Namespace), Name: i.text(o.Name)}, store.Version{UID: types.UID(i.text(o.UID)), ResourceVersion: i.text(o.ResourceVersion)}, o, true
}

func (i *identities) text(b []byte) string {
	const size = 16 << 10
	if i.b == nil || i.b.Cap()-i.b.Len() < len(b) {
		i.b = new(strings.Builder)
		i.b.Grow(max(size, len(b)))
	}
	start := i.b.Len()
	i.b.Write(b) // within the capacity, so earlier strings keep their memory
	return i.b.String()[start:]
}

// Pool keeps idle decoders, with their tables of repeated values. The zero value is an empty Pool.
type Pool[T Object] struct {
	mu    sync.Mutex // protects the fields below
	spare []*decoder[T]
	limit int // the largest length of spare; 0 is 1
}

// get returns a decoder: a spare one, which has cached values from earlier objects, if there is one.
func (r *Reader[T]) get() *decoder[T] {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.spare)
	if n == 0 {
		return &decoder[T]{of: r}
	}
	d := p.spare[n-1]
	p.spare = p.spare[:n-1]
	d.of = r
	return d
}

// put keeps a decoder for the next list or watch, unless there are enough spare decoders.
func (r *Reader[T]) put(d *decoder[T]) {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) < max(p.limit, 1) {
		p.spare = append(p.spare, d)
	}
}

// few is how many decoders stay with a watch that has caught up: it needs one, and rarely a second.
const few = 2

// keep makes put keep as many decoders, and drops spare ones beyond that with their cached values. Lists
// and the initial events of watch-lists need one for each processor.
func (p *Pool[T]) keep(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = n
	if extra := len(p.spare) - n; extra > 0 {
		p.spare = slices.Delete(p.spare, 0, extra)
	}
}
