package decode

import (
	gojson "encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// keepsJSON and keepsText keep what they are given, as their contracts forbid.
type (
	keepsJSON struct{ raw []byte }
	keepsText struct{ raw []byte }
	keepsKey  string
)

func (k *keepsJSON) UnmarshalJSON(b []byte) error { k.raw = b; return nil }
func (k *keepsText) UnmarshalText(b []byte) error { k.raw = b; return nil }

var lastKey []byte

func (k *keepsKey) UnmarshalText(b []byte) error { *k, lastKey = keepsKey(b), b; return nil }

type keeper struct {
	metav1.ObjectMeta `json:"metadata"`
	Field             keepsJSON            `json:"field"`
	Pointer           *keepsJSON           `json:"pointer"`
	Map               map[string]keepsJSON `json:"map"`
	List              []keepsJSON          `json:"list"`
	Text              keepsText            `json:"text"`
	Raw               gojson.RawMessage    `json:"raw"`
}

func (k *keeper) String() string {
	return fmt.Sprintf("%s %s %s %s %s %s %s", k.Labels["a"], k.Field.raw, k.Pointer.raw, k.Map["k"].raw, k.List, k.Text.raw, k.Raw)
}

type oddKeeper struct {
	N      int `json:"n,string"`
	keeper `json:",inline"`
}

type keyKeeper struct {
	Keys map[keepsKey]int `json:"keys"`
}

func TestMethodsMayKeepTheBytesTheyAreGiven(t *testing.T) {
	const quick = `{"metadata":{"labels":{"a":"b"}},"field":"text","pointer":{"x":1},"map":{"k":[1,2]},"list":["q",5],"text":"t","raw":[3]}`
	const want = `b "text" {"x":1} [1,2] [{"q"} {5}] t [3]`
	for name, opts := range map[string][]Option{"sharing": nil, "plain": {WithoutInterning()}, "sharing what keeps": {Intern[keepsJSON](), Intern[[]keepsJSON]()}} {
		ours, odd, keys := decoderOf[*keeper](t, opts...), decoderOf[*oddKeeper](t, opts...), decoderOf[*keyKeeper](t, opts...)
		for range 3 {
			for _, text := range []string{quick, " " + quick, `{"n":"1", ` + quick[1:]} {
				object, err := decodes(t, ours, wire.JSON, []byte(text))
				require.NoError(t, err)
				assert.Equal(t, want, object.String(), name)
				other, err := decodes(t, odd, wire.JSON, []byte(text))
				require.NoError(t, err)
				assert.Equal(t, want, other.keeper.String(), name)
			}
			_, err := decodes(t, keys, wire.JSON, []byte(`{"keys":{"key":1}}`))
			require.NoError(t, err)
			assert.Equal(t, "key", string(lastKey), name)
		}
	}
}

// keepsMessage keeps what it is given, and has a part that is shared.
type keepsMessage struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	raw               []byte
}

func (k *keepsMessage) Unmarshal(b []byte) error {
	k.raw = b
	f, err := wire.NextField(b)
	if err != nil {
		return err
	}
	return k.ObjectMeta.Unmarshal(f.Value)
}

func TestUnmarshalMayKeepTheBytesItIsGiven(t *testing.T) {
	d := decoderOf[*keepsMessage](t)
	meta, err := (&metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}).Marshal()
	require.NoError(t, err)
	other, err := (&metav1.ObjectMeta{Name: "N", Labels: map[string]string{"a": "b"}}).Marshal()
	require.NoError(t, err)
	for range 4 {
		object, err := decodes(t, d, wire.Protobuf, append([]byte{0x0a, byte(len(meta))}, meta...))
		require.NoError(t, err)
		before := string(object.raw)
		_, err = decodes(t, d, wire.Protobuf, append([]byte{0x0a, byte(len(other))}, other...))
		require.NoError(t, err)
		assert.Equal(t, before, string(object.raw))
		assert.Contains(t, before, "\x0a\x01n")
		assert.Equal(t, map[string]string{"a": "b"}, object.Labels)
	}
}

func TestKindsOfKubernetesAreNotCopiedFirst(t *testing.T) {
	assert.False(t, newErased(reflect.TypeFor[foo]()).codec.keeps(wire.JSON))
	eachKind(t, func(t *testing.T, kind reflect.Type, _ func() runtime.Object) {
		codec := newErased(kind).codec
		assert.False(t, codec.keeps(wire.JSON))
		assert.False(t, codec.keeps(wire.Protobuf))
	})
}
