package decode

import (
	"bytes"
	gojson "encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// foo has a field of each sort that a custom resource may have.
type foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              fooSpec `json:"spec,omitempty"`
	Untagged          string
}

// oddFoo is one with tags that the library refuses or takes for something else.
type oddFoo struct {
	foo    `json:",inline"`
	Number int `json:"number,string"`
	//lint:ignore SA5008 the tag is what is tested
	Dash string `json:"-,"`
	Name string `json:"'name'"`
}

type fooBase struct {
	Base  string            `json:"base"`
	Extra map[string]string `json:"extra"`
}

type fooSpec struct {
	fooPart
	*FooPointed
	Named fooBase `json:",inline"`

	Any      any                           `json:"any"`
	Anys     []any                         `json:"anys"`
	AnyMap   map[string]any                `json:"anyMap"`
	Map      map[string]string             `json:"map"`
	Maps     map[string]map[string]string  `json:"maps"`
	IntKeys  map[int8]string               `json:"intKeys"`
	UintKeys map[uint16][]string           `json:"uintKeys"`
	Strings  []string                      `json:"strings"`
	Slices   [][]string                    `json:"slices"`
	Bytes    []byte                        `json:"bytes"`
	Array    [2]int                        `json:"array"`
	Structs  []fooBase                     `json:"structs"`
	Pointers []*fooBase                    `json:"pointers"`
	Deep     **int                         `json:"deep"`
	Recurse  *fooSpec                      `json:"recurse"`
	Bool     bool                          `json:"bool"`
	Int      int                           `json:"int"`
	Int8     int8                          `json:"int8"`
	Uint8    uint8                         `json:"uint8"`
	Float    float64                       `json:"float"`
	Float32  float32                       `json:"float32"`
	IntP     *int64                        `json:"intP"`
	StringP  *string                       `json:"stringP"`
	Time     metav1.Time                   `json:"time"`
	TimeP    *metav1.Time                  `json:"timeP"`
	Micro    metav1.MicroTime              `json:"micro"`
	StdTime  time.Time                     `json:"stdTime"`
	Pause    metav1.Duration               `json:"pause"`
	StdPause time.Duration                 `json:"stdPause"`
	Quantity resource.Quantity             `json:"quantity"`
	Port     intstr.IntOrString            `json:"port"`
	Raw      runtime.RawExtension          `json:"raw"`
	RawP     *runtime.RawExtension         `json:"rawP"`
	RawJSON  gojson.RawMessage             `json:"rawJSON"`
	Fields   *metav1.FieldsV1              `json:"fields"`
	Env      []corev1.EnvVar               `json:"env"`
	Needs    corev1.ResourceRequirements   `json:"needs"`
	NeedsP   *corev1.ResourceRequirements  `json:"needsP"`
	Probe    *corev1.Probe                 `json:"probe"`
	Selector metav1.LabelSelector          `json:"selector"`
	Owners   []metav1.OwnerReference       `json:"owners"`
	Tree     *unstructured.Unstructured    `json:"tree"`
	Reader   interface{ Read() }           `json:"reader"`
	Lists    map[string][]corev1.Container `json:"lists"`
	Ignored  string                        `json:"-"`
}

type fooPart struct {
	Part map[string]string `json:"part"`
	Base string            `json:"shadow"`
}

type FooPointed struct {
	Pointed *corev1.Probe `json:"pointed"`
	Depth   int           `json:"depth"`
}

