package reflectortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// A form is an encoding of an object.
type form int

const (
	formJSON            form = iota
	formProtobuf             // built-in types only
	formPartialJSON          // PartialObjectMetadata
	formPartialProtobuf      // PartialObjectMetadata
	forms
)

// record is one version of an object. It is immutable except for the encodings and the selectable
// fields, which are made at their first use and shared by all readers.
type record struct {
	resource  *resource
	key       string
	namespace string
	name      string
	uid       string
	version   uint64
	labels    labels.Set
	author    author
	links     *links // nil if the garbage collector has nothing to do with the object

	// stored is the object without its kind: protobuf for a built-in type, as in etcd, and JSON for
	// a registered one.
	stored  []byte
	encoded [forms]atomic.Pointer[[]byte]
	// selected is made at the first field selector.
	selected atomic.Pointer[fields.Set]
	// versions has the object in the versions of a followed definition.
	versions atomic.Pointer[[]*record]
}

// newRecord stores obj at a version, and sets the version in obj. Version 0 means no version, for
// objects that are not stored: a dry run, a bookmark.
func newRecord(r *resource, obj object, version uint64) (*record, error) {
	if version != 0 {
		obj.SetResourceVersion(strconv.FormatUint(version, 10))
	}
	if !r.typed {
		// Again, because a creation has dropped the status: the real server sets defaults when it
		// reads from etcd, too.
		r.shape.setDefaults(content(obj))
	}
	if r.defined != nil {
		// All versions store an object in one form, so that it can be compared.
		defer obj.GetObjectKind().SetGroupVersionKind(r.gvk())
		r = r.defined.home
		obj.GetObjectKind().SetGroupVersionKind(r.gvk())
	}
	stored, err := r.encode(obj)
	if err != nil {
		return nil, err
	}
	return &record{
		resource:  r,
		key:       r.key(obj.GetNamespace(), obj.GetName()),
		namespace: obj.GetNamespace(),
		name:      obj.GetName(),
		uid:       string(obj.GetUID()),
		version:   version,
		labels:    obj.GetLabels(),
		links:     r.linksOf(obj),
		stored:    stored,
	}, nil
}

// encode returns the stored form.
func (res *resource) encode(obj object) ([]byte, error) {
	if !res.typed {
		return json.Marshal(obj)
	}
	m, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf form", obj)
	}
	return m.Marshal()
}

// object decodes the record anew: the caller may change the result.
func (rec *record) object() object {
	obj := rec.resource.newObject()
	var err error
	if m, ok := obj.(interface{ Unmarshal([]byte) error }); ok && rec.resource.typed {
		err = m.Unmarshal(rec.stored)
	} else {
		err = obj.(json.Unmarshaler).UnmarshalJSON(rec.stored)
	}
	if err != nil {
		panic(fmt.Sprintf("reflectortest: stored %s %s does not decode: %v", rec.resource.gvr(), rec.key, err))
	}
	return obj
}

var jsonSerializer = serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializerjson.SerializerOptions{})

// body is the record in a form, without the envelope that contains the kind.
func (rec *record) body(f form) []byte {
	if (f == formProtobuf && rec.resource.typed) || (f == formJSON && !rec.resource.typed) {
		return rec.stored
	}
	if b := rec.encoded[f].Load(); b != nil {
		return *b
	}
	b, err := rec.make(f)
	if err != nil {
		panic(fmt.Sprintf("reflectortest: stored %s %s does not encode: %v", rec.resource.gvr(), rec.key, err))
	}
	rec.encoded[f].Store(&b)
	return b
}

func (rec *record) make(f form) ([]byte, error) {
	if f == formJSON {
		return encodeJSON(rec.object())
	}
	partial := &metav1.PartialObjectMetadata{}
	var err error
	if rec.resource.typed {
		// Metadata is field 1 of every built-in type, as in PartialObjectMetadata.
		err = partial.Unmarshal(rec.stored)
	} else {
		err = json.Unmarshal(rec.stored, partial)
	}
	if err != nil {
		return nil, err
	}
	if f == formPartialProtobuf {
		return partial.Marshal()
	}
	partial.TypeMeta = partialKind
	return encodeJSON(partial)
}

func encodeJSON(obj runtime.Object) ([]byte, error) {
	var buf bytes.Buffer
	if err := jsonSerializer.Encode(obj, &buf); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// checkJSON rejects objects without a JSON form, such as a RawExtension with other content. The
// server could store such an object, but every JSON list would then fail.
func (res *resource) checkJSON(obj object) error {
	if err := jsonSerializer.Encode(obj, io.Discard); err != nil {
		return res.unhandled(err)
	}
	return nil
}

// departure is the last state of an object at a later version. A watch shows it as DELETED when an
// object leaves its selector.
type departure struct {
	once   sync.Once
	record *record
}

// departed returns the prior state at the change's version, encoded once for all watches that see
// the object leave.
func (c *change) departed() *record {
	c.left.once.Do(func() {
		rec, err := newRecord(c.prior.resource, c.prior.object(), c.version)
		if err != nil {
			panic(fmt.Sprintf("reflectortest: stored %s %s does not encode: %v", c.prior.resource.gvr(), c.prior.key, err))
		}
		c.left.record = rec
	})
	return c.left.record
}

// A selection selects the objects of a list, a watch or a deletion of a collection.
type selection struct {
	resource  *resource // whose version of the objects it looks at; nil for the stored ones
	namespace string    // all if empty
	labels    labels.Selector
	fields    fields.Selector
	shards    *shardSelection // nil for everything
}

func (s selection) matches(rec *record) bool {
	if s.namespace != "" && rec.namespace != s.namespace {
		return false
	}
	if s.labels != nil && !s.labels.Matches(rec.labels) || !s.shards.matches(rec) {
		return false
	}
	return s.fields == nil || s.fields.Matches(rec.in(s.resource).selectableFields())
}

// selects reports whether the selection has a label or field selector.
func (s selection) selects() bool {
	return (s.labels != nil && !s.labels.Empty()) || (s.fields != nil && !s.fields.Empty())
}
