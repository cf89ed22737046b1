package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kubereflector/kubereflector/informer"
)

const hidden = "cGFzc3dvcmQ="

var meta = metav1.ObjectMeta{Name: "a", Annotations: map[string]string{applied: "{\"data\":\"" + hidden + "\"}", "note": "kept"}}

type credential struct { // somebody's own type for Secrets
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func shown[T any](t *testing.T, object T, pointers ...string) string {
	t.Helper()
	p := New(WithMasked(pointers...))
	text, err := yamlOf(object, p.masked)
	require.NoError(t, err)
	return text
}

func TestSecretsAreMaskedWhateverTheirType(t *testing.T) {
	tree := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"p": hidden}, "stringData": map[string]any{"q": hidden},
		"metadata": map[string]any{"annotations": map[string]any{applied: hidden, "note": "kept"}},
	}
	for name, text := range map[string]string{
		"typed":        shown(t, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"p": []byte("password")}, StringData: map[string]string{"q": hidden}}),
		"value":        shown(t, corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"p": []byte("password")}}),
		"unstructured": shown(t, &unstructured.Unstructured{Object: tree}),
		"own":          shown(t, &credential{ObjectMeta: meta, Data: map[string]string{"p": hidden}}),
		"metadata":     shown(t, informer.Metadata[corev1.Secret]{PartialObjectMetadata: &metav1.PartialObjectMetadata{ObjectMeta: meta}}),
	} {
		assert.NotContains(t, text, hidden, name)
		assert.Contains(t, text, mask, name)
		assert.Contains(t, text, "note: kept", name)
	}
	require.Equal(t, hidden, tree["data"].(map[string]any)["p"], "the object itself is not touched")
}

func TestOthersAreShown(t *testing.T) {
	assert.Contains(t, shown(t, &corev1.ConfigMap{Data: map[string]string{"p": "plain"}}), "p: plain")
	assert.Contains(t, shown(t, &unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "data": map[string]any{"p": "plain"}}}), "p: plain")
}

func TestMaskedFields(t *testing.T) {
	tree := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing",
		"spec": map[string]any{
			"password": "hush", "a/b~c": "hush", "port": int64(5432),
			"users": []any{map[string]any{"name": "ann", "token": "hush"}, map[string]any{"name": "bob", "token": "hush"}},
			"keys":  map[string]any{"one": "hush", "two": []any{"hush", int64(7)}},
		},
	}}
	text := shown(t, tree, "/spec/password", "/spec/a~1b~0c", "/spec/users/token", "/spec/keys", "/spec/none/there")
	assert.NotContains(t, text, "hush")
	assert.NotContains(t, text, "7\n")
	assert.Contains(t, text, "port: 5432")
	assert.Contains(t, text, "name: bob")
}

func TestWhatIsNoJSONObjectIsAnError(t *testing.T) {
	_, err := yamlOf(7, nil)
	assert.ErrorContains(t, err, "no JSON object")
	_, err = yamlOf(make(chan int), nil)
	assert.Error(t, err)
}
