package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecodersOfAnInitialListAreNotKept(t *testing.T) {
	processors(t, 4)
	r := configMapReader(t)
	r.Pool.keepAll()
	var all []*decoder[*corev1.ConfigMap]
	for range 6 {
		all = append(all, r.get())
	}
	for _, d := range all {
		r.put(d)
	}
	assert.Len(t, r.Pool.spare, 4, "one for each processor")
	r.Pool.keepFew()
	assert.Equal(t, all[2:4], r.Pool.spare, "those that were used last")
	r.put(all[5])
	assert.Len(t, r.Pool.spare, 2)
}

// A client may only read single objects, and never list.
func TestDecoderOfOneObjectIsKept(t *testing.T) {
	r := configMapReader(t)
	open, made := r.NewDecoder, 0
	r.NewDecoder = func(report func(error)) *decode.Decoder[*corev1.ConfigMap] {
		made++
		return open(report)
	}
	for range 3 {
		_, _, err := r.Object(&Response{ContentType: "application/json", Body: text(configMap(1, 1))})
		require.NoError(t, err)
	}
	assert.Equal(t, 1, made)
}

func TestLargestLimitIsNoLimit(t *testing.T) {
	r := configMapReader(t)
	r.MaxObjectBytes = math.MaxInt
	object, _, err := r.Object(&Response{ContentType: "application/json", Body: text(configMap(1, 1))})
	require.NoError(t, err)
	assert.Equal(t, "a1", object.Name)
}

// sealed has fields whose errors quote their values.
type sealed struct {
	metav1.ObjectMeta `json:"metadata"`
	Code              int               `json:"code"`
	Short             int8              `json:"short"`
	Lock              lock              `json:"lock"`
	Ports             map[string]bool   `json:"ports"`
	Opened            metav1.Time       `json:"opened"`
	Size              resource.Quantity `json:"size"`
}

type lock struct{}

func (*lock) UnmarshalText(text []byte) error {
	return fmt.Errorf("lock %q: %w", text, io.ErrNoProgress)
}

// open has a field for which the decoder uses the older JSON library.
type open struct {
	metav1.ObjectMeta `json:"metadata"`
	Any               anything `json:"any"`
	Short             int8     `json:"short"`
}

type anything any

func TestDecodeErrorOfTheOlderLibraryQuotesNoValue(t *testing.T) {
	_, _, err := readerOf[*open](t).Object(&Response{ContentType: "application/json", Body: text(`{"metadata":{"name":"b"},"short":7733}`)})
	var old *json.UnmarshalTypeError
	require.ErrorAs(t, err, &old)
	assert.Equal(t, "number 7733", old.Value)
	assert.NotContains(t, err.Error(), "7733")
	assert.Contains(t, err.Error(), "short")
}

func TestDecodeErrorQuotesNoValue(t *testing.T) {
	r := readerOf[*sealed](t)
	for member, value := range map[string]string{
		"code": `"s3"`, "short": `7733`, "lock": `"s3"`, "ports": `{"a":"s3"}`, "opened": `"s3"`, "size": `"s3"`,
	} {
		for _, whole := range []string{`{"metadata":{"name":"b"},"` + member + `":` + value + `}`, `{"metadata":{"name":"b"},"` + member + `": ` + value + ` }`} {
			_, _, err := r.Object(&Response{ContentType: "application/json", Body: text(whole)})
			decoding, ok := errors.AsType[*DecodeError](err)
			require.True(t, ok, "%v", err)
			assert.NotContains(t, err.Error(), "s3")
			assert.NotContains(t, err.Error(), "7733")
			assert.Contains(t, err.Error(), "/"+member)
			assert.Contains(t, decoding.Field, "/"+member)
			if member == "lock" {
				assert.ErrorIs(t, err, io.ErrNoProgress)
			}
			if member == "short" {
				assert.ErrorContains(t, err, "out of range")
			}
		}
	}
}
