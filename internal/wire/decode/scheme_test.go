package decode

import (
	"bytes"
	gojson "encoding/json"
	"math/rand"
	"reflect"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// newErased returns a decoder of a type that is only known when the test runs. Only its
// method decode is of use.
func newErased(t reflect.Type, opts ...Option) *Decoder[any] {
	c := &Codec[any]{elem: t, settings: defaults(), shape: shapeOf(t), protobuf: reflect.PointerTo(t).Implements(messageType)}
	for _, opt := range opts {
		opt.apply(&c.settings)
	}
	return c.NewDecoder()
}

// eachKind calls test with each kind of client-go's scheme and with a function that fills
// objects of it at random, always the same.
func eachKind(t *testing.T, test func(t *testing.T, kind reflect.Type, fill func() runtime.Object)) {
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), codecs)
	n := 0
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		n++
		t.Run(name(gvk), func(t *testing.T) {
			test(t, kind, func() runtime.Object {
				object, err := scheme.Scheme.New(gvk)
				require.NoError(t, err)
				filler.Fill(object)
				object.GetObjectKind().SetGroupVersionKind(gvk)
				return object
			})
		})
	}
	require.Greater(t, n, 600)
}

func name(gvk schema.GroupVersionKind) string {
	return gvk.Group + "_" + gvk.Version + "_" + gvk.Kind
}

// rounds is how often each kind is filled.
const rounds = 5

func TestJSONOfEveryKindIsDecodedAsTheIncumbentDoes(t *testing.T) {
	odd := 0
	eachKind(t, func(t *testing.T, kind reflect.Type, fill func() runtime.Object) {
		d := newErased(kind)
		plain := newErased(kind, WithoutInterning())
		if d.codec.shape.odd {
			odd++
			t.Log("odd")
		}
		for range rounds {
			data, err := gojson.Marshal(fill())
			require.NoError(t, err)
			want := reflect.New(kind).Interface()
			require.NoError(t, utiljson.Unmarshal(data, want))
			for range 3 { // the third time, everything is shared
				got, err := d.decode(wire.JSON, data)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			got, err := plain.decode(wire.JSON, data)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
	require.Zero(t, odd, "kinds that are decoded by the incumbent")
}

func TestProtobufOfEveryKindIsDecodedAsItsOwnMethodDoes(t *testing.T) {
	eachKind(t, func(t *testing.T, kind reflect.Type, fill func() runtime.Object) {
		d := newErased(kind)
		if !d.codec.protobuf {
			return
		}
		for range rounds {
			data, err := fill().(interface{ Marshal() ([]byte, error) }).Marshal()
			require.NoError(t, err)
			want := reflect.New(kind).Interface()
			require.NoError(t, want.(message).Unmarshal(data))
			before := bytes.Clone(data)
			for range 3 { // the third time, everything is shared
				got, err := d.decode(wire.Protobuf, data)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			require.Equal(t, before, data)
		}
	})
}
