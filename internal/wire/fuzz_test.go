package wire

import (
	"bytes"
	gojson "encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// arriving is a body in pieces whose sizes come from the body.
func arriving(body []byte) io.Reader {
	if len(body) > 0 && body[len(body)-1]%2 == 0 {
		return iotest.OneByteReader(bytes.NewReader(body))
	}
	return bytes.NewReader(body)
}

func FuzzJSONEvents(f *testing.F) {
	for _, seed := range []string{
		"", " ", event("{}"), event(`{"a":"\""}`) + "\n" + event(`{"b":[{}]}`) + "\n", event("{}") + event("{}"),
		event("{}") + "\n" + event("{}") + event("{}") + "\n", event("{}") + "\n{\"object\":{},\n\"type\":\"ERROR\"}", "<html>",
		event("{}") + "\n" + `{"type":"ADDED","object":{}},"x":{}}` + "\n", `{"object":A,"object":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want []piece
		decoder := gojson.NewDecoder(bytes.NewReader(body))
		var bad error
		for {
			var raw gojson.RawMessage
			if bad = decoder.Decode(&raw); bad != nil {
				break
			}
			var e struct {
				Type   string
				Object gojson.RawMessage
			}
			if bad = utiljson.Unmarshal(raw, &struct {
				Type   *string            `json:"type"`
				Object *gojson.RawMessage `json:"object"`
			}{&e.Type, &e.Object}); bad != nil || raw[0] != '{' {
				return // not what either takes
			}
			if string(e.Object) == "null" {
				e.Object = nil
			}
			want = append(want, piece{e.Type, string(e.Object)})
		}
		watch := NewWatch(arriving(body), JSON, 1<<20)
		var got []piece
		var failure error
		for failure == nil {
			var batch *Batch
			if batch, failure = watch.Next(); failure != nil {
				break
			}
			for _, frame := range batch.Frames {
				frames := []Frame{frame}
				if frame.Object != nil && !valid(frame.Object) {
					if frames, failure = frame.Recut(); failure != nil {
						break
					}
				}
				for _, frame := range frames {
					if frame.Object != nil && !valid(frame.Object) {
						failure = ErrMalformed
						break
					}
					got = append(got, piece{frame.Type, string(frame.Object)})
				}
			}
		}
		if bad == io.EOF && failure == io.EOF {
			require.Equal(t, want, got)
			return
		}
		if bad == io.EOF {
			// A line that ends like an event and is none is not put together again.
			require.Contains(t, string(body), "}}")
			return
		}
		require.NotEqual(t, io.EOF, failure, "what is no JSON was taken")
	})
}

func FuzzJSONItems(f *testing.F) {
	for _, seed := range []string{
		`{"items":[]}`, `{"kind":"PodList","metadata":{"resourceVersion":"5","remainingItemCount":1},"items":[{"a":"]"},{"b":{}}]}`,
		`{"items":[{},{}],"metadata":{"continue":"x"}}`, `{"items":null}`, `{"items":[1,"a",null]}`, "{", `{"items":[{"a":1},`, `{"\u0069tems":[{}]}`, `{"kind":"Pod"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list := NewList(arriving(body), JSON, 1<<20)
		got, failure := readAll(list)
		for _, item := range got {
			if !valid([]byte(item.Object)) {
				return // its decoder refuses it
			}
		}
		var want struct {
			metav1.TypeMeta `json:",inline"`
			metav1.ListMeta `json:"metadata"`
			Items           []gojson.RawMessage `json:"items"`
		}
		bad := utiljson.Unmarshal(body, &want)
		if failure != nil {
			meta := ListMeta{TypeMeta: want.TypeMeta}
			if bad == nil && len(body) > 0 && body[0] == '{' && (want.Items != nil || meta.notList() == nil) {
				require.False(t, jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)), "only repeated names are refused: %v", failure)
			}
			return
		}
		require.NoError(t, bad)
		if !jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)) {
			return // it repeats a name
		}
		require.Equal(t, len(want.Items), len(got))
		for i := range got {
			require.Equal(t, string(want.Items[i]), got[i].Object)
		}
		require.Equal(t, ListMeta{TypeMeta: want.TypeMeta, ListMeta: want.ListMeta}, list.Meta())
	})
}

