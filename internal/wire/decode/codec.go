package decode

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNoStruct means that T is not a pointer to a struct.
var ErrNoStruct = errors.New("not a pointer to a struct")

// ErrNotT means that a type is neither T nor implements it.
var ErrNotT = errors.New("the type is not a T")

// Codec decodes objects of one type: T, or a type that implements the interface T. It has the
// options, and the properties of the type.
type Codec[T any] struct {
	elem     reflect.Type // the struct
	options  Options
	shape    shape
	protobuf bool // the type has a generated Unmarshal method, and its messages cannot contain themselves
	// keeps says, for each format, whether objects may refer to bytes that their own methods got.
	keeps [2]bool

	quickly       sync.Once // makes the fields below
	root          *reader
	tables, lists int // their numbers in root
}

// For returns the codec of T. It returns [ErrNoStruct] unless T is a pointer to a struct.
func For[T any](o Options) (*Codec[T], error) { return ForType[T](reflect.TypeFor[T](), o) }

// ForType returns the codec of a type t that is T or implements it. It returns [ErrNoStruct] unless
// t is a pointer to a struct, and [ErrNotT] if t is not a T.
func ForType[T any](t reflect.Type, o Options) (*Codec[T], error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("decode into %s: %w", t, ErrNoStruct)
	}
	if want := reflect.TypeFor[T](); !t.AssignableTo(want) {
		return nil, fmt.Errorf("decode %s into %s: %w", t, want, ErrNotT)
	}
	c := &Codec[T]{elem: t.Elem(), options: o, shape: shapeOf(t.Elem())}
	// Generated methods recurse without a limit. A hostile message would overflow the stack, which no recover
	// prevents. JSON is limited to 10,000 levels.
	c.protobuf = t.Implements(messageType) && !nests(t.Elem())
	c.keeps[wire.JSON], c.keeps[wire.Protobuf] = c.shape.keeps, foreign(c.elem)
	return c, nil
}

// Type returns the type of the objects: a pointer to a struct.
func (c *Codec[T]) Type() reflect.Type { return reflect.PointerTo(c.elem) }

// Protobuf reports whether the type can be decoded from protobuf.
func (c *Codec[T]) Protobuf() bool { return c.protobuf }

// DropsManagedFields reports whether objects have no metadata.managedFields: see [Options].
func (c *Codec[T]) DropsManagedFields() bool {
	return c.options.SkipManagedFields && (c.elem == unstructuredType || c.shape.has(managedFieldsType))
}

// Decoder decodes objects of type T, one after the other. Get one from [Codec.NewDecoder].
type Decoder[T any] struct {
	codec    *Codec[T]
	json     *jsonDecoder
	messages *quick // of protobuf; nil if quick decoding does not support the type
}

// NewDecoder returns a decoder for one goroutine.
func (c *Codec[T]) NewDecoder() *Decoder[T] {
	d := &Decoder[T]{codec: c, json: newJSONDecoder(&c.options, &c.shape)}
	q := c.newQuick(d.json)
	if q.root.does == trees || q.root.does == objects && c.options.ReportUnknown == nil {
		d.json.quick = q
	}
	if c.protobuf && q.root.fields != nil {
		d.messages = q
	}
	return d
}

// ErrNoProtobuf means that T has no generated Unmarshal method, or one that could overflow the stack.
var ErrNoProtobuf = discreet.New("type cannot be decoded from protobuf")

