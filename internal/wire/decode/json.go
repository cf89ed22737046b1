package decode

import (
	"errors"
	"reflect"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsjson "sigs.k8s.io/json"
)

// semantics make JSON decode as in sigs.k8s.io/json. Errors come from the new library: for the
// errors of the old one, it would read everything twice.
var semantics = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	json.MatchCaseInsensitiveNames(false),
	jsonv1.ReportErrorsWithLegacySemantics(false),
)

// jsonDecoder has the options for JSON.
type jsonDecoder struct {
	plain, strict json.Options
	quick         *quick // nil if quick decoding does not support the type
	odd           bool   // apimachinery's package decodes the values that quick does not
	// skipManagedFields applies to Unstructured, which has no type for the hook.
	skipManagedFields bool
}

var (
	treeType          = reflect.TypeFor[map[string]any]()
	unstructuredType  = reflect.TypeFor[unstructured.Unstructured]()
	typeMetaType      = reflect.TypeFor[metav1.TypeMeta]()
	objectMetaType    = reflect.TypeFor[metav1.ObjectMeta]()
	anyType           = reflect.TypeFor[any]()
	timeType          = reflect.TypeFor[metav1.Time]()
	standardTimeType  = reflect.TypeFor[time.Time]()
	managedFieldsType = reflect.TypeFor[[]metav1.ManagedFieldsEntry]()
)

func newJSONDecoder(s *settings, shape *shape) *jsonDecoder {
	d := &jsonDecoder{odd: shape.odd, skipManagedFields: s.skipManagedFields}
	var hooks []*json.Unmarshalers
	if shape.has(standardTimeType) {
		hooks = append(hooks, json.UnmarshalFromFunc(readStandardTime))
	}
	if shape.has(anyType) {
		hooks = append(hooks, json.UnmarshalFromFunc(new(untyped).read))
	}
	if s.skipManagedFields && shape.has(managedFieldsType) {
		hooks = append(hooks, json.UnmarshalFromFunc(skipManagedFields))
	}
	d.plain = json.JoinOptions(semantics, json.WithUnmarshalers(json.JoinUnmarshalers(hooks...)))
	d.strict = json.JoinOptions(d.plain, json.RejectUnknownMembers(true))
	return d
}

// decode decodes into the result of fresh.
func (d *jsonDecoder) decode(data []byte, fresh func() any, report func(error)) (any, error) {
	object := fresh()
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u, d.unstructured(data, u)
	}
	if report != nil && d.odd {
		unknown, err := sigsjson.UnmarshalStrict(data, object, sigsjson.DisallowUnknownFields)
		if err == nil && len(unknown) > 0 {
			report(unknown[0])
		}
		return object, err
	}
	if report != nil {
		err := json.Unmarshal(data, object, d.strict)
		if err == nil {
			return object, nil
		}
		if errors.Is(err, json.ErrUnknownName) {
			defer report(err)
		}
		object = fresh()
	}
	if d.quick.open() {
		if d.quick.decode(data, reflect.ValueOf(object).UnsafePointer()) {
			return object, nil
		}
		object = fresh()
	}
	return object, d.unmarshal(data, object, d.plain)
}

// unstructured decodes an object whatever its kind is, and also without a kind: Unstructured's own
// method requires one, and items of lists may have none.
func (d *jsonDecoder) unstructured(data []byte, u *unstructured.Unstructured) error {
	if d.quick.open() && d.quick.decode(data, unsafe.Pointer(&u.Object)) {
		return nil
	}
	u.Object = nil
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return err
	}
	if d.skipManagedFields {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	}
	return nil
}

// unmarshal decodes a value without quick.
func (d *jsonDecoder) unmarshal(data []byte, into any, options json.Options) error {
	if d.odd {
		return utiljson.Unmarshal(data, into)
	}
	return json.Unmarshal(data, into, options)
}

// skipManagedFields skips a value.
func skipManagedFields(dec *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error {
	return dec.SkipValue()
}
