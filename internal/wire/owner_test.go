package wire

import (
	gojson "encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPeekOwner(t *testing.T) {
	yes, no := true, false
	for name, tt := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"none":           {nil, ""},
		"the only one":   {[]metav1.OwnerReference{{UID: "a", Controller: &yes}}, "a"},
		"one of several": {[]metav1.OwnerReference{{UID: "a"}, {UID: "b", Controller: &no}, {UID: "c", Controller: &yes}, {UID: "d"}}, "c"},
		"nobody":         {[]metav1.OwnerReference{{UID: "a"}, {UID: "b", Controller: &no}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: "n", UID: "u", ResourceVersion: "5", Labels: map[string]string{"ownerReferences": "x"}, OwnerReferences: tt.owners,
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "ownerReferences"}},
			}}
			typed, err := gojson.Marshal(object)
			require.NoError(t, err)
			binary, err := object.Marshal()
			require.NoError(t, err)
			for format, data := range map[Format][]byte{JSON: typed, Protobuf: binary} {
				uid, ok := PeekOwner(format, data)
				require.True(t, ok, format)
				assert.Equal(t, tt.want, uid, format)
			}
		})
	}
}

func TestPeekOwnerIsNotSure(t *testing.T) {
	for name, object := range map[string]string{
		"nothing":         "",
		"a string":        `"metadata"`,
		"no metadata":     `{"kind":"Pod"}`,
		"cut":             `{"metadata":{"ownerReferences":[{"uid":"a"`,
		"twice":           `{"metadata":{"ownerReferences":[],"ownerReferences":[{"uid":"a","controller":true}]}}`,
		"metadata twice":  `{"metadata":{},"metadata":{"ownerReferences":[{"uid":"a","controller":true}]}}`,
		"no array":        `{"metadata":{"ownerReferences":{"uid":"a"}}}`,
		"an escaped name": `{"metadata":{"owner\u0052eferences":[{"uid":"a","controller":true}]}}`,
	} {
		_, ok := PeekOwner(JSON, []byte(object))
		assert.False(t, ok, name)
	}
	for _, data := range []string{"", "\x08\x01", "\x0a\x02\x6a\x05", "\x0a\x02\x68\x05", "\x0a\x00\x0a\x00"} {
		_, ok := PeekOwner(Protobuf, []byte(data))
		assert.False(t, ok, "%q", data)
	}
}
