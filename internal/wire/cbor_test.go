package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// selfDescribed is the tag that API servers put before a document.
const selfDescribed = "\xd9\xd9\xf7"

func inCBOR(t testing.TB, value any) string {
	data, err := direct.Marshal(value)
	require.NoError(t, err)
	return string(data)
}

// cborEvent is an event as API servers send it.
func cborEvent(t testing.TB, kind string, object any) string {
	return selfDescribed + inCBOR(t, metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: []byte(selfDescribed + inCBOR(t, object))}})
}

func benchConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "5", Labels: map[string]string{"uid": "x"}},
		Data:       map[string]string{"color": strings.Repeat("red", 100)},
	}
}

func TestCBOREvents(t *testing.T) {
	want := []cut{{"ADDED", inCBOR(t, benchConfigMap("a"))}, {"DELETED", inCBOR(t, benchConfigMap("b"))}, {"OTHER", ""}}
	body := cborEvent(t, "ADDED", benchConfigMap("a")) + cborEvent(t, "DELETED", benchConfigMap("b")) + inCBOR(t, map[string]any{"type": "OTHER", "object": nil})
	for how, r := range pieces(body) {
		got, err := readAll(NewWatch(r, CBOR, 0))
		require.NoError(t, err, how)
		assert.Equal(t, want, got, how)
	}
	for n := range len(body) {
		_, err := readAll(NewWatch(strings.NewReader(body[:n]), CBOR, 0))
		if err != nil {
			assert.ErrorIs(t, err, ErrTruncated, n)
		}
	}
	_, err := readAll(NewWatch(strings.NewReader(body), CBOR, 200))
	assert.ErrorIs(t, err, ErrTooLarge)
	for name, bad := range map[string]string{
		"JSON": `{"type":"ADDED"}`, "an array": "\x80", "a break": "\xff", "a number": "\x01", "a bad head": "\x1f", "a bad size": "\x1c",
		"a name that is none": "\xa1\x01\x02", "a type that is none": inCBOR(t, map[string]any{"type": 5}),
		"too deep": strings.Repeat("\x81", 1000), "too long": "\xbb\xff\xff\xff\xff\xff\xff\xff\xfe", "longer": "\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		_, err := readAll(NewWatch(strings.NewReader(bad), CBOR, 0))
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
}

func TestItemsOfCBORLists(t *testing.T) {
	a, b := inCBOR(t, benchConfigMap("a")), inCBOR(t, benchConfigMap("b"))
	meta := ListMeta{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "go on"}}
	list := corev1.ConfigMapList{TypeMeta: meta.TypeMeta, ListMeta: meta.ListMeta, Items: []corev1.ConfigMap{*benchConfigMap("a"), *benchConfigMap("b")}}
	text := func(s string) string { return string([]byte{0x60 + byte(len(s))}) + s }
	for name, c := range map[string]struct {
		body string
		want []string
		meta ListMeta
	}{
		"as servers send it": {selfDescribed + inCBOR(t, list), []string{a, b}, meta},
		"of unknown lengths": {"\xbf" + text("items") + "\x9f" + a + selfDescribed + b + "\xff" + text("kind") + text("FooList") + "\xff", []string{a, b}, ListMeta{TypeMeta: metav1.TypeMeta{Kind: "FooList"}}},
		"no items":           {"\xa1" + text("items") + "\x80", nil, ListMeta{}},
		"items that are nil": {"\xa1" + text("items") + "\xf6", nil, ListMeta{}},
		"nothing at all":     {"\xa0", nil, ListMeta{}},
		"other members":      {"\xa2" + text("x") + "\x9f\x5f\x41a\xff\xf9\x00\x00\xff" + text("items") + "\x81" + a, []string{a}, ListMeta{}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range pieces(c.body) {
				l := NewList(r, CBOR, 0)
				got, err := readAll(l)
				require.NoError(t, err, how)
				assert.Equal(t, c.want, objects(got), how)
				assert.Equal(t, c.meta, l.Meta(), how)
			}
			for n := range len(c.body) {
				_, err := readAll(NewList(strings.NewReader(c.body[:n]), CBOR, 0))
				assert.ErrorIs(t, err, ErrTruncated, n)
			}
		})
	}
	for name, bad := range map[string]string{
		"JSON": `{"items":[]}`, "items twice": "\xa2" + text("items") + "\x80" + text("items") + "\x80", "items are a map": "\xa1" + text("items") + "\xa0",
		"two lists": "\xa0\xa0", "metadata of a list": "\xa1" + text("metadata") + "\x80", "a single object": a,
	} {
		_, err := readAll(NewList(strings.NewReader(bad), CBOR, 0))
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
}

