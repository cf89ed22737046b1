package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestItemsOfJSONLists(t *testing.T) {
	seven := int64(7)
	meta := ListMeta{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "go on", RemainingItemCount: &seven},
	}
	head := `"kind":"PodList","apiVersion":"v1"`
	metadata := `"metadata":{"resourceVersion":"5","continue":"go on","remainingItemCount":7}`
	for name, c := range map[string]struct {
		body string
		want []string
		meta ListMeta
	}{
		"metadata first":     {"{" + head + "," + metadata + `,"items":[{"a":"]}"},{"b":[{}]}]}` + "\n", []string{`{"a":"]}"}`, `{"b":[{}]}`}, meta},
		"metadata last":      {`{"items":[{"a":{}},{"b":1}],` + metadata + "," + head + "}", []string{`{"a":{}}`, `{"b":1}`}, meta},
		"whitespace":         {"\n{ \"items\" : [ {} ,\n{ } ] , " + metadata + " ,\t" + head + " }\n\n", []string{"{}", "{ }"}, meta},
		"no items":           {"{" + head + "," + metadata + `,"items":[]}`, nil, meta},
		"items that are nil": {"{" + head + "," + metadata + `,"items":null}`, nil, meta},
		"nothing at all":     {"{}", nil, ListMeta{}},
		"other members":      {`{"x":1,"y":"items","z":[{"items":[{}]}],"Items":[{}],"items":[{"a":1}],"w":null}`, []string{`{"a":1}`}, ListMeta{}},
		"escaped names":      {`{"\u0069tems":[{"a":1}]}`, []string{`{"a":1}`}, ListMeta{}},
		"items of any kind":  {`{"items":[1,"a,]",null,[],true]}`, []string{"1", `"a,]"`, "null", "[]", "true"}, ListMeta{}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range pieces(c.body) {
				l := NewList(r, JSON, 0)
				got, err := readAll(l)
				require.NoError(t, err, how)
				assert.Equal(t, c.want, objects(got), how)
				assert.Equal(t, c.meta, l.Meta(), how)
			}
		})
	}
}

func TestBodiesThatAreNoJSONLists(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"a page":             {"<html>", ErrMalformed},
		"an array":           {"[{}]", ErrMalformed},
		"no comma":           {`{"items":[{"a":1} {}]}`, ErrMalformed},
		"a single object":    {`{"kind":"Pod","metadata":{"resourceVersion":"5"},"spec":{}}`, ErrMalformed},
		"a comma too many":   {`{"items":[{"a":1},]}`, ErrMalformed},
		"no item":            {`{"items":[{"a":1},,{}]}`, ErrMalformed},
		"items twice":        {`{"items":[{"a":1}],"items":[]}`, ErrMalformed},
		"items are a map":    {`{"items":{}}`, ErrMalformed},
		"two lists":          {`{"items":[{"a":1}]}{}`, ErrMalformed},
		"bad metadata":       {`{"items":[{"a":1}],"metadata":{]}}`, ErrMalformed},
		"metadata of a list": {`{"items":[{"a":1}],"metadata":[]}`, ErrMalformed},
		"another bad member": {`{"items":[{"a":1}],"x":{"a"}}`, ErrMalformed},
		"no name":            {`{"items":[{"a":1}],}`, ErrMalformed},
		"no value":           {`{"items":[{"a":1}],"x":}`, ErrMalformed},
		"a bad escape":       {`{"items":[{"a":1}],"\x":1}`, ErrMalformed},
		"nothing":            {"", ErrTruncated},
		"cut in an item":     {`{"items":[{"a":1},{"b":`, ErrTruncated},
		"cut between items":  {`{"items":[{"a":1}`, ErrTruncated},
		"cut after items":    {`{"items":[{"a":1}]`, ErrTruncated},
		"cut in a number":    {`{"items":[{"a":1}],"x":1`, ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range pieces(c.body) {
				got, err := readAll(NewList(r, JSON, 0))
				require.ErrorIs(t, err, c.want, how)
				assert.Len(t, got, strings.Count(c.body, `{"a":1}`), how)
			}
		})
	}
}

func TestListsAreNotHeldAsAWhole(t *testing.T) {
	item := `{"a":"` + strings.Repeat("x", 2000) + `"}`
	body := `{"items":[` + strings.Repeat(item+",", 9999) + item + "]}"
	l := NewList(strings.NewReader(body), JSON, 0)
	n, largest := 0, 0
	for batch, err := l.Next(); err == nil; batch, err = l.Next() {
		n += len(batch.Frames)
		largest = max(largest, batch.Size(), cap(batch.buf))
		batch.Release()
	}
	assert.Equal(t, 10000, n)
	assert.Less(t, largest, 300<<10)
}

func TestItemsOfProtobufLists(t *testing.T) {
	seven := int64(7)
	list := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "go on", RemainingItemCount: &seven},
		Items:    []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("b", 100_000)}}, {}},
	}
	var want []string
	for i := range list.Items {
		b, err := list.Items[i].Marshal()
		require.NoError(t, err)
		want = append(want, string(b))
	}
	body := protobufList(t, list)
	for how, r := range pieces(body) {
		l := NewList(r, Protobuf, 0)
		got, err := readAll(l)
		require.NoError(t, err, how)
		assert.Equal(t, want, objects(got), how)
		assert.Equal(t, ListMeta{TypeMeta: list.TypeMeta, ListMeta: list.ListMeta}, l.Meta(), how)
	}
	_, err := readAll(NewList(strings.NewReader(body), Protobuf, 50_000))
	assert.ErrorIs(t, err, ErrTooLarge)

	got, err := readAll(NewList(strings.NewReader(protobufList(t, &corev1.PodList{})), Protobuf, 0))
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestBodiesThatAreNoProtobufLists(t *testing.T) {
	body := protobufList(t, &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {}}})
	for n := range len(body) {
		_, err := readAll(NewList(strings.NewReader(body[:n]), Protobuf, 0))
		if err != nil {
			assert.ErrorIs(t, err, ErrTruncated, n)
		}
		// Without an error only whole fields are missing after the contents.
		assert.True(t, err != nil || len(body)-n <= 4, n)
	}
	for name, c := range map[string]string{
		"JSON":                     "{}{}{}",
		"two contents":             string(magic) + "\x12\x00\x12\x00",
		"contents of another type": string(magic) + "\x10\x00",
		"an item over its list":    string(magic) + "\x12\x04\x12\x04\x00\x00\x00\x00",
		"an item of another type":  string(magic) + "\x12\x02\x10\x00",
		"bad metadata":             string(magic) + "\x12\x03\x0a\x01\xff",
		"an encoding":              string(magic) + "\x1a\x01x",
	} {
		for how, r := range pieces(c) {
			_, err := readAll(NewList(r, Protobuf, 0))
			assert.ErrorIs(t, err, ErrMalformed, name, how)
		}
	}
}

func TestProtobufObjectIsNoList(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "5"}}
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "5"}}
	for _, object := range []runtime.Object{pod, status} {
		for how, r := range pieces(protobufMessage(t, object)) {
			got, err := readAll(NewList(r, Protobuf, 0))
			assert.ErrorIs(t, err, ErrMalformed, how)
			assert.Empty(t, got)
		}
	}
}

func protobufList(t testing.TB, list *corev1.PodList) string { return protobufMessage(t, list) }

func protobufMessage(t testing.TB, object runtime.Object) string {
	var raw bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &raw))
	return raw.String()
}

func objects(cuts []piece) []string {
	var all []string
	for _, c := range cuts {
		all = append(all, c.Object)
	}
	return all
}
