package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
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

func TestJSONEvents(t *testing.T) {
	object := `{"metadata":{"name":"}{\\\"]["},"a":[{},{}]}`
	for name, c := range map[string]struct {
		body string
		want []piece
	}{
		"nothing":             {"", nil},
		"only whitespace":     {" \n\t\r\n", nil},
		"one a line":          {event(object) + "\n" + event("{}") + "\n" + event(object) + "\n", []piece{{"ADDED", object}, {"ADDED", "{}"}, {"ADDED", object}}},
		"carriage returns":    {event(object) + "\r\n" + event(object) + "\r\n", []piece{{"ADDED", object}, {"ADDED", object}}},
		"no end of line":      {event(object) + "\n" + event(object), []piece{{"ADDED", object}, {"ADDED", object}}},
		"space at the end":    {event(object) + "\n" + event(object) + "  ", []piece{{"ADDED", object}, {"ADDED", object}}},
		"nothing in between":  {event(object) + event("{}") + event(object), []piece{{"ADDED", object}, {"ADDED", "{}"}, {"ADDED", object}}},
		"indented":            {"{\n \"type\" : \"DELETED\",\n \"object\" : {\n  \"a\" : { }\n }\n}\n{\n\"object\":{},\"type\":\"ERROR\"}", []piece{{"DELETED", "{\n  \"a\" : { }\n }"}, {"ERROR", "{}"}}},
		"indented after line": {event("{}") + "\n{\"type\":\"DELETED\",\n\"object\":{}}\n" + event("{}"), []piece{{"ADDED", "{}"}, {"DELETED", "{}"}, {"ADDED", "{}"}}},
		"another order":       {event("{}") + "\n" + `{"object":{"a":{}},"type":"MODIFIED"}` + "\n" + event("{}") + "\n", []piece{{"ADDED", "{}"}, {"MODIFIED", `{"a":{}}`}, {"ADDED", "{}"}}},
		"unknown member":      {`{"type":"ADDED","x":[{"object":1}],"object":{}}`, []piece{{"ADDED", "{}"}}},
		"unknown type":        {event("{}") + "\n" + `{"type":"NEW","object":{}}` + "\n", []piece{{"ADDED", "{}"}, {"NEW", "{}"}}},
		"escaped type":        {`{"typ\u0065":"\u0041DDED","object":{}}`, []piece{{"ADDED", "{}"}}},
		"no object":           {`{"type":"ADDED"}{"type":"BOOKMARK","object":null}{}`, []piece{{"ADDED", ""}, {"BOOKMARK", ""}, {"", ""}}},
		"object of no object": {event("{}") + "\n" + `{"type":"ADDED","object":[{}]}` + "\n", []piece{{"ADDED", "{}"}, {"ADDED", "[{}]"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range pieces(c.body) {
				got, err := readAll(NewWatch(r, JSON, 0))
				require.NoError(t, err, how)
				assert.Equal(t, c.want, got, how)
			}
		})
	}
}

func TestBodiesThatAreNoJSONEvents(t *testing.T) {
	first := event(`{"a":1}`) + "\n"
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"a page":              {"<html><title>Bad gateway</title></html>", ErrMalformed},
		"an array":            {"[]", ErrMalformed},
		"a type of no string": {first + `{"type":1,"object":{}}`, ErrMalformed},
		"a bad member":        {first + `{"type":"ADDED","x":{]},"object":{}}`, ErrMalformed},
		"no colon":            {first + `{"type" "ADDED"}`, ErrMalformed},
		"no comma":            {first + `{"type":"ADDED" "object":{}}`, ErrMalformed},
		"no name":             {first + `{1:2}`, ErrMalformed},
		"no value":            {first + `{"type":}`, ErrMalformed},
		"a comma too many":    {first + `{"type":"ADDED",}`, ErrMalformed},
		"a cut event":         {first + `{"type":"ADDED","object":{"a":`, ErrTruncated},
		"a cut string":        {first + `{"type":"ADDED","object":{"a":"`, ErrTruncated},
		"a cut line":          {first + first + `{"type":"ADDED","object":{"a":{}}`, ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range pieces(c.body) {
				w := NewWatch(r, JSON, 0)
				got, err := readAll(w)
				require.ErrorIs(t, err, c.want, how)
				assert.Equal(t, strings.Count(c.body, first), len(got), how)
				assert.True(t, strings.HasSuffix(err.Error(), fmt.Sprintf(" at byte %d", len(first)*len(got))), "%s: %v", how, err)
				assert.True(t, strings.HasPrefix(c.body, string(w.Head())) && len(w.Head()) > 0, how)
				_, again := w.Next()
				assert.Equal(t, err, again, how)
			}
		})
	}
}