func TestPeekCBOR(t *testing.T) {
	id, ok := Peek(CBOR, []byte(inCBOR(t, benchConfigMap("a"))))
	require.True(t, ok)
	assert.Equal(t, "ns/a u 5", string(id.Namespace)+"/"+string(id.Name)+" "+string(id.UID)+" "+string(id.ResourceVersion))
	for _, object := range []string{"", "\xa0", "\x80", inCBOR(t, map[string]any{"metadata": 5}), inCBOR(t, map[string]any{"metadata": map[string]any{"name": 5, "uid": "u", "resourceVersion": "5"}})} {
		_, ok := Peek(CBOR, []byte(object))
		assert.False(t, ok)
	}
}

func TestCBORAsJSON(t *testing.T) {
	for want, value := range map[string]any{
		`{"a":[1,-2,true,false,null,"ä\"",1.5,2.0]}`: map[string]any{"a": []any{int64(1), int64(-2), true, false, nil, "ä\"", 1.5, 2.0}},
		`{"b":"AAH/"}`: struct {
			B []byte `json:"b"`
		}{[]byte{0, 1, 255}},
		`9223372036854775807`:  int64(1<<63 - 1),
		`-9223372036854775808`: int64(-1 << 63),
		`1e+300`:               1e300,
	} {
		got, err := AppendJSON([]byte("x"), []byte(selfDescribed+inCBOR(t, value)))
		require.NoError(t, err)
		assert.Equal(t, "x"+want, string(got))
	}
	for want, item := range map[string]string{
		`["ab","cd",{}]`: "\x9f\x5f\x41a\x41b\xff\x7f\x62cd\xff\xbf\xff\xff", "1.0": "\xf9\x3c\x00", "-0.5": "\xf9\xb8\x00",
		"5.960464477539063e-08": "\xf9\x00\x01", "3.5": "\xfa\x40\x60\x00\x00", `"_w"`: "\xd5\x41\xff", `"ff"`: "\xd7\x41\xff", "null": "\xf7",
	} {
		got, err := AppendJSON(nil, []byte(item))
		require.NoError(t, err, want)
		assert.Equal(t, want, string(got))
	}
	got, err := AppendJSON(nil, []byte(strings.Repeat("\xc6", 1<<24)+"\x01"))
	require.NoError(t, err)
	assert.Equal(t, "1", string(got))
	for _, bad := range []string{"", "\x01\x01", "\x81", "\xf9\x7c\x00", "\xf8\x20", "\xa1\x01\x01", "\xbf\x61a\xff", "\x3b\xff\xff\xff\xff\xff\xff\xff\xfe", "\x5f\x80\xff"} {
		_, err := AppendJSON(nil, []byte(bad))
		assert.ErrorIs(t, err, ErrMalformed, "%x", bad)
	}
}

// FuzzCBOR holds what is cut to what apimachinery's decoder finds.
func FuzzCBOR(f *testing.F) {
	f.Add([]byte(cborEvent(f, "ADDED", benchConfigMap("a"))))
	f.Add([]byte(inCBOR(f, corev1.ConfigMapList{Items: []corev1.ConfigMap{*benchConfigMap("a"), {}}})))
	f.Add([]byte("\xbf\x65items\x9f\xa0\xff\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = readAll(NewWatch(arriving(body), CBOR, 1<<16))
		list := NewList(arriving(body), CBOR, 1<<16)
		got, failure := readAll(list)
		var want struct {
			metav1.TypeMeta `json:",inline"`
			metav1.ListMeta `json:"metadata"`
			Items           []any `json:"items"`
		}
		if direct.Unmarshal(body, &want) == nil && want.Kind == "" && untagged(body)[0]>>5 == cborMap {
			require.NoError(t, failure)
			require.Len(t, got, len(want.Items))
		}
		// Tags that API servers do not send mean times and large numbers.
		otherTag := slices.ContainsFunc(body, func(c byte) bool { return c >= 0xc0 && c < 0xd5 })
		var one any
		if text, err := AppendJSON(nil, body); direct.Unmarshal(body, &one) == nil && utf8.ValidString(fmt.Sprint(one)) && !otherTag {
			require.NoError(t, err)
			var same any
			require.NoError(t, utiljson.Unmarshal(text, &same))
			require.Equal(t, fmt.Sprint(one), fmt.Sprint(same))
		}
		var object metav1.PartialObjectMetadata
		if id, ok := Peek(CBOR, body); ok && direct.Unmarshal(body, &object) == nil {
			require.Equal(t, object.Name, string(id.Name))
			require.Equal(t, string(object.UID), string(id.UID))
			require.Equal(t, object.ResourceVersion, string(id.ResourceVersion))
		}
	})
}
