package wire

import (
	gojson "encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPeek(t *testing.T) {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", Namespace: "s", UID: "u", ResourceVersion: "5",
			Labels:        map[string]string{"uid": "no", "a": `}"{\`},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "name"}},
		},
	}
	typed, err := gojson.Marshal(pod)
	require.NoError(t, err)
	binary, err := pod.Marshal()
	require.NoError(t, err)
	want := Identity{UID: []byte("u"), ResourceVersion: []byte("5"), Namespace: []byte("s"), Name: []byte("n")}
	for name, c := range map[string]struct {
		format Format
		object string
		scoped bool
	}{
		"typed":          {JSON, string(typed), true},
		"protobuf":       {Protobuf, string(binary), true},
		"sorted":         {JSON, `{"apiVersion":"v1","metadata":{"annotations":{"name":"x"},"name":"n","namespace":"s","resourceVersion":"5","uid":"u"},"x":1}`, true},
		"late":           {JSON, ` { "spec" : {"metadata":{"name":"x"}} , "status":5, "metadata" : { "uid" : "u","resourceVersion":"5" ,"name":"n", "namespace":"s" } }`, true},
		"cluster-scoped": {JSON, `{"metadata":{"uid":"u","resourceVersion":"5","name":"n"}}`, false},
	} {
		got, ok := Peek(c.format, []byte(c.object))
		require.True(t, ok, name)
		expected := want
		if !c.scoped {
			expected.Namespace = nil
		}
		assert.Equal(t, expected, got, name)
	}
}

func TestPeekIsNotSure(t *testing.T) {
	for name, object := range map[string]string{
		"nothing":        "",
		"a string":       `"metadata"`,
		"no metadata":    `{"kind":"Pod"}`,
		"metadata null":  `{"metadata":null}`,
		"no name":        `{"metadata":{"uid":"u","resourceVersion":"5"}}`,
		"no uid":         `{"metadata":{"name":"n","resourceVersion":"5"}}`,
		"no version":     `{"metadata":{"name":"n","uid":"u"}}`,
		"an escape":      `{"metadata":{"name":"\u006e","uid":"u","resourceVersion":"5"}}`,
		"escaped member": `{"metadata":{"n\u0061me":"n","uid":"u","resourceVersion":"5","name":"m"}}`,
		"a number":       `{"metadata":{"name":"n","uid":5,"resourceVersion":"5"}}`,
		"not ASCII":      "{\"metadata\":{\"name\":\"\xc3\xa4\",\"uid\":\"u\",\"resourceVersion\":\"5\"}}",
		"a name twice":   `{"metadata":{"name":"n","uid":"u","resourceVersion":"5","name":"m"}}`,
		"cut":            `{"metadata":{"name":"n","uid":"u","resourceVersion":"5"`,
		"no comma":       `{"metadata":{"name":"n" "uid":"u","resourceVersion":"5"}}`,
		"no colon":       `{"metadata":{"name" "n","uid":"u","resourceVersion":"5"}}`,
	} {
		_, ok := Peek(JSON, []byte(object))
		assert.False(t, ok, name)
	}
	metadata := "\x0a\x01n\x2a\x01u\x32\x015"
	_, ok := Peek(Protobuf, []byte("\x0a\x09"+metadata))
	require.True(t, ok)
	for name, object := range map[string]string{
		"nothing":         "",
		"metadata twice":  "\x0a\x09" + metadata + "\x0a\x00",
		"cut":             "\x0a\x09" + metadata[:8],
		"cut in metadata": "\x0a\x08" + metadata[:8],
		"a number":        "\x0a\x0b" + metadata + "\x08\x01",
		"another type":    "\x0a\x09" + metadata + "\x08\x01",
	} {
		_, ok := Peek(Protobuf, []byte(object))
		assert.False(t, ok, name)
	}
}

func TestPeekAllocatesNothing(t *testing.T) {
	object := []byte(`{"kind":"Pod","metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"5"}}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() { Peek(JSON, object) }))
}
