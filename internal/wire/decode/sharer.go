package decode

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// sharer makes the hook for shared values of one type.
type sharer interface {
	// hook returns the JSON decoder for such values.
	hook(*jsonDecoder) *json.Unmarshalers
}

type shared[X any] struct{}

func (shared[X]) hook(d *jsonDecoder) *json.Unmarshalers {
	var known table[X]
	clips := hasSlices(reflect.TypeFor[X](), nil)
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *X) error {
		if d.bypass == any(into) {
			d.bypass = nil
			return errors.ErrUnsupported
		}
		if !isZero(into) {
			// What is there may be shared, and JSON merges into what is there.
			d.again = true
			return errAgain
		}
		if !known.open() {
			return errors.ErrUnsupported
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		x, answer, ok := known.get(raw)
		if ok {
			d.found += len(raw)
			*into = x
			return nil
		}
		d.bypass = into
		err = json.Unmarshal(raw, into, d.sharing)
		d.bypass = nil
		if err != nil || !answer.keep {
			return err
		}
		if clips {
			clip(reflect.ValueOf(into).Elem())
		}
		known.put(answer, raw, *into)
		return nil
	})
}

// isZero is reflect's, without reflect for what most is asked about.
func isZero[X any](x *X) bool {
	switch x := any(x).(type) {
	case *map[string]string:
		return *x == nil
	case *[]string:
		return *x == nil
	}
	return reflect.ValueOf(x).Elem().IsZero()
}
