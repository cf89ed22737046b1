package masking

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func masked(t *testing.T, m Mask, goType, text string) string {
	t.Helper()
	m.Instead = func(value any) any {
		if _, text := value.(string); text {
			return "x"
		}
		return 0
	}
	tree, err := Decode([]byte(text))
	require.NoError(t, err)
	m.Object(tree, goType)
	encoded, err := json.Marshal(tree)
	require.NoError(t, err)
	return string(encoded)
}

func TestWhatIsMasked(t *testing.T) {
	for _, c := range []struct {
		name         string
		mask         Mask
		goType       string
		object, want string
	}{
		{"a Secret by its kind", Mask{}, "*Own", `{"apiVersion":"v1","kind":"Secret","data":{"p":"q"}}`, `{"apiVersion":"v1","data":{"p":"x"},"kind":"Secret"}`},
		{"a Secret by its type", Mask{}, "*v1.Secret", `{"stringData":{"p":"q"}}`, `{"stringData":{"p":"x"}}`},
		{"a Secret within", Mask{}, "*Own", `{"apiVersion":"v1","kind":"Bundle","a":[{"kind":"Secret","data":{"p":"q"}}]}`, `{"a":[{"data":{"p":"x"},"kind":"Secret"}],"apiVersion":"v1","kind":"Bundle"}`},
		{"what does not say what it is", Mask{}, "*Own", `{"data":{"p":"q"}}`, `{"data":{"p":"x"}}`},
		{"a copy", Mask{}, "*v1.Secret", `{"data":{"p":"q"},"metadata":{"annotations":{"a":"{}","b":"c"}}}`, `{"data":{"p":"x"},"metadata":{"annotations":{"a":"x","b":"x"}}}`},
		{"no config map", Mask{}, "*v1.ConfigMap", `{"data":{"p":"q"}}`, `{"data":{"p":"q"}}`},
		{"a path", Mask{Paths: [][]string{Path("/a~1b/c")}}, "*v1.ConfigMap", `{"a/b":[{"c":"d"},{"c":7}]}`, `{"a/b":[{"c":"x"},{"c":0}]}`},
		{"no Secret, if they are shown", Mask{ShowSecrets: true}, "*v1.Secret", `{"kind":"Secret","data":{"p":"q"}}`, `{"data":{"p":"q"},"kind":"Secret"}`},
	} {
		assert.Equal(t, c.want, masked(t, c.mask, c.goType, c.object), c.name)
	}
	_, err := Decode([]byte("[]"))
	require.Error(t, err)
}

func TestCopiesOfASecretInAnnotationsAreMaskedInAnyEncoding(t *testing.T) {
	for name, value := range map[string]string{
		"base64":          "aHVudGVyMg==",
		"zip in base64":   "UEsDBBQACAAIAhunter2",
		"gzip in base64":  "H4sIAAAAhunter2",
		"zstd in base64":  "KLUv/SAAhunter2",
		"YAML":            "kind: Secret\ndata:\n  p: hunter2",
		"array":           `[{"kind":"Secret","data":{"p":"hunter2"}}]`,
		"token":           "hunter2",
		"text of a label": "owner=hunter2",
	} {
		for _, field := range []string{"openshift.io/token-secret.value", "example.com/last", "kubernetes.io/created-by"} {
			annotations := map[string]any{field: value, "kubernetes.io/service-account.name": "robot"}
			object, err := json.Marshal(map[string]any{"data": map[string]any{"p": "q"}, "metadata": map[string]any{"annotations": annotations}})
			require.NoError(t, err)
			text := masked(t, Mask{}, "*v1.Secret", string(object))
			assert.NotContains(t, text, value, "%s in %s", name, field)
			assert.NotContains(t, text, "hunter2", "%s in %s", name, field)
			assert.Contains(t, text, "robot")
		}
	}
}

func TestTextsOfAnyKindThatQuoteASecretAreMasked(t *testing.T) {
	for name, value := range map[string]string{
		"JSON":             `{"kind":"Secret","data":{"p":"hunter2"}}`,
		"list":             `{"kind": "SecretList","items":[{"data":{"p":"hunter2"}}]}`,
		"JSON within JSON": `{"raw":"{\"kind\":\"Secret\",\"data\":{\"p\":\"hunter2\"}}"}`,
		"YAML":             "apiVersion: v1\nkind: Secret\ndata:\n  p: hunter2\n",
	} {
		object, err := json.Marshal(map[string]any{
			"apiVersion": "example.com/v1", "kind": "Bundle", "spec": map[string]any{"raw": value},
			"metadata": map[string]any{"annotations": map[string]any{Applied: value, "note": "kept"}},
		})
		require.NoError(t, err)
		text := masked(t, Mask{}, "*unstructured.Unstructured", string(object))
		assert.NotContains(t, text, "hunter2", name)
		assert.Contains(t, text, "kept", name)
	}
	text := masked(t, Mask{}, "*unstructured.Unstructured", `{"apiVersion":"v1","kind":"secret","data":{"p":"hunter2"}}`)
	assert.NotContains(t, text, "hunter2", "the kind in lower case")
}

func TestTextsInArraysThatQuoteASecretAreMasked(t *testing.T) {
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{
			"command": []any{"sh", "-c", "kubectl apply -f - <<E\napiVersion: v1\nkind: Secret\nstringData:\n  p: hunter2\nE"},
		}}},
	})
	require.NoError(t, err)
	text := masked(t, Mask{}, "*v1.Pod", string(object))
	assert.NotContains(t, text, "hunter2")
	assert.Contains(t, text, "sh")

	text = masked(t, Mask{}, "*v1.Secret", `{"apiVersion":"v1","kind":"Secret","copies":["{\"data\":{\"p\":\"hunter2\"}}"]}`)
	assert.NotContains(t, text, "hunter2", "a copy in an array of a Secret")
}

func TestSecretsInFieldsOfOthersAreMaskedByTheirShape(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"text data": {
			`{"apiVersion":"v1","kind":"App","t":{"stringData":{"p":"q"},"data":{"p":"q"}}}`,
			`{"apiVersion":"v1","kind":"App","t":{"data":{"p":"x"},"stringData":{"p":"x"}}}`,
		},
		"a type": {
			`{"apiVersion":"v1","kind":"App","t":{"type":"bootstrap.kubernetes.io/token","data":{"p":"q"}}}`,
			`{"apiVersion":"v1","kind":"App","t":{"data":{"p":"x"},"type":"bootstrap.kubernetes.io/token"}}`,
		},
		"another type": {
			`{"apiVersion":"v1","kind":"App","t":{"type":"Opaque-ish","data":{"p":"q"}}}`,
			`{"apiVersion":"v1","kind":"App","t":{"data":{"p":"q"},"type":"Opaque-ish"}}`,
		},
	} {
		assert.Equal(t, c.want, masked(t, Mask{}, "app", c.object), name)
	}
}
