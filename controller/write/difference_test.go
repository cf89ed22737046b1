package write

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Ledger has numbers that a float64 does not have.
type Ledger struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Balance int64 `json:"balance"`
		Other   int64 `json:"other"`
	} `json:"spec"`
}

func TestLargeNumbersAreKept(t *testing.T) {
	held := &Ledger{}
	held.Spec.Balance, held.Spec.Other = math.MaxInt64-1, math.MaxInt64-1
	want := *held
	want.Spec.Balance++
	patch, err := difference(held, &want)
	require.NoError(t, err)
	data, err := json.Marshal(patch)
	require.NoError(t, err)
	assert.JSONEq(t, `{"spec":{"balance":9223372036854775807}}`, string(data))
	assert.Contains(t, string(data), "9223372036854775807", "to the last digit")
}

// Sealed cannot be encoded.
type Sealed struct {
	metav1.ObjectMeta
	Price resource.Quantity
}

func (*Sealed) MarshalJSON() ([]byte, error) { return nil, errors.New("sealed") }

func TestEqualObjectsAreNotEncoded(t *testing.T) {
	held := &Sealed{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "x"}}, Price: resource.MustParse("1500m")}
	want := Copy(held)
	patch, err := difference(held, want)
	require.NoError(t, err)
	assert.Empty(t, patch)
	want.Labels["l"] = "y"
	_, err = difference(held, want)
	require.ErrorContains(t, err, "sealed")
}

func TestNilAndEmptyDifferOnlyIfTheirJSONDoes(t *testing.T) {
	type object struct {
		metav1.ObjectMeta `json:"metadata"`
		Lists             []string `json:"lists"`
		Omitted           []string `json:"omitted,omitempty"`
	}
	patch, err := difference(&object{}, &object{Omitted: []string{}})
	require.NoError(t, err)
	assert.Empty(t, patch)
	patch, err = difference(&object{}, &object{Lists: []string{}})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"lists": []any{}}, patch)
}

// document is JSON of a few fields, lists and nulls.
func document(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 4
		if depth == 0 {
			most = 2
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.Int64Range(math.MaxInt64-2, math.MaxInt64).Draw(t, "number")
		case 1:
			return rapid.SampledFrom([]string{"", "x"}).Draw(t, "text")
		case 2:
			return rapid.Bool().Draw(t, "truth")
		case 3:
			return rapid.SliceOfN(document(depth-1), 0, 2).Draw(t, "list")
		default:
			return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), document(depth-1), 0, 3).Draw(t, "fields")
		}
	})
}

// The server has a merge patch of its own; the one here must mean the same to it.
func TestPatchMakesOneDocumentOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), document(2), 0, 3)
		held, err := json.Marshal(fields.Draw(t, "held"))
		require.NoError(t, err)
		want, err := json.Marshal(fields.Draw(t, "want"))
		require.NoError(t, err)
		patch, err := differenceOf(held, want)
		require.NoError(t, err)
		sent, err := json.Marshal(patch)
		require.NoError(t, err)
		got, err := jsonpatch.MergePatch(held, sent) // as the API server does
		require.NoError(t, err)
		again, err := differenceOf(got, want)
		require.NoError(t, err)
		assert.Empty(t, again, "%s", got)
		if string(held) == string(want) {
			assert.Empty(t, patch)
		}
	})
}
