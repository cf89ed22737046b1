package decode

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// semantics are those of sigs.k8s.io/json. Errors are the new library's: to have those of
// the old, it would look at everything twice.
var semantics = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	json.MatchCaseInsensitiveNames(false),
	jsonv1.ReportErrorsWithLegacySemantics(false),
)

// jsonDecoder has the options with which JSON is decoded.
type jsonDecoder struct {
	plain, sharing, strict json.Options
	quick                  *quick // nil if the type is not for it
	odd                    bool   // apimachinery's package decodes what quick does not

	// again means that the object being decoded has to be decoded without sharing.
	again bool
	// bypass is the value that its own hook must not be used for: the hook asks for it.
	bypass any
	// found is how many bytes of the object were not decoded.
	found int
	meter meter // of objects: hooks cost something even where none of them does anything
}

var (
	// errAgain is in nobody's hands: it ends an attempt.
	errAgain = errors.New("a member is repeated")

	anyType           = reflect.TypeFor[any]()
	timeType          = reflect.TypeFor[metav1.Time]()
	standardTimeType  = reflect.TypeFor[time.Time]()
	managedFieldsType = reflect.TypeFor[[]metav1.ManagedFieldsEntry]()
)

func newJSONDecoder(s *settings, shape *shape) *jsonDecoder {
	d := &jsonDecoder{odd: shape.odd}
	var hooks []*json.Unmarshalers
	if shape.has(timeType) {
		hooks = append(hooks, json.UnmarshalFromFunc(readTime))
	}
	if shape.has(standardTimeType) {
		hooks = append(hooks, json.UnmarshalFromFunc(readStandardTime))
	}
	if shape.has(anyType) {
		hooks = append(hooks, json.UnmarshalFromFunc(readAny), json.UnmarshalFromFunc(readMap), json.UnmarshalFromFunc(readSlice))
	}
	if s.skipManagedFields && shape.has(managedFieldsType) {
		hooks = append(hooks, json.UnmarshalFromFunc(skipManagedFields))
	}
	d.plain = json.JoinOptions(semantics, json.WithUnmarshalers(json.JoinUnmarshalers(append(slices.Clip(hooks), exactly(shape, d)...)...)))
	d.strict = json.JoinOptions(d.plain, json.RejectUnknownMembers(true))
	for t, share := range s.shares {
		if shape.has(t) && s.reportUnknown == nil {
			hooks = append(hooks, share.hook(d))
		}
	}
	hooks = append(hooks, exactly(shape, d)...)
	d.sharing = json.JoinOptions(semantics, json.WithUnmarshalers(json.JoinUnmarshalers(hooks...)))
	return d
}

// decode decodes into what a call of fresh returns.
func (d *jsonDecoder) decode(data []byte, fresh func() any, report func(error)) (any, error) {
	if report != nil && !d.odd {
		object := fresh()
		err := json.Unmarshal(data, object, d.strict)
		if err == nil {
			return object, nil
		}
		if errors.Is(err, json.ErrUnknownName) {
			defer report(err)
		}
	}
	object := fresh()
	shares := d.meter.open()
	d.again, d.bypass, d.found = false, nil, 0
	if d.quick.open() {
		if d.quick.decode(data, reflect.ValueOf(object).UnsafePointer(), shares) {
			if shares {
				d.meter.count(len(data), d.found)
			}
			return object, nil
		}
		object = fresh()
	}
	if d.odd || !shares {
		return object, d.unmarshal(data, object, d.plain)
	}
	d.again, d.bypass, d.found = false, nil, 0
	err := json.Unmarshal(data, object, d.sharing)
	d.meter.count(len(data), d.found)
	if d.again {
		object = fresh()
		err = json.Unmarshal(data, object, d.plain)
	}
	return object, err
}

// unmarshal decodes a value that quick does not.
func (d *jsonDecoder) unmarshal(data []byte, into any, options json.Options) error {
	if d.odd {
		return utiljson.Unmarshal(data, into)
	}
	return json.Unmarshal(data, into, options)
}

// skipManagedFields skips what the hook is for.
func skipManagedFields(dec *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error {
	return dec.SkipValue()
}