func TestFramesOverTheLimit(t *testing.T) {
	small, large := `{"a":"`+strings.Repeat("x", 80)+`"}`, `{"a":"`+strings.Repeat("x", 200)+`"}`
	for name, body := range map[string]string{
		"a line":         event(small) + "\n" + event(small) + "\n" + event(large) + "\n" + event(small),
		"no line":        event(small) + event(small) + event(large),
		"without an end": event(small) + event(small) + `{"type":"ADDED","object":` + strings.Repeat("[", 200),
	} {
		for how, r := range pieces(body) {
			got, err := readAll(NewWatch(r, JSON, 150))
			require.ErrorIs(t, err, ErrTooLarge, name, how)
			assert.Len(t, got, 2, name, how)
		}
	}
	large = `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	got, err := readAll(NewWatch(strings.NewReader(event(large)+"\n"+event("{}")), JSON, 0))
	require.NoError(t, err)
	assert.Equal(t, []piece{{"ADDED", large}, {"ADDED", "{}"}}, got)
}

func TestALineThatHoldsSomethingElse(t *testing.T) {
	line := event(`{"a":{}}`) + event(`{"b":{}}`)
	batch, err := NewWatch(strings.NewReader(event("{}")+"\n"+line+"\n"+event("{}")+"\n"), JSON, 0).Next()
	require.NoError(t, err)
	require.Len(t, batch.Frames, 3)
	require.False(t, valid(batch.Frames[1].Object))
	frames, err := batch.Frames[1].Recut()
	require.NoError(t, err)
	require.Len(t, frames, 2)
	assert.Equal(t, []string{`{"a":{}}`, `{"b":{}}`}, []string{string(frames[0].Object), string(frames[1].Object)})

	_, err = frames[0].Recut()
	assert.ErrorIs(t, err, ErrMalformed, "it was looked into already")
	broken := Frame{line: []byte(event(`{"a":{}`)), Object: []byte(`{"a":{}`)}
	_, err = broken.Recut()
	assert.ErrorIs(t, err, ErrTruncated)
}

func TestProtobufEvents(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	status := &metav1.Status{Status: "Failure", Code: 410}
	body := protobufEvent(t, "ADDED", pod) + protobufEvent(t, "NEW", &corev1.Pod{}) + protobufEvent(t, "ERROR", status) +
		frame((&metav1.WatchEvent{Type: "DELETED"}).Marshal())
	podBytes, err := pod.Marshal()
	require.NoError(t, err)
	emptyBytes, err := (&corev1.Pod{}).Marshal()
	require.NoError(t, err)
	statusBytes, err := status.Marshal()
	require.NoError(t, err)
	for how, r := range pieces(body) {
		got, err := readAll(NewWatch(r, Protobuf, 0))
		require.NoError(t, err, how)
		assert.Equal(t, []piece{{"ADDED", string(podBytes)}, {"NEW", string(emptyBytes)}, {"ERROR", string(statusBytes)}, {"DELETED", ""}}, got, how)
	}
	batch, err := NewWatch(strings.NewReader(body), Protobuf, 0).Next()
	require.NoError(t, err)
	assert.Equal(t, "v1 Pod", string(batch.Frames[0].APIVersion)+" "+string(batch.Frames[0].Kind))
	assert.Equal(t, "Status", string(batch.Frames[2].Kind))
	assert.Nil(t, batch.Frames[3].Object)
	assert.NotNil(t, batch.Frames[1].Object)
}

func TestBodiesThatAreNoProtobufEvents(t *testing.T) {
	first := protobufEvent(t, "ADDED", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	encoded, err := (&runtime.Unknown{Raw: []byte("x"), ContentEncoding: "gzip"}).Marshal()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"no envelope":       {first + frame((&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: []byte("{}")}}).Marshal()), ErrMalformed},
		"another encoding":  {first + frame((&metav1.WatchEvent{Object: runtime.RawExtension{Raw: append([]byte(magic), encoded...)}}).Marshal()), ErrMalformed},
		"no message":        {first + frame([]byte{0xff, 0xff}, nil), ErrMalformed},
		"a bad wire type":   {first + frame([]byte{0x0b}, nil), ErrMalformed},
		"no length":         {first + "\x00\x00", ErrTruncated},
		"a cut event":       {first + "\x00\x00\x00\x05abc", ErrTruncated},
		"a length over all": {first + "<htm", ErrTooLarge},
	} {
		for how, r := range pieces(c.body) {
			got, err := readAll(NewWatch(r, Protobuf, 0))
			require.ErrorIs(t, err, c.want, name, how)
			assert.Len(t, got, 1, name, how)
		}
	}
	_, err = NewWatch(io.MultiReader(strings.NewReader("\x00\x10\x00\x00"), neverEnding{}), Protobuf, 1<<10).Next()
	assert.ErrorIs(t, err, ErrTooLarge)
}

type neverEnding struct{}

func (neverEnding) Read(b []byte) (int, error) { return len(b), nil }

// protobufEvent is an event as an API server writes it.
func protobufEvent(t testing.TB, kind string, object runtime.Object) string {
	var raw bytes.Buffer
	gvks, _, err := scheme.Scheme.ObjectKinds(object)
	require.NoError(t, err)
	object = object.DeepCopyObject()
	object.GetObjectKind().SetGroupVersionKind(gvks[0])
	require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &raw))
	return frame((&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw.Bytes()}}).Marshal())
}

func frame(b []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + string(b)
}
