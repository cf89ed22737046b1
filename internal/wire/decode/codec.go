package decode

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
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
	settings settings
	shape    shape
	protobuf bool // the type has a generated Unmarshal method, and its messages cannot contain themselves
	// keeps says, for each format, whether objects may refer to bytes that their own methods got.
	keeps [2]bool

	quickly       sync.Once // makes the fields below
	root          *reader
	tables, lists int // their numbers in root
}

// For returns the codec of T. It returns [ErrNoStruct] unless T is a pointer to a struct.
func For[T any](opts ...Option) (*Codec[T], error) { return ForType[T](reflect.TypeFor[T](), opts...) }

// ForType returns the codec of a type t that is T or implements it. It returns [ErrNoStruct] unless
// t is a pointer to a struct, and [ErrNotT] if t is not a T.
func ForType[T any](t reflect.Type, opts ...Option) (*Codec[T], error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("decode into %s: %w", t, ErrNoStruct)
	}
	if want := reflect.TypeFor[T](); !t.AssignableTo(want) {
		return nil, fmt.Errorf("decode %s into %s: %w", t, want, ErrNotT)
	}
	c := &Codec[T]{elem: t.Elem(), settings: defaults(), shape: shapeOf(t.Elem())}
	for _, opt := range opts {
		opt.apply(&c.settings)
	}
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

// DropsManagedFields reports whether objects have no metadata.managedFields: see
// [SkipManagedFields].
func (c *Codec[T]) DropsManagedFields() bool {
	return c.settings.skipManagedFields && (c.elem == unstructuredType || c.shape.has(managedFieldsType))
}

// Decoder decodes objects of type T, one after the other. Get one from [Codec.NewDecoder].
type Decoder[T any] struct {
	codec    *Codec[T]
	json     *jsonDecoder
	messages *quick // of protobuf; nil if quick decoding does not support the type
}

// NewDecoder returns a decoder for one goroutine.
func (c *Codec[T]) NewDecoder() *Decoder[T] {
	d := &Decoder[T]{codec: c, json: newJSONDecoder(&c.settings, &c.shape)}
	q := c.newQuick(d.json)
	if q.root.does == trees || q.root.does == objects && c.settings.reportUnknown == nil {
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
		object, err = d.json.decode(data, c.elem, c.settings.reportUnknown)
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
		if managed, ok := object.(metav1.Object); ok && c.settings.skipManagedFields {
			managed.SetManagedFields(nil)
		}
	}
	if err != nil {
		return decoded, err
	}
	if m, ok := object.(*metav1.PartialObjectMetadata); ok && (m.Kind == "" || m.Kind == "PartialObjectMetadata") && c.settings.metadataKind.Kind != "" {
		m.TypeMeta = c.settings.metadataKind
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

// Option configures a [Codec].
type Option struct{ apply func(*settings) }

type settings struct {
	shares            map[reflect.Type]bool
	skipManagedFields bool
	reportUnknown     func(error)
	metadataKind      metav1.TypeMeta
}

// defaults returns the types that repeat most in Kubernetes' own objects.
func defaults() settings {
	s := settings{shares: map[reflect.Type]bool{}}
	for _, share := range []Option{
		Intern[map[string]string](),
		Intern[map[string]any](),
		Intern[[]string](),
		Intern[[]metav1.OwnerReference](),
		Intern[*metav1.FieldsV1](),
		Intern[*metav1.LabelSelector](),
		Intern[corev1.ResourceRequirements](),
		Intern[corev1.ResourceList](),
		Intern[[]corev1.EnvVar](),
		Intern[[]corev1.EnvFromSource](),
		Intern[[]corev1.ContainerPort](),
		Intern[[]corev1.VolumeMount](),
		Intern[[]corev1.Toleration](),
		Intern[[]corev1.TopologySpreadConstraint](),
		Intern[[]corev1.LocalObjectReference](),
		Intern[*corev1.Probe](),
		Intern[*corev1.Lifecycle](),
		Intern[*corev1.SecurityContext](),
		Intern[*corev1.PodSecurityContext](),
		Intern[*corev1.Affinity](),
		Intern[*corev1.ProjectedVolumeSource](),
	} {
		share.apply(&s)
	}
	return s
}

// Intern makes objects share values of type X, in addition to the default types. X must be the exact
// type of a struct's field or of the elements of a slice, a map or a pointer. map[string]any makes
// objects share the objects and arrays inside of any.
func Intern[X any]() Option {
	return Option{func(s *settings) { s.shares[reflect.TypeFor[X]()] = true }}
}

// WithoutInterning turns all sharing off; a later [Intern] turns it on for one type.
func WithoutInterning() Option {
	return Option{func(s *settings) { clear(s.shares) }}
}

// SkipManagedFields leaves metadata.managedFields empty, and does not decode it.
func SkipManagedFields() Option {
	return Option{func(s *settings) { s.skipManagedFields = true }}
}

// MetadataKind sets the kind of a PartialObjectMetadata that states none or its own: the server
// converts objects of each kind to that type.
func MetadataKind(kind metav1.TypeMeta) Option {
	return Option{func(s *settings) { s.metadataKind = kind }}
}

// ReportUnknown sets a function that is called for each JSON object with a member that T has no
// field for. The error names the first such member. The decoding goroutine calls report, and still
// decodes the object. JSON is then decoded without sharing, and most such objects twice.
func ReportUnknown(report func(error)) Option {
	return Option{func(s *settings) { s.reportUnknown = report }}
}