// seeds are documents whose every detail has a meaning for a foo or a pod.
var seeds = []string{
	`{}`, `null`, `[]`, `"a"`, `5`, ` {"kind":"Foo"} `, `{"Kind":"x","kind":"y","KIND":"z"}`,
	`{"metadata":{"name":"a","labels":{"a":"b"},"labels":{"c":"d"}}}`,
	`{"metadata":{"name":"a","labels":{"a":"b"},"annotations":{"a":"b"},"labels":null}}`,
	`{"metadata":{"creationTimestamp":"2024-02-29T23:59:59Z","deletionTimestamp":"2023-02-29T23:59:59Z"}}`,
	`{"metadata":{"creationTimestamp":null,"deletionTimestamp":null,"finalizers":["a"],"ownerReferences":[{"uid":"u","controller":true}]}}`,
	`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}},{"fieldsV1":null},{"fieldsV1":{"f:a":{}},"time":"2024-01-01T00:00:00Z"}]}}`,
	`{"spec":{"any":{"a":1,"b":1.0,"c":-0,"d":1e3,"e":9223372036854775808,"f":[null,true,false,"\u00e4\n"],"a":2}}}`,
	`{"spec":{"any":1e999}}`, `{"spec":{"any":1,"any":{"a":1},"any":null}}`, `{"spec":{"anys":[1,"a",{}],"anys":[2],"anyMap":{"a":1},"anyMap":{"b":[1.5]}}}`,
	`{"spec":{"part":{"a":"b"},"shadow":"s","pointed":{"exec":{"command":["a","b"]}},"depth":1,"Named":{"base":"b","extra":{"a":"b"}},"named":1}}`,
	`{"spec":{"maps":{"a":{"b":"c"},"a":{"d":"e"}},"intKeys":{"1":"a","200":"b"},"uintKeys":{"1":["a"],"1":["b","c"]}}}`,
	`{"spec":{"strings":["a","b"],"strings":["c"],"slices":[["a"],["a"],[],null],"bytes":"YQ==","array":[1,2,3],"bytes":null}}`,
	`{"spec":{"structs":[{"base":"a","extra":{"a":"b"}},{"extra":{"a":"b"}}],"structs":[{"base":"c"}],"pointers":[null,{"base":"a"}]}}`,
	`{"spec":{"deep":5,"recurse":{"recurse":{"map":{"a":"b"}},"map":{"a":"b"}},"bool":true,"int":1.0,"int8":300,"uint8":-1}}`,
	`{"spec":{"int":5,"int8":-5,"uint8":200,"float":1e400}}`, `{"spec":{"float":0.1,"float32":1e39}}`, `{"spec":{"float32":0.1,"intP":5,"stringP":"a","stringP":null}}`,
	`{"spec":{"time":"2024-01-02T03:04:05Z","timeP":"2024-01-02T03:04:05+01:00","micro":"2024-01-02T03:04:05.000006Z","stdTime":"2024-01-02T03:04:05.5Z"}}`,
	`{"spec":{"time":"2024-13-02T03:04:05Z"}}`, `{"spec":{"time":"\u0032024-01-02T03:04:05Z"}}`, `{"spec":{"time":""}}`, `{"spec":{"stdTime":"2024-01-02T3:04:05Z","stdPause":5,"pause":"5s"}}`,
	`{"spec":{"quantity":"100m","port":80}}`, `{"spec":{"quantity":1.5,"port":"http","raw":{"a":[1, 2]},"rawP":null,"rawJSON":[ 1 ],"fields":{"f:a":{}}}}`,
	`{"spec":{"env":[{"name":"a","value":"b"}],"env":[{"value":"c"}],"needs":{"limits":{"cpu":"1"}},"needs":{"requests":{"cpu":"1"}},"needsP":{"limits":{"cpu":"1"}}}}`,
	`{"spec":{"needs":null,"probe":{"httpGet":{"port":80,"path":"/"},"periodSeconds":5},"probe":{"timeoutSeconds":1},"selector":{"matchLabels":{"a":"b"}}}}`,
	`{"spec":{"tree":{"kind":"A","apiVersion":"v1","a":[1,2.5]},"reader":null,"lists":{"a":[{"name":"c","env":[{"name":"a"}]}]},"Ignored":"x","-":"x"}}`,
	`{"spec":{"reader":{}}}`, `{"spec":{"tree":{"a":1}}}`, `{"untagged":"a","Untagged":"b"}`, "{\"Untagged\":\"\xff\\ud800\",\"spec\":{\"map\":{\"\xff\":\"a\",\"\xfe\":\"b\"},\"any\":{\"\xff\":\"\xfe\"}}}",
	`{"spec":{"containers":[{"name":"a","env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"ports":[{"containerPort":80}],"livenessProbe":{"httpGet":{"port":"http"}}},{"name":"b","env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}}}],"containers":[{"env":[{"name":"B"}]}]},"status":{"phase":"Running"}}`,
	`{"spec":{"int":1234567890123456789,"int8":-128,"uint8":255}}`, `{"spec":{"int":9223372036854775808}}`, `{"spec":{"int":-0,"intP":-9223372036854775808}}`, `{"spec":{"int":-}}`, `{"spec":{"int":00}}`,
	`{"spec":{"int8":128}}`, `{"spec":{"int":1e2}}`, `{"spec":{"map":{"a":"\"","b\n":"c"},"strings":["\u0026","é",""],"stringP":"tab\t"}}`, `{"spec":{"map":{"a":"b","a":"c"}}}`, `{"spec":{"map":{"a":null}}}`,
	`{"spec":{"needs":{"limits":{"cpu":"x"}}}}`, `{"spec":{"needs":{"limits":{"cpu":"1","cpu":"2"},"requests":{}}}}`, `{"spec":{"needs":{"limits":{"cpu":1,"m\u0065mory":" 1Gi"}}}}`, `{"metadata":{"creationTimestamp":""}}`,
	`{"spec":{"bool":tru}}`, `{"spec":{"bool":falsey}}`, `{"spec":{"strings":["a",]}}`, `{"spec":{"strings":["a" ]}}`, `{"spec":{"strings":["a"}}`, `{"spec":{"unknown":{"a":[1,2]},"int":1}}`, `{"kind":"a"} x`,
	`{"spec":{"stdTime":"\u0032024-01-02T03:04:05Z"}}`, `{"spec":{"stdTime":null}}`, `{"spec":{"stdTime":"2024-01-02T03:04:05\u005a"},"number":"5","-":"x"}`, `{"number":5}`,
	`{"number":"5","-":"d","'name'":"a","Name":"b","metadata":{"name":"c"}}`, `{"-":"\u00e4","spec":{"any":1},"number":null}`, `{"a":}`, `{"a":1,}`, `{"kind":"a"`, `{"kind":"a"}}`, `{"kind":01}`, `{"kind":tru}`, `{"unknown":{"a":[}}`, `{'kind':1}`, "{\"kind\":\"\n\"}", `{"kind":1,"spec":`, `{"kind":{}}`,
}

