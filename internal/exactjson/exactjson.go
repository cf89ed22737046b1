package exactjson

import (
	"bytes"
	gojson "encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// options are those of encoding/json, with which the library is compatible, except that text is not
// escaped for HTML.
var options = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(writeFloat), json.MarshalToFunc(writeNumber), json.MarshalToFunc(writeUntyped),
	)),
)

// Append appends the encoding of an object to into. It follows the same tags and methods as
// encoding/json. A method MarshalJSON writes the numbers of its value itself, except for that of
// Unstructured, which is not called. The text of an error quotes no value of the object.
func Append(into []byte, object any) ([]byte, error) {
	buffer := bytes.NewBuffer(into)
	err := json.MarshalWrite(buffer, object, options)
	if err != nil {
		err = discreet.Error(err)
	}
	return buffer.Bytes(), err
}

// writeFloat writes the floats that would be read as an int64. All others are read as a float64
// anyway.
func writeFloat(enc *jsontext.Encoder, f float64) error {
	if f != math.Trunc(f) || f < math.MinInt64 || f >= math.MaxInt64 || quoted(enc) {
		return errors.ErrUnsupported // the library writes it
	}
	return enc.WriteValue(strconv.AppendFloat(enc.AvailableBuffer(), f, 'f', 1, 64))
}

// writeNumber writes a Number of encoding/json, which the library knows only as a string.
func writeNumber(enc *jsontext.Encoder, n gojson.Number) error {
	if n == "" {
		n = "0" // as encoding/json does
	}
	if quoted(enc) {
		return enc.WriteToken(jsontext.String(string(n)))
	}
	return enc.WriteValue(append(enc.AvailableBuffer(), n...))
}

// writeUntyped writes the content of an object without a Go type.
func writeUntyped(enc *jsontext.Encoder, u *unstructured.Unstructured) error {
	if u == nil {
		return errors.ErrUnsupported // the library writes it
	}
	return json.MarshalEncode(enc, u.Object)
}

// quoted reports whether a number is written as a string, because of the option in a field's tag.
func quoted(enc *jsontext.Encoder) bool {
	stringify, _ := json.GetOption(enc.Options(), json.StringifyNumbers)
	return stringify
}
