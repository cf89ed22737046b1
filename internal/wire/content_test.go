package wire

import (
	gojson "encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func hashOf(format Format, object string, withoutManagedFields bool) uint64 {
	o, _ := Look(format, []byte(object), withoutManagedFields)
	return o.Hash()
}

func TestHashIsThatOfTheContent(t *testing.T) {
	const item = `{"metadata":{"name":"a","uid":"u","resourceVersion":"5","managedFields":[{"manager":"x"}]},"spec":{"kind":"y","size":3}}`
	for name, tc := range map[string]struct {
		object  string
		kept    bool // managedFields count
		dropped bool // they do not
	}{
		"the same":                       {item, true, true},
		"with a kind":                    {`{"kind":"Thing","apiVersion":"example.com/v1",` + item[1:], true, true},
		"with an apiVersion and spaces":  {`{ "apiVersion" : "example.com/v1" , "kind": "Thing" ,` + item[1:], true, true},
		"other managedFields":            {strings.Replace(item, `"x"`, `"z"`, 1), false, true},
		"another version":                {strings.Replace(item, `"5"`, `"6"`, 1), false, false},
		"another number":                 {strings.Replace(item, "3", "4", 1), false, false},
		"another kind inside":            {strings.Replace(item, `"y"`, `"z"`, 1), false, false},
		"another member of the metadata": {strings.Replace(item, `"managedFields"`, `"labels":{},"managedFields"`, 1), false, false},
		"managedFields elsewhere":        {strings.Replace(item, `"size"`, `"managedFields":[],"size"`, 1), false, false},
		"spaces inside":                  {strings.Replace(item, `:3`, `: 3`, 1), false, false}, // which costs a comparison
	} {
		assert.Equal(t, tc.kept, hashOf(JSON, item, false) == hashOf(JSON, tc.object, false), name)
		assert.Equal(t, tc.dropped, hashOf(JSON, item, true) == hashOf(JSON, tc.object, true), name)
	}
	assert.Equal(t, hashOf(JSON, item, true), hashOf(JSON, item, true))
	assert.NotEqual(t, hashOf(JSON, item, true), hashOf(JSON, item, false))
}

func TestHashOfProtobufIsThatOfTheContent(t *testing.T) {
	marshal := func(p *corev1.Pod) string {
		data, err := p.Marshal()
		require.NoError(t, err)
		return string(data)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5"}, Spec: corev1.PodSpec{NodeName: "n"}}
	managed, others := pod.DeepCopy(), pod.DeepCopy()
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}, {Manager: "y"}}
	others.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("z", 300)}}
	other := pod.DeepCopy()
	other.Spec.NodeName = "m"
	assert.Equal(t, hashOf(Protobuf, marshal(managed), true), hashOf(Protobuf, marshal(others), true))
	assert.Equal(t, hashOf(Protobuf, marshal(pod), true), hashOf(Protobuf, marshal(others), true))
	assert.NotEqual(t, hashOf(Protobuf, marshal(managed), false), hashOf(Protobuf, marshal(others), false))
	assert.NotEqual(t, hashOf(Protobuf, marshal(pod), true), hashOf(Protobuf, marshal(other), true))
	assert.NotEqual(t, hashOf(Protobuf, marshal(pod), false), hashOf(Protobuf, marshal(other), false))

	// The same bytes, once in the metadata and once after it.
	inside, outside := "\x0a\x09\x0a\x01a\x12\x01b\x2a\x01u", "\x0a\x06\x0a\x01a\x2a\x01u\x12\x01b"
	moved := "\x0a\x06\x0a\x01a\x12\x01b\x2a\x01u" // ends in the middle
	assert.NotEqual(t, hashOf(Protobuf, inside, true), hashOf(Protobuf, outside, true))
	assert.NotEqual(t, hashOf(Protobuf, inside, true), hashOf(Protobuf, moved, true))
}

func TestHashIsNeverZeroAndAllocatesNothing(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "a", UID: "u", ResourceVersion: "5", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
	binary, err := pod.Marshal()
	require.NoError(t, err)
	text, err := gojson.Marshal(pod)
	require.NoError(t, err)
	for _, object := range []string{"", "{}", "[", `{"metadata":`, "null"} {
		assert.NotZero(t, hashOf(JSON, object, true), object)
		assert.NotZero(t, hashOf(Protobuf, object, true), object)
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, drop := range []bool{false, true} {
			o, _ := Look(JSON, text, drop)
			o.Hash()
			o, _ = Look(Protobuf, binary, drop)
			o.Hash()
		}
	}))
}

// FuzzHash holds the hash of JSON to the decoder: two objects with one hash decode to the same
// content.
func FuzzHash(f *testing.F) {
	f.Add([]byte(`{"kind":"A","metadata":{"name":"a","managedFields":[1]},"x":1}`), []byte(`{"apiVersion":"v","kind":"B","metadata":{"name":"a","managedFields":[2]},"x":1}`))
	f.Add([]byte(`{"a":1,"kind":"A","apiVersion":"v","metadata":{},"kind":"B"}`), []byte(` { "a":1,"metadata":{}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if hashOf(JSON, string(a), true) != hashOf(JSON, string(b), true) {
			return
		}
		var x, y map[string]any
		if gojson.Unmarshal(a, &x) != nil || gojson.Unmarshal(b, &y) != nil {
			return
		}
		for _, object := range []map[string]any{x, y} {
			delete(object, "kind")
			delete(object, "apiVersion")
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
		}
		assert.Equal(t, x, y)
	})
}
