package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// canned is an object as the server sends it. Its resource version is written over when it is sent: that is all in which a changed object differs, so
// that sending costs the server nothing but copying.
type canned struct {
	data    []byte
	version int // where the resource version begins in data
}

// FirstVersion is the resource version of the first object, and versionDigits how long all are.
const (
	FirstVersion  = 10_000_000
	versionDigits = 8
)

// can cans an object's bytes, in which its resource version is the given one.
func can(data []byte, version string) (canned, error) {
	at := bytes.Index(data, []byte(version))
	if at < 0 || len(version) != versionDigits || bytes.Count(data, []byte(version)) != 1 {
		return canned{}, fmt.Errorf("resource version %s must be once in an object", version)
	}
	return canned{data, at}, nil
}

// set is objects of one resource in one format.
type set struct {
	format  Format
	kind    metav1.TypeMeta
	objects []canned
	// skip is what of an object is left out in a list: lists of built-in types do not say the kind in each item.
	skip int
}

// Format is a content type.
type Format string

const (
	InJSON     Format = "application/json"
	InProtobuf Format = "application/vnd.kubernetes.protobuf"
)

// appendObject appends an object without its first bytes, with a version of its own.
func (s *set) appendObject(b []byte, i, from, version int) []byte {
	o := s.objects[i]
	start := len(b)
	b = append(b, o.data[from:]...)
	strconv.AppendInt(b[:start+o.version-from], int64(version), 10) // in its place
	return b
}

const magic = "k8s\x00"

// appendEvent appends an event with the object of a number.
func (s *set) appendEvent(b []byte, event string, i, version int) []byte {
	if s.format == InJSON {
		b = append(b, `{"type":"`...)
		b = append(b, event...)
		b = append(b, `","object":`...)
		return append(s.appendObject(b, i, 0, version), "}\n"...)
	}
	b = appendEnvelope(b, event, s.kind, len(s.objects[i].data))
	return append(s.appendObject(b, i, 0, version), envelopeEnd...)
}

// appendOther appends an event with an object that is in no set.
func (s *set) appendOther(b []byte, event string, kind metav1.TypeMeta, object message) ([]byte, error) {
	if s.format == InJSON {
		text, err := json.Marshal(map[string]any{"type": event, "object": object})
		return append(append(b, text...), '\n'), err
	}
	data, err := object.Marshal()
	return append(append(appendEnvelope(b, event, kind, len(data)), data...), envelopeEnd...), err
}

type message interface{ Marshal() ([]byte, error) }

// The fields of protobuf messages that hold bytes: their numbers and their wire type.
const (
	field1 = 1<<3 | 2
	field2 = 2<<3 | 2
)

// envelopeEnd is the encoding and the content type of a runtime.Unknown, both empty.
const envelopeEnd = "\x1a\x00\x22\x00"

// appendEnvelope appends all of an event that is before an object of so many bytes: the frame's length, the WatchEvent, its RawExtension and the
// runtime.Unknown in there.
func appendEnvelope(b []byte, event string, kind metav1.TypeMeta, size int) []byte {
	unknown := appendUnknown(nil, kind, size)
	unknownSize := len(unknown) + size + len(envelopeEnd)
	raw := binary.AppendUvarint([]byte{field1}, uint64(unknownSize))
	head := appendText(nil, field1, event)
	head = append(head, field2)
	head = binary.AppendUvarint(head, uint64(len(raw)+unknownSize))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)+len(raw)+unknownSize))
	return append(append(append(b, head...), raw...), unknown...)
}

// appendUnknown appends a runtime.Unknown up to its object.
func appendUnknown(b []byte, kind metav1.TypeMeta, size int) []byte {
	b = append(b, magic...)
	types := appendText(appendText(nil, field1, kind.APIVersion), field2, kind.Kind)
	b = appendText(b, field1, string(types))
	b = append(b, field2)
	return binary.AppendUvarint(b, uint64(size))
}

func appendText(b []byte, field byte, text string) []byte {
	b = append(b, field)
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// listHead returns all of a list that is before its items.
func (s *set) listHead(version int) []byte {
	kind := metav1.TypeMeta{APIVersion: s.kind.APIVersion, Kind: s.kind.Kind + "List"}
	if s.format == InJSON {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kind.Kind, kind.APIVersion, version)
	}
	meta := appendText(nil, field1, string(appendText(nil, field2, strconv.Itoa(version))))
	size := len(meta)
	for i := range s.objects {
		size += len(s.appendItemHead(nil, i)) + len(s.objects[i].data)
	}
	return append(appendUnknown(nil, kind, size), meta...)
}

// appendItemHead appends the bytes before an item of a list.
func (s *set) appendItemHead(b []byte, i int) []byte {
	if s.format == InProtobuf {
		return binary.AppendUvarint(append(b, field2), uint64(len(s.objects[i].data)))
	}
	if i > 0 {
		b = append(b, ',')
	}
	if s.skip > 0 {
		b = append(b, '{')
	}
	return b
}

// appendItem appends an item of a list.
func (s *set) appendItem(b []byte, i, version int) []byte {
	return s.appendObject(s.appendItemHead(b, i), i, s.skip, version)
}

// listEnd returns the bytes behind the items of a list.
func (s *set) listEnd() string {
	if s.format == InProtobuf {
		return envelopeEnd
	}
	return "]}\n"
}
