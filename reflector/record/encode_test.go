package record

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestNumbersOfFreeFormDataAreReplayedWithTypeAndDigits(t *testing.T) {
	want := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a"},
		"values":   map[string]any{"int": int64(3), "beyond 2^53": int64(9007199254740993), "float": 3.0, "list": []any{1.0, int64(1)}},
	}}
	for name, options := range map[string][]RecorderOption{"masked": nil, "with secrets": {WithRecordedSecrets()}} {
		t.Run(name, func(t *testing.T) {
			r := &recorded[*unstructured.Unstructured]{to: NewRecorder(io.Discard, options...)}
			data, err := r.encode(want)
			require.NoError(t, err)
			got, err := decodeRecorded[*unstructured.Unstructured](data)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}