// Decode decodes the object of a [wire.Frame]. It keeps no reference to data and does not change
// it.
func (d *Decoder[T]) Decode(format wire.Format, data []byte) (decoded T, err error) {
	c := d.codec
	if c.keeps[format] {
		data = bytes.Clone(data) // data is a pooled buffer, which later objects reuse
	}
	var object any
	switch {
	case format != wire.Protobuf:
		object, err = d.json.decode(data, c.elem, c.options.ReportUnknown)
	case !c.protobuf:
		err = ErrNoProtobuf
	default:
		object = reflect.New(c.elem).Interface()
		if q := d.messages; q != nil {
			q.depth = 0
			if q.done(q.message(q.root, reflect.ValueOf(object).UnsafePointer(), data)) {
				break
			}
			object = reflect.New(c.elem).Interface()
		}
		err = object.(message).Unmarshal(data)
		if managed, ok := object.(metav1.Object); ok && c.options.SkipManagedFields {
			managed.SetManagedFields(nil)
		}
	}
	if err != nil {
		return decoded, err
	}
	if m, ok := object.(*metav1.PartialObjectMetadata); ok && (m.Kind == "" || m.Kind == "PartialObjectMetadata") && c.options.MetadataKind.Kind != "" {
		m.TypeMeta = c.options.MetadataKind
	}
	return object.(T), nil
}

// Field returns the place in an object that an error of Decode, or a reported error, refers to: a
// JSON pointer, or "" if it is unknown.
func Field(err error) string {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return string(semantic.JSONPointer)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return string(syntactic.JSONPointer)
	}
	return ""
}

// message is the interface of generated protobuf types.
type message interface{ Unmarshal([]byte) error }

var messageType = reflect.TypeFor[message]()

// Options say how a [Codec] decodes. With the zero value, objects share the values of the usual types.
type Options struct {
	// WithoutInterning gives each object its own values.
	WithoutInterning bool
	// SkipManagedFields leaves metadata.managedFields empty, and does not decode it.
	SkipManagedFields bool
	// MetadataKind is the kind of a PartialObjectMetadata that states none or its own: the server converts
	// objects of each kind to that type.
	MetadataKind metav1.TypeMeta
	// ReportUnknown, if it is not nil, is called for each JSON object with a member that T has no field for. The
	// error names the first such member. The decoding goroutine calls it, and still decodes the object. JSON is
	// then decoded without sharing, and most such objects twice.
	ReportUnknown func(error)
	// Also are further types whose values objects share, for tests. Each must be the exact type of a struct's
	// field or of the elements of a slice, a map or a pointer.
	Also []reflect.Type
}

// shared are the types that repeat most in Kubernetes' own objects. map[string]any makes objects share the
// objects and arrays inside of any.
var shared = map[reflect.Type]bool{
	reflect.TypeFor[map[string]string]():                 true,
	reflect.TypeFor[map[string]any]():                    true,
	reflect.TypeFor[[]string]():                          true,
	reflect.TypeFor[[]metav1.OwnerReference]():           true,
	reflect.TypeFor[*metav1.FieldsV1]():                  true,
	reflect.TypeFor[*metav1.LabelSelector]():             true,
	reflect.TypeFor[corev1.ResourceRequirements]():       true,
	reflect.TypeFor[corev1.ResourceList]():               true,
	reflect.TypeFor[[]corev1.EnvVar]():                   true,
	reflect.TypeFor[[]corev1.EnvFromSource]():            true,
	reflect.TypeFor[[]corev1.ContainerPort]():            true,
	reflect.TypeFor[[]corev1.VolumeMount]():              true,
	reflect.TypeFor[[]corev1.Toleration]():               true,
	reflect.TypeFor[[]corev1.TopologySpreadConstraint](): true,
	reflect.TypeFor[[]corev1.LocalObjectReference]():     true,
	reflect.TypeFor[*corev1.Probe]():                     true,
	reflect.TypeFor[*corev1.Lifecycle]():                 true,
	reflect.TypeFor[*corev1.SecurityContext]():           true,
	reflect.TypeFor[*corev1.PodSecurityContext]():        true,
	reflect.TypeFor[*corev1.Affinity]():                  true,
	reflect.TypeFor[*corev1.ProjectedVolumeSource]():     true,
}

// shares reports whether objects share values of a type.
func (o *Options) shares(t reflect.Type) bool {
	return !o.WithoutInterning && shared[t] || slices.Contains(o.Also, t)
}