// decoders decode one after the other, so that later documents meet what earlier ones left.
type decoders struct {
	foo, odd, pod, tree [2]*Decoder[any]
}

func newDecoders() *decoders {
	both := func(t reflect.Type) [2]*Decoder[any] {
		return [2]*Decoder[any]{newErased(t), newErased(t, Options{WithoutInterning: true})}
	}
	return &decoders{both(reflect.TypeFor[foo]()), both(reflect.TypeFor[oddFoo]()), both(reflect.TypeFor[corev1.Pod]()), both(reflect.TypeFor[unstructured.Unstructured]())}
}

func (d *decoders) compare(t *testing.T, data []byte) {
	for _, pair := range [][2]*Decoder[any]{d.foo, d.odd, d.pod, d.tree} {
		for i, decoder := range []*Decoder[any]{pair[0], pair[0], pair[0], pair[1]} {
			want := reflect.New(decoder.codec.elem).Interface()
			into := want
			if u, ok := want.(*unstructured.Unstructured); ok {
				into = &u.Object // Unstructured's own method requires a kind
			}
			bad := utiljson.Unmarshal(data, into)
			got, err := decoder.Decode(wire.JSON, data)
			if bad != nil {
				require.Error(t, err, "%d: the incumbent says: %v", i, bad)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestSeedsAreDecodedAsTheIncumbentDoes(t *testing.T) {
	require.False(t, newDecoders().foo[0].codec.shape.odd)
	require.True(t, newDecoders().odd[0].codec.shape.odd)
	d := newDecoders()
	for range 2 {
		for _, seed := range seeds {
			t.Run(seed, func(t *testing.T) { d.compare(t, []byte(seed)) })
		}
	}
}

func FuzzJSONAsTheIncumbent(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	d := newDecoders()
	f.Fuzz(func(t *testing.T, data []byte) { d.compare(t, data) })
}

func FuzzProtobufAsItsOwnMethod(f *testing.F) {
	for _, unique := range []bool{false, true} {
		for _, data := range podBytesOf(f, wire.Protobuf, makePods(2, unique)) {
			f.Add(data)
			f.Add(append(data, data...))
		}
	}
	f.Add([]byte{})
	sharing := newErased(reflect.TypeFor[corev1.Pod]())
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &corev1.Pod{}
		bad := want.Unmarshal(data)
		for range 3 {
			got, err := sharing.Decode(wire.Protobuf, data)
			require.Equal(t, bad == nil, err == nil)
			if bad == nil {
				require.Equal(t, want, got)
			}
		}
	})
}

// newErased returns a decoder of a type that is only known when the test runs. Only its
// method decode is of use.
func newErased(t reflect.Type, opts ...Options) *Decoder[any] {
	c := &Codec[any]{elem: t, options: only(opts), shape: shapeOf(t), protobuf: reflect.PointerTo(t).Implements(messageType)}
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
		plain := newErased(kind, Options{WithoutInterning: true})
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
				got, err := d.Decode(wire.JSON, data)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			got, err := plain.Decode(wire.JSON, data)
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
				got, err := d.Decode(wire.Protobuf, data)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			require.Equal(t, before, data)
		}
	})
}
