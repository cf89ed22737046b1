package decode

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestTypesThatAreNoStructs(t *testing.T) {
	_, err := For[corev1.Pod]()
	assert.ErrorIs(t, err, ErrNoStruct)
	_, err = For[*map[string]any]()
	assert.ErrorIs(t, err, ErrNoStruct)
	_, err = For[metav1.Object]()
	assert.ErrorIs(t, err, ErrNoStruct)
}

func TestProtobufNeedsGeneratedCode(t *testing.T) {
	codec, err := For[*foo]()
	require.NoError(t, err)
	assert.False(t, codec.Protobuf())
	object, err := codec.NewDecoder().Decode(wire.Protobuf, nil)
	assert.ErrorIs(t, err, ErrNoProtobuf)
	assert.Nil(t, object)

	pods, err := For[*corev1.Pod]()
	require.NoError(t, err)
	assert.True(t, pods.Protobuf())
	pod, err := pods.NewDecoder().Decode(wire.Protobuf, []byte{0xff})
	assert.Error(t, err)
	assert.Nil(t, pod)
}

func TestUnknownMembersAreReported(t *testing.T) {
	var reported []error
	codec, err := For[*foo](ReportUnknown(func(err error) { reported = append(reported, err) }))
	require.NoError(t, err)
	d := codec.NewDecoder()
	object, err := d.Decode(wire.JSON, []byte(`{"untagged":1,"spec":{"base":{"x":1},"int":5}}`))
	require.NoError(t, err)
	assert.Equal(t, 5, object.Spec.Int)
	require.Len(t, reported, 1)
	assert.ErrorIs(t, reported[0], json.ErrUnknownName)
	assert.ErrorContains(t, reported[0], "untagged")

	_, err = d.Decode(wire.JSON, []byte(`{"spec":{"int":6}}`))
	require.NoError(t, err)
	_, err = d.Decode(wire.JSON, []byte(`{"spec":{"int":"x"}}`))
	require.Error(t, err)
	assert.Len(t, reported, 1)
}

// A type with tags that the library refuses is read by sigs.k8s.io/json, which reports as well.
func TestUnknownMembersOfOddTypesAreReported(t *testing.T) {
	var reported []error
	codec, err := For[*quoted](ReportUnknown(func(err error) { reported = append(reported, err) }))
	require.NoError(t, err)
	require.True(t, codec.shape.odd)
	d := codec.NewDecoder()
	object, err := d.Decode(wire.JSON, []byte(`{"n":"5","other":1,"third":2}`))
	require.NoError(t, err)
	assert.Equal(t, 5, object.N)
	require.Len(t, reported, 1)
	assert.ErrorContains(t, reported[0], "other")
	_, err = d.Decode(wire.JSON, []byte(`{"n":"6"}`))
	require.NoError(t, err)
	_, err = d.Decode(wire.JSON, []byte(`{"n":{}}`))
	require.Error(t, err)
	assert.Len(t, reported, 1)
}

type (
	// quoted and the others have tags or types that the library takes for something else.
	quoted struct {
		N int `json:"n,string"`
	}
	folding struct {
		Name string `json:"name,case:ignore"`
	}
	named struct {
		A string `json:"'a'"`
	}
	fallback struct {
		Rest map[string]int `json:",embed"`
	}
	// comma has tags that the library refuses.
	comma struct {
		//lint:ignore SA5008 the tag is what is tested
		Name string `json:"-,"`
		//lint:ignore SA5008 the tag is what is tested
		A []int `json:"a,"`
	}
	timed struct {
		Times map[time.Time]int `json:"times"`
	}
)

func TestOddTypesAreDecodedByTheIncumbent(t *testing.T) {
	for _, data := range []string{
		`{"n":"5","name":"a","Name":"b","a":"c","'a'":"d","Rest":{"x":1},"x":2,"rest":3}`, `{"n":5}`, `{"n":null,"a":1}`, `{}`,
		`{"-":"x","a":[1,2]}`, `{"-":"\u0041","a":[1.5]}`, `{"a":[1e1]}`, `{"-":[1],"a":["x"]}`, `{"times":{"2024-01-02T03:04:05Z":1}}`, `{"times":{"\u0032024-01-02T03:04:05Z":1}}`,
	} {
		compareOdd[*quoted](t, data)
		compareOdd[*folding](t, data)
		compareOdd[*named](t, data)
		compareOdd[*fallback](t, data)
		compareOdd[*comma](t, data)
		compareOdd[*timed](t, data)
	}
}

func compareOdd[T any](t *testing.T, data string) {
	codec, err := For[T]()
	require.NoError(t, err)
	require.True(t, codec.shape.odd)
	d := codec.NewDecoder()
	want := d.fresh()
	bad := utiljson.Unmarshal([]byte(data), want)
	got, err := d.Decode(wire.JSON, []byte(data))
	assert.Equal(t, bad, err)
	if bad == nil {
		assert.Equal(t, want, any(got))
	}
}
