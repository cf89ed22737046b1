package reflectortest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
)

var partialKind = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}

// An encoding is the format of a response: the negotiated media type, and whether the client wants
// only metadata. apimachinery encodes the objects (see record). This package writes the envelopes
// around them, so that each object is encoded once for all lists and watches.
type encoding struct {
	protobuf bool
	partial  bool
}

// negotiate picks the first acceptable media type. list means that the answer is a list, which has
// another name for "metadata only".
func negotiate(r *http.Request, res *resource, list bool) (encoding, error) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		return encoding{}, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil {
			continue
		}
		e := encoding{protobuf: media == mediaProtobuf}
		if !e.protobuf && media != mediaJSON && media != "application/*" && media != "*/*" {
			continue
		}
		if as := params["as"]; as != "" {
			if !strings.HasPrefix(as, partialKind.Kind) || params["g"] != metav1.GroupName || params["v"] != "v1" {
				continue
			}
			if err := checkPartial(as, res, list); err != nil {
				return encoding{}, err
			}
			e.partial = true
		}
		if e.protobuf && !e.partial && res != nil && !res.typed {
			continue // a registered type has no protobuf form
		}
		return e, nil
	}
	return encoding{}, errNotAcceptable()
}

func checkPartial(as string, res *resource, list bool) error {
	if res == nil || list == (as == partialKind.Kind+"List") {
		return nil
	}
	if list {
		return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%sList)", res.Kind))
	}
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", res.Kind))
}

func (e encoding) contentType(watching bool) string {
	switch {
	case e.protobuf && watching:
		return mediaProtobuf + ";stream=watch"
	case e.protobuf:
		return mediaProtobuf
	default:
		return mediaJSON
	}
}

func (e encoding) form() form {
	switch {
	case e.protobuf && e.partial:
		return formPartialProtobuf
	case e.protobuf:
		return formProtobuf
	case e.partial:
		return formPartialJSON
	default:
		return formJSON
	}
}

// kind returns the kind of an object, or of a list of objects, in this encoding.
func (e encoding) kind(r *resource) metav1.TypeMeta {
	if e.partial {
		return partialKind
	}
	return metav1.TypeMeta{Kind: r.Kind, APIVersion: r.apiVersion()}
}

// appendObject appends a record as a document of its own.
func (e encoding) appendObject(dst []byte, rec *record) []byte {
	body := rec.body(e.form())
	kind := e.kind(rec.resource)
	switch {
	case e.protobuf:
		dst = append(dst, unknownHead(kind, len(body))...)
		dst = append(dst, body...)
		return append(dst, unknownTail...)
	case e.partial || !rec.resource.typed:
		return append(dst, body...) // the body contains its kind
	default:
		dst = append(dst, typedHead(kind)...)
		return append(dst, body[1:]...)
	}
}

// appendStatus appends a Status as a document of its own.
func (e encoding) appendStatus(dst []byte, status *metav1.Status) []byte {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if !e.protobuf {
		b, err := json.Marshal(status)
		if err != nil {
			panic("reflectortest: a Status does not encode: " + err.Error())
		}
		return append(dst, b...)
	}
	b, err := status.Marshal()
	if err != nil {
		panic("reflectortest: a Status does not encode: " + err.Error())
	}
	dst = append(dst, unknownHead(status.TypeMeta, len(b))...)
	dst = append(dst, b...)
	return append(dst, unknownTail...)
}

// appendEvent appends a watch event as a frame of the stream around the
// document that doc appends.
func (e encoding) appendEvent(dst []byte, event watch.EventType, doc func([]byte) []byte) []byte {
	if !e.protobuf {
		dst = append(dst, `{"type":"`...)
		dst = append(dst, event...)
		dst = append(dst, `","object":`...)
		dst = doc(dst)
		return append(dst, "}\n"...)
	}
	// The document's length comes first, so the document is made first.
	raw := doc(nil)
	extension := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(raw)))...)
	head := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(event)))...)
	head = append(head, event...)
	head = append(head, 0x12)
	head = binary.AppendUvarint(head, uint64(len(extension)+len(raw)))
	head = append(head, extension...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)+len(raw)))
	dst = append(dst, head...)
	return append(dst, raw...)
}

// A listEnvelope has the bytes before, between and after the items of a list.
type listEnvelope struct {
	head, tail []byte
	encoding   encoding
	count      int // items appended so far
}

// newListEnvelope prepares a list of items whose bodies, in protobuf, are
// size bytes together with their headers.
func (e encoding) newListEnvelope(r *resource, meta metav1.ListMeta, size int) (*listEnvelope, error) {
	kind := e.kind(r)
	kind.Kind += "List"
	env := &listEnvelope{encoding: e}
	if e.protobuf {
		m, err := meta.Marshal()
		if err != nil {
			return nil, err
		}
		list := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(m)))...)
		list = append(list, m...)
		env.head = append(unknownHead(kind, len(list)+size), list...)
		env.tail = unknownTail
		return env, nil
	}
	m, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	if r.typed || e.partial {
		env.head = append(typedHead(kind), fmt.Sprintf(`"metadata":%s,"items":[`, m)...)
		env.tail = []byte("]}\n")
		return env, nil
	}
	// In the real server, a list of custom resources is a map, written in the order of its keys,
	// and its continue token is never absent.
	fields := map[string]any{"continue": meta.Continue, "resourceVersion": meta.ResourceVersion}
	if meta.RemainingItemCount != nil {
		fields["remainingItemCount"] = *meta.RemainingItemCount
	}
	if m, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	env.head = fmt.Appendf(nil, `{"apiVersion":%q,"items":[`, kind.APIVersion)
	env.tail = fmt.Appendf(nil, `],"kind":%q,"metadata":%s}`+"\n", kind.Kind, m)
	return env, nil
}

// appendItem appends a record as the next item.
func (env *listEnvelope) appendItem(dst []byte, rec *record) []byte {
	body := rec.body(env.encoding.form())
	if env.encoding.protobuf {
		dst = append(dst, 0x12)
		dst = binary.AppendUvarint(dst, uint64(len(body)))
	} else if env.count > 0 {
		dst = append(dst, ',')
	}
	env.count++
	return append(dst, body...)
}

// itemSize is the number of bytes that appendItem appends in protobuf.
func (e encoding) itemSize(rec *record) int {
	n := len(rec.body(e.form()))
	return 1 + len(binary.AppendUvarint(nil, uint64(n))) + n
}

// typedHead opens the JSON object of a built-in type; its first field follows.
func typedHead(kind metav1.TypeMeta) []byte {
	return []byte(`{"kind":` + strconv.Quote(kind.Kind) + `,"apiVersion":` + strconv.Quote(kind.APIVersion) + `,`)
}

// unknownTail closes a runtime.Unknown: empty contentEncoding and contentType.
var unknownTail = []byte{0x1a, 0x00, 0x22, 0x00}

// unknownHead opens the protobuf document of apimachinery: its magic number and
// a runtime.Unknown with n bytes of object to follow.
func unknownHead(kind metav1.TypeMeta, n int) []byte {
	meta := runtime.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind}
	m, err := meta.Marshal()
	if err != nil {
		panic("reflectortest: a TypeMeta does not encode: " + err.Error())
	}
	b := append([]byte("k8s\x00\x0a"), binary.AppendUvarint(nil, uint64(len(m)))...)
	b = append(b, m...)
	b = append(b, 0x12)
	return binary.AppendUvarint(b, uint64(n))
}
