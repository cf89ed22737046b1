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

// semantics make JSON decode as in sigs.k8s.io/json. Errors come from the new library: for the
// errors of the old one, it would read everything twice.
var semantics = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	json.MatchCaseInsensitiveNames(false),
	jsonv1.ReportErrorsWithLegacySemantics(false),
)

// jsonDecoder has the options for JSON.
type jsonDecoder struct {
	plain, sharing, strict json.Options
	quick                  *quick // nil if quick decoding does not support the type
	odd                    bool   // apimachinery's package decodes the values that quick does not

	// again means that the current object must be decoded without sharing.
	again bool
	// bypass is the value for which a hook must not be called: the hook itself decodes it.
	bypass any
	// found is the number of the object's bytes that a table replaced.
	found int
	meter meter // for objects: hooks cost time even if they find nothing
}

var (
	// errAgain ends an attempt and is never returned to a caller.
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

// decode decodes into the result of fresh.
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
