package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/store"
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

// configMaps returns the body of a list of n objects.
func configMaps(n int) string {
	var body strings.Builder
	body.WriteString(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`)
	for i := range n {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(configMap(i, 4000))
	}
	body.WriteString("]}")
	return body.String()
}

// TestItemsThatAreHeldCostNextToNothing counts what is allocated for a list of which
// everything is held.
func TestItemsThatAreHeldCostNextToNothing(t *testing.T) {
	const n = 5000
	r := configMapReader(t)
	body := configMaps(n)
	assertAllocations(t, n, mostAllocations(), func() {
		p, err := r.items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, Skip{Holds: func(store.Key, store.Version, uint64) bool { return true }}, nil)
		require.NoError(t, err)
		assert.Empty(t, p.Items)
		require.Len(t, p.Held, n)
		assert.Equal(t, store.Key{Namespace: "default", Name: "a4999"}, p.Held[n-1])
	})
}

func TestItemsOfWhichSomeAreHeld(t *testing.T) {
	const n = 100
	odd := func(key store.Key, version store.Version, _ uint64) bool {
		return strings.HasSuffix(key.Name, "1") && version.UID != "" && version.ResourceVersion != ""
	}
	p, err := readItems(t, configMaps(n), Skip{Holds: odd}, nil)
	require.NoError(t, err)
	assert.Len(t, p.Held, n/10)
	assert.Len(t, p.Items, n-n/10)
	for _, item := range p.Items {
		assert.False(t, strings.HasSuffix(item.Name, "1"), item.Name)
	}
	_, err = readItems(t, configMaps(n)[:1000], Skip{Holds: odd}, nil)
	assert.ErrorIs(t, err, wire.ErrTruncated)
	assert.NotErrorIs(t, err, io.EOF)
}

func TestItemsArePassedOnWhileTheListComes(t *testing.T) {
	const n = 3000
	for _, decoders := range []int{1, 2} {
		r := configMapReader(t)
		r.Decoders = decoders
		var taken []string
		body := strings.NewReader(configMaps(n))
		early := false
		p, err := r.items(wire.NewList(body, wire.JSON, 0), wire.JSON, Skip{}, func(object *corev1.ConfigMap, hash uint64) {
			assert.NotZero(t, hash)
			early = early || body.Len() > 0
			assert.Equal(t, "ConfigMap", object.Kind)
			taken = append(taken, object.Name)
		})
		require.NoError(t, err)
		assert.True(t, early, "the rest has not come yet")
		assert.Empty(t, p.Items)
		assert.Equal(t, n, p.Taken)
		whole, err := r.items(wire.NewList(strings.NewReader(configMaps(n)), wire.JSON, 0), wire.JSON, Skip{}, nil)
		require.NoError(t, err)
		var want []string
		for _, item := range whole.Items {
			want = append(want, item.Name)
		}
		assert.Equal(t, want, taken)
	}
}

func TestItemsWithoutAKindAreNotPassedOn(t *testing.T) {
	p, err := configMapReader(t).items(wire.NewList(strings.NewReader(`{"items":[{"metadata":{"name":"a"}}],"metadata":{}}`), wire.JSON, 0), wire.JSON,
		Skip{}, func(*corev1.ConfigMap, uint64) { t.Error("passed on") })
	require.NoError(t, err)
	assert.Len(t, p.Items, 1)
}

func TestItemsAreNotPassedOnBeforeTheirKindIsKnownInFull(t *testing.T) {
	body := strings.Replace(configMaps(3000), `"apiVersion":"v1",`, "", 1)
	require.Less(t, len(body), len(configMaps(3000)))
	body = strings.TrimSuffix(strings.TrimSpace(body), "}") + `,"apiVersion":"v1"}`
	n := 0
	_, err := configMapReader(t).items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, Skip{}, func(object *corev1.ConfigMap, hash uint64) {
		assert.NotZero(t, hash)
		n++
		require.Equal(t, metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, object.TypeMeta)
	})
	require.NoError(t, err)
	assert.Equal(t, 3000, n)
}

// uids returns a UID of the first half of the shards, and one of the other.
func uids() (here, there string) {
	for i := 'a'; here == "" || there == ""; i++ {
		uid := strings.Repeat(string(i), 36)
		if store.Shards(store.ByUID, 2)[0].Contains(store.ShardHash(uid)) {
			here = uid
		} else {
			there = uid
		}
	}
	return here, there
}

// TestItemsThatDoNotSayPlainlyWhoTheyAre has objects whose metadata can be read only by a
// decoder, and some that no decoder can read further.
func TestItemsThatDoNotSayPlainlyWhoTheyAre(t *testing.T) {
	here, there := uids()
	const escaped = `{"metadata":{"n\u0061me":"NAME","namespace":"n","uid":"UID","resourceVersion":"5"},"data":DATA}`
	item := func(name, uid, data string) string {
		return strings.NewReplacer("NAME", name, "UID", uid, "DATA", data).Replace(escaped)
	}
	body := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + strings.Join([]string{
		item("a", here, "{}"), item("b", there, "{}"), item("c", here, "5"), item("d", there, "5"),
	}, ",") + "]}"
	r := configMapReader(t)
	shards := &Shards{By: store.ByUID, All: store.Shards(store.ByUID, 2)[:1]}
	p, err := r.items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, Skip{Shards: shards}, nil)
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	assert.Equal(t, "a", p.Items[0].Name)
	require.Len(t, p.Rejections, 1, "what nobody can read is missed if it belongs here alone")
	assert.Equal(t, "c", p.Rejections[0].Key.Name)
	assert.Equal(t, 2, p.OutOfShard)

	s := &Watch[*corev1.ConfigMap]{of: r, shards: shards}
	var events []Event[*corev1.ConfigMap]
	for _, object := range []string{item("a", here, "{}"), item("b", there, "{}"), item("c", here, "5"), item("d", there, "5")} {
		batch := &wire.Batch{}
		batch.Frames = append(batch.Frames, wire.Frame{Type: "ADDED", Object: []byte(object)})
		s.decode(r.get(), &events, wire.JSON, batch)
	}
	require.Len(t, events, 4)
	assert.Equal(t, "a", events[0].Object.Name)
	assert.Equal(t, 1, events[1].OutOfShard)
	assert.Equal(t, "5", events[1].ResourceVersion)
	require.NotNil(t, events[2].Rejection)
	assert.Equal(t, 1, events[3].OutOfShard)
	assert.Nil(t, events[3].Rejection)
}

func TestKindOfBytesThatIsTheLastIsNotAllocated(t *testing.T) {
	last := metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	data := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}`)
	assert.Equal(t, last, kindOfBytes(wire.JSON, data, metav1.TypeMeta{}))
	assert.Equal(t, last, kindOfBytes(wire.JSON, data, metav1.TypeMeta{Kind: "Secret", APIVersion: "v2"}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { kindOfBytes(wire.JSON, data, last) }))
}
