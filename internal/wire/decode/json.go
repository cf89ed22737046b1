package decode

import (
	"errors"
	"reflect"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/kubereflector/kubereflector/internal/discreet"
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

func newJSONDecoder(o *Options, shape *shape) *jsonDecoder {
	d := &jsonDecoder{odd: shape.odd, skipManagedFields: o.SkipManagedFields}
	var hooks []*json.Unmarshalers
	if shape.has(standardTimeType) {
		hooks = append(hooks, json.UnmarshalFromFunc(readStandardTime))
	}
	if shape.has(anyType) {
		hooks = append(hooks, json.UnmarshalFromFunc(new(untyped).read))
	}
	if o.SkipManagedFields && shape.has(managedFieldsType) {
		hooks = append(hooks, json.UnmarshalFromFunc(skipManagedFields))
	}
	d.plain = json.JoinOptions(semantics, json.WithUnmarshalers(json.JoinUnmarshalers(hooks...)))
	d.strict = json.JoinOptions(d.plain, json.RejectUnknownMembers(true))
	return d
}

// decode decodes into a new value of a type.
func (d *jsonDecoder) decode(data []byte, t reflect.Type, report func(error)) (any, error) {
	object := reflect.New(t).Interface()
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u, d.unstructured(data, u)
	}
	if report != nil && d.odd {
		unknown, err := sigsjson.UnmarshalStrict(data, object, sigsjson.DisallowUnknownFields)
		if err == nil && len(unknown) > 0 {
			report(discreet.New(unknown[0].Error())) // names the field
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
		object = reflect.New(t).Interface()
	}
	if d.quick != nil {
		if d.quick.decode(data, reflect.ValueOf(object).UnsafePointer()) {
			return object, nil
		}
		object = reflect.New(t).Interface()
	}
	return object, d.unmarshal(data, object, d.plain)
}

// unstructured decodes an object whatever its kind is, and also without a kind: Unstructured's own
// method requires one, and items of lists may have none.
func (d *jsonDecoder) unstructured(data []byte, u *unstructured.Unstructured) error {
	if d.quick != nil && d.quick.decode(data, unsafe.Pointer(&u.Object)) {
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

// readStandardTime reads a time of the standard library by its own method, as encoding/json does:
// the library would accept escapes.
func readStandardTime(dec *jsontext.Decoder, into *time.Time) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return into.UnmarshalJSON(raw)
}

const layout = `"2006-01-02T15:04:05Z"`

func parseTime(raw []byte) (time.Time, bool) {
	if len(raw) != len(layout) {
		return time.Time{}, false
	}
	for i, want := range []byte(layout) {
		if isDigit(want) != isDigit(raw[i]) || !isDigit(want) && raw[i] != want {
			return time.Time{}, false
		}
	}
	number := func(from int) int { return int(raw[from]-'0')*10 + int(raw[from+1]-'0') }
	year, month, day := number(1)*100+number(3), number(6), number(9)
	hour, minute, second := number(12), number(15), number(18)
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return t.Local(), t.Day() == day
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
