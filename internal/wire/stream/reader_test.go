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
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDecodersOfAnInitialListAreNotKept(t *testing.T) {
	processors(t, 4)
	r := configMapReader(t)
	r.Pool.keep(4)
	var all []*decoder[*corev1.ConfigMap]
	for range 6 {
		all = append(all, r.get())
	}
	for _, d := range all {
		r.put(d)
	}
	assert.Len(t, r.Pool.spare, 4, "one for each processor")
	r.Pool.keep(few)
	assert.Equal(t, all[2:4], r.Pool.spare, "those that were used last")
	r.put(all[5])
	assert.Len(t, r.Pool.spare, 2)
}

// A client may only list, and never watch.
func TestDecodersOfAListAreKeptForItsPages(t *testing.T) {
	processors(t, 4)
	for meta, want := range map[string]int{`"continue":"x","resourceVersion":"7"`: 4, `"resourceVersion":"7"`: few, ``: few} {
		r := configMapReader(t)
		r.Pool.keep(4)
		for range 4 {
			r.put(&decoder[*corev1.ConfigMap]{of: r})
		}
		body := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{` + meta + `},"items":[]`
		if meta != "" { // else the list is cut
			body += "}"
		}
		_, err := readList(r, strings.NewReader(body), Wants[*corev1.ConfigMap]{})
		assert.Equal(t, meta == "", err != nil, "%v", err)
		assert.Len(t, r.Pool.spare, want, meta)
	}
}

// CatchUp reads the version of a list beside a watch.
func TestListThatNobodyTakesLeavesTheDecodersOfAWatch(t *testing.T) {
	processors(t, 4)
	r := configMapReader(t)
	r.Pool.keep(few)
	body := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"x","resourceVersion":"7"},"items":[]}`
	_, err := r.List(&Response{ContentType: "application/json", Body: text(body)}, Wants[*corev1.ConfigMap]{})
	require.NoError(t, err)
	assert.Equal(t, few, r.Pool.limit)
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
	Any               anything    `json:"any"`
	Short             int8        `json:"short"`
	Code              int         `json:"code,string"`
	Flag              bool        `json:"flag,string"`
	Number            json.Number `json:"number"`
	Opened            metav1.Time `json:"opened"`
	Lock              lock        `json:"lock"`
}

type anything any

func TestDecodeErrorOfTheOlderLibraryQuotesNoValue(t *testing.T) {
	_, _, err := readerOf[*open](t).Object(&Response{ContentType: "application/json", Body: text(`{"metadata":{"name":"b"},"short":7733}`)})
	var old *json.UnmarshalTypeError
	require.ErrorAs(t, err, &old)
	assert.Equal(t, "number 7733", old.Value)
	assert.NotContains(t, err.Error(), "7733")
	assert.Contains(t, err.Error(), "short")

	r, strict := readerOf[*open](t), readerOf[*open](t)
	strict.Unknown = func(*answer.DecodeError) {}
	codec, err := decode.For[*open](decode.Options{ReportUnknown: func(error) {}})
	require.NoError(t, err)
	strict.NewDecoder = func(func(error)) *decode.Decoder[*open] { return codec.NewDecoder() }
	for member, value := range map[string]string{"code": `"s3"`, "flag": `"s3"`, "number": `"s3"`, "opened": `"s3"`, "lock": `"s3"`} {
		for _, r := range []*Reader[*open]{r, strict} {
			_, _, err := r.Object(&Response{ContentType: "application/json", Body: text(`{"metadata":{"name":"b"},"` + member + `":` + value + `}`)})
			decoding, ok := errors.AsType[*answer.DecodeError](err)
			require.True(t, ok, "%s: %v", member, err)
			assert.NotContains(t, err.Error(), "s3")
			assert.ErrorContains(t, decoding.Err, "s3", "the cause says what did not fit")
		}
	}
}

func TestDecodeErrorSaysWhatIsWrongWithTheBytes(t *testing.T) {
	for body, want := range map[string]string{
		`{"metadata":{"name":"b"},"short":x}`: "invalid character 'x'",
		`{"metadata":{"name":"b"},"short":`:   "unexpected",
	} {
		for _, object := range []func(*Response) error{objectOf(readerOf[*open](t)), objectOf(readerOf[*sealed](t))} {
			assert.ErrorContains(t, object(&Response{ContentType: "application/json", Body: text(body)}), want)
		}
	}
	err := objectOf(configMapReader(t))(&Response{ContentType: "application/vnd.kubernetes.protobuf", Body: text("\x0a\x7f")})
	assert.ErrorContains(t, err, "unexpected EOF")
	err = objectOf(configMapReader(t))(&Response{ContentType: "application/vnd.kubernetes.protobuf", Body: text("\x08\x01")})
	assert.ErrorContains(t, err, "proto: wrong wireType = 0 for field ObjectMeta")
	err = objectOf(readerOf[*unstructured.Unstructured](t))(&Response{ContentType: "application/vnd.kubernetes.protobuf", Body: text("\x08\x01")})
	assert.ErrorContains(t, err, "cannot be decoded from protobuf")
}

func objectOf[T Object](r *Reader[T]) func(*Response) error {
	return func(from *Response) error { _, _, err := r.Object(from); return err }
}

func TestErrorOfTheMetadataOfAListQuotesNoValue(t *testing.T) {
	for _, body := range []string{`{"kind":"ConfigMapList","metadata":{"resourceVersion":7733}}`, `{"kind":"ConfigMapList","metadata":{"remainingItemCount":773377337733773377337733}}`} {
		_, err := readList(configMapReader(t), strings.NewReader(body), Wants[*corev1.ConfigMap]{})
		require.ErrorIs(t, err, wire.ErrMalformed)
		assert.NotContains(t, err.Error(), "7733")
	}
}

// touchy has a method that panics with a value.
type touchy struct {
	metav1.ObjectMeta `json:"metadata"`
	Token             string `json:"token"`
}

func (t *touchy) GetNamespace() string { panic("bad token " + t.Token) }

func TestDecodeErrorOfAPanicNamesTheMethodAndNoValue(t *testing.T) {
	_, _, err := readerOf[*touchy](t).Object(&Response{ContentType: "application/json", Body: text(`{"metadata":{"name":"b"},"token":"s3"}`)})
	decoding, ok := errors.AsType[*answer.DecodeError](err)
	require.True(t, ok, "%v", err)
	assert.ErrorIs(t, err, store.ErrPanic)
	assert.NotContains(t, err.Error(), "s3")
	assert.ErrorContains(t, err, "(*touchy).GetNamespace")
	assert.ErrorContains(t, decoding.Err, "bad token s3")
	assert.ErrorContains(t, decoding.Err, "reader_test.go:", "the stack")
}

func TestDecodeErrorQuotesNoValue(t *testing.T) {
	r := readerOf[*sealed](t)
	for member, value := range map[string]string{
		"code": `"s3"`, "short": `7733`, "lock": `"s3"`, "ports": `{"a":"s3"}`, "opened": `"s3"`, "size": `"s3"`,
	} {
		for _, whole := range []string{`{"metadata":{"name":"b"},"` + member + `":` + value + `}`, `{"metadata":{"name":"b"},"` + member + `": ` + value + ` }`} {
			_, _, err := r.Object(&Response{ContentType: "application/json", Body: text(whole)})
			decoding, ok := errors.AsType[*answer.DecodeError](err)
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
		all, err := readList(r, strings.NewReader(body), Wants[*corev1.ConfigMap]{Holds: func(store.Key, store.Version, uint64) bool { return true }})
		require.NoError(t, err)
		assert.Empty(t, all.objects)
		require.Len(t, all.unchanged, n)
		assert.Equal(t, store.Key{Namespace: "default", Name: "a4999"}, all.unchanged[n-1])
	})
}

func TestItemsOfWhichSomeAreHeld(t *testing.T) {
	const n = 100
	odd := func(key store.Key, version store.Version, _ uint64) bool {
		return strings.HasSuffix(key.Name, "1") && version.UID != "" && version.ResourceVersion != ""
	}
	all, err := readList(configMapReader(t), strings.NewReader(configMaps(n)), Wants[*corev1.ConfigMap]{Holds: odd})
	require.NoError(t, err)
	assert.Len(t, all.unchanged, n/10)
	assert.Len(t, all.objects, n-n/10)
	for _, item := range all.objects {
		assert.False(t, strings.HasSuffix(item.Name, "1"), item.Name)
	}
	_, err = readList(configMapReader(t), strings.NewReader(configMaps(n)[:1000]), Wants[*corev1.ConfigMap]{Holds: odd})
	assert.ErrorIs(t, err, wire.ErrTruncated)
	assert.NotErrorIs(t, err, io.EOF)
}

// passOn reads a list, and returns the names of its items, and how many came before the whole body
// had been read.
func passOn(t *testing.T, r *Reader[*corev1.ConfigMap], text string, kind metav1.TypeMeta) (names []string, early int) {
	body := strings.NewReader(text)
	_, err := r.List(&Response{ContentType: "application/json", Body: io.NopCloser(body)}, Wants[*corev1.ConfigMap]{Take: func(i *Item[*corev1.ConfigMap]) {
		assert.NotZero(t, i.Write.Hash)
		if body.Len() > 0 {
			early++
		}
		require.Equal(t, kind, i.Write.Object.TypeMeta)
		names = append(names, i.Write.Object.Name)
	}})
	require.NoError(t, err)
	return names, early
}

func TestItemsArePassedOnWhileTheListComes(t *testing.T) {
	const n = 3000
	for _, number := range []int{1, 2} {
		processors(t, number)
		r := configMapReader(t)
		names, early := passOn(t, r, configMaps(n), metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"})
		assert.NotZero(t, early, "the rest has not come yet")
		var want []string
		for i := range n {
			want = append(want, fmt.Sprint("a", i))
		}
		assert.Equal(t, want, names)
	}
}

func TestItemsWithoutAKindArePassedOnAtTheEnd(t *testing.T) {
	text := strings.Replace(configMaps(3000), `"kind":"ConfigMapList","apiVersion":"v1",`, "", 1)
	names, early := passOn(t, configMapReader(t), text, metav1.TypeMeta{})
	assert.Len(t, names, 3000)
	assert.Zero(t, early)
}

func TestItemsAreNotPassedOnBeforeTheirKindIsKnownInFull(t *testing.T) {
	body := strings.Replace(configMaps(3000), `"apiVersion":"v1",`, "", 1)
	require.Less(t, len(body), len(configMaps(3000)))
	body = strings.TrimSuffix(strings.TrimSpace(body), "}") + `,"apiVersion":"v1"}`
	names, _ := passOn(t, configMapReader(t), body, metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"})
	assert.Len(t, names, 3000)
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
	all, err := readList(r, strings.NewReader(body), Wants[*corev1.ConfigMap]{Shards: shards})
	require.NoError(t, err)
	require.Len(t, all.objects, 1)
	assert.Equal(t, "a", all.objects[0].Name)
	require.Len(t, all.undecoded, 1, "what nobody can read is missed if it belongs here alone")
	assert.Equal(t, "c", all.undecoded[0].Name)
	assert.Equal(t, 2, all.outside)

	s := &Watch[*corev1.ConfigMap]{of: r, wants: Wants[*corev1.ConfigMap]{Shards: shards}}
	var items []Item[*corev1.ConfigMap]
	for _, object := range []string{item("a", here, "{}"), item("b", there, "{}"), item("c", here, "5"), item("d", there, "5")} {
		batch := &wire.Batch{}
		batch.Frames = append(batch.Frames, wire.Frame{Type: "ADDED", Object: []byte(object)})
		s.decode(r.get(), &items, wire.JSON, batch)
	}
	require.Len(t, items, 4)
	for i := range items {
		items[i].Filter(shards)
	}
	assert.Equal(t, "a", items[0].Write.Object.Name)
	assert.Equal(t, Outside, items[1].Kind)
	assert.Equal(t, "5", items[1].Version)
	require.Error(t, items[2].Write.Err)
	assert.Equal(t, Outside, items[3].Kind)
	assert.NoError(t, items[3].Write.Err)
}

func TestKindOfBytesThatIsTheLastIsNotAllocated(t *testing.T) {
	last := metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	data := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}`)
	assert.Equal(t, last, kindOfBytes(wire.JSON, data, metav1.TypeMeta{}))
	assert.Equal(t, last, kindOfBytes(wire.JSON, data, metav1.TypeMeta{Kind: "Secret", APIVersion: "v2"}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { kindOfBytes(wire.JSON, data, last) }))
}
