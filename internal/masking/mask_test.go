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