func FuzzProtobufEvents(f *testing.F) {
	f.Add([]byte(protobufEvent(f, "ADDED", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}})))
	f.Add([]byte(protobufEvent(f, "ERROR", &metav1.Status{Code: 410}) + protobufEvent(f, "BOOKMARK", &corev1.Pod{})))
	f.Add([]byte("\x00\x00\x00\x02\x0a\x00"))
	enveloped, err := (&runtime.Unknown{Raw: []byte(protobufEvent(f, "ADDED", &corev1.Pod{}))[4:]}).Marshal()
	require.NoError(f, err)
	for _, message := range []string{"k8s\x00" + string(enveloped), "k8s\x00", "k8s\x00\x0a\x01A"} {
		f.Add([]byte("\x00\x00\x00" + string(rune(len(message))) + message))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, failure := readAll(NewWatch(arriving(body), Protobuf, 1<<16))
		rest := body
		for _, g := range got {
			size := int(uint32(rest[0])<<24 | uint32(rest[1])<<16 | uint32(rest[2])<<8 | uint32(rest[3]))
			message := rest[4 : 4+size]
			if bytes.HasPrefix(message, magic) {
				e, err := openEnvelope(message)
				require.NoError(t, err)
				message = e.raw // without it, the envelope could pass for an event
			}
			var want metav1.WatchEvent
			if want.Unmarshal(message) == nil {
				require.Equal(t, want.Type, g.Type)
				if len(want.Object.Raw) > 0 {
					require.Contains(t, string(want.Object.Raw), g.Object)
				}
			}
			rest = rest[4+size:]
		}
		require.True(t, failure != nil || len(rest) == 0)
	})
}

func FuzzProtobufItems(f *testing.F) {
	f.Add([]byte(protobufList(f, &corev1.PodList{})))
	f.Add([]byte(protobufList(f, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Pod{{}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}}}})))
	f.Add([]byte("k8s\x00\x12\x04\x12\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		list := NewList(arriving(body), Protobuf, 1<<16)
		got, failure := readAll(list)
		if failure != nil {
			return
		}
		e, err := openEnvelope(body)
		require.NoError(t, err)
		var want []string
		require.NoError(t, fields(e.raw, func(f Field) error {
			if f.Number == 2 {
				want = append(want, string(f.Value))
			}
			return nil
		}))
		require.Equal(t, want, objects(got))
	})
}

func FuzzPeek(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"5"}}`,
		`{"kind":"Pod","metadata":{"labels":{"uid":"x"},"uid":"u","resourceVersion":"5","name":"n"},"spec":{}}`,
		`{"metadata":{"name":"\u006e","uid":"u","resourceVersion":"5"}}`,
		`{"a":[{"metadata":{}}], "metadata" : {"uid":"u" , "name":"n","resourceVersion":"5","managedFields":[{"fieldsV1":{"f:a":{}}}]} }`,
	} {
		f.Add([]byte(seed))
		var object metav1.PartialObjectMetadata
		require.NoError(f, gojson.Unmarshal([]byte(seed), &object))
		binary, err := object.Marshal()
		require.NoError(f, err)
		f.Add(binary)
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		check := func(id Identity, want metav1.ObjectMeta) {
			require.Equal(t, want.Name, string(id.Name))
			require.Equal(t, want.Namespace, string(id.Namespace))
			require.Equal(t, string(want.UID), string(id.UID))
			require.Equal(t, want.ResourceVersion, string(id.ResourceVersion))
		}
		var want metav1.PartialObjectMetadata
		once := jsontext.Value(object).IsValid(jsontext.AllowInvalidUTF8(true)) // no name is repeated
		if id, ok := Peek(JSON, object); ok && once && utiljson.Unmarshal(object, &want) == nil {
			check(id, want.ObjectMeta)
		}
		want = metav1.PartialObjectMetadata{}
		if id, ok := Peek(Protobuf, object); ok && want.Unmarshal(object) == nil {
			check(id, want.ObjectMeta)
		}
	})
}

func TestLongStringsOfBackslashes(t *testing.T) {
	object := `{"a":"` + strings.Repeat(`\\`, 1<<20) + `"}`
	got, err := readAll(NewWatch(strings.NewReader(event(object)), JSON, 0))
	require.NoError(t, err)
	require.Equal(t, object, got[0].Object)
}
