package reflector_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// hostileRow is something that an API server, or what stands in its place, may do.
type hostileRow struct {
	name   string
	verb   string // "list" or "watch"
	answer hostileAnswer
	limit  int    // of a frame; 1 MiB if it is 0
	says   string // in the first error
	local  bool   // the protocol finds the error, and does not name the server
	ends   bool   // the watch ends after its body
	fine   bool   // it is no failure
	// minutes is how long the server does it: 10 if it is 0.
	minutes int

	// Bounds.
	requests int   // 120 if it is 0
	bytes    int64 // 128 MiB if it is 0
	heap     int64 // 16 MiB if it is 0
}

var errGone = apierrors.NewResourceExpired("too old")

const (
	big      = 2 << 20
	listHead = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"80"},"items":[`
)

func status(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
}

func refusal(code int, header http.Header, body string) hostileAnswer {
	return hostileAnswer{code: code, header: header, body: text(body)}
}

func eventOf(kind watch.EventType, object string) hostileAnswer {
	return hostileAnswer{body: text(jsonEvent(kind, object))}
}

func listed(items ...string) hostileAnswer {
	return hostileAnswer{body: text(listHead + strings.Join(items, ",") + "]}")}
}

// bomb is the body of a list whose one object is compressed a thousandfold.
func bomb() func(int) io.Reader {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, listHead+`{"data":{"k":"`)
	for range 64 {
		_, _ = w.Write(bytes.Repeat([]byte("a"), 1<<20))
	}
	_ = w.Close()
	return func(int) io.Reader {
		r, _ := gzip.NewReader(bytes.NewReader(packed.Bytes())) // as net/http unpacks it
		return r
	}
}

func pages(token func(n int) string) func(int) io.Reader {
	return func(n int) io.Reader {
		object := markedObject(fmt.Sprint("p", n), "8", "")
		return strings.NewReader(fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"80","continue":%q},"items":[%s]}`, token(n), object))
	}
}

func hostileRows() []hostileRow {
	newItem := func(i int) string { return markedObject(fmt.Sprint("n", i), "8", "") + "," }
	spaces := func(int) string { return strings.Repeat(" ", 4096) }
	a := func(int) string { return strings.Repeat("a", 4096) }
	long := strings.Repeat("é", big/2)
	retry := http.Header{"Retry-After": {"1000000000"}}
	return []hostileRow{
		{name: "endless list", verb: "list", answer: hostileAnswer{body: endlessly(listHead, newItem), paced: true}, local: true, minutes: 11, heap: 32 << 20},
		{name: "endless object in a list", verb: "list", answer: hostileAnswer{body: endlessly(listHead+`{"data":{"k":"`, a)}, says: "size limit"},
		{name: "endless object in a watch", verb: "watch", answer: hostileAnswer{body: endlessly(`{"type":"ADDED","object":{"data":{"k":"`, a)}, says: "size limit"},
		{name: "endless refusal of a list", verb: "list", answer: hostileAnswer{code: 500, body: endlessly("", a)}, says: "500"},
		{name: "endless refusal of a watch", verb: "watch", answer: hostileAnswer{code: 500, header: http.Header{"Content-Type": {"text/plain"}}, body: endlessly("", a)}, says: "500"},
		{name: "endless whitespace in a list", verb: "list", answer: hostileAnswer{body: endlessly("", spaces), paced: true}, local: true},
		{name: "endless whitespace in a watch", verb: "watch", answer: hostileAnswer{body: endlessly("", spaces), paced: true}, fine: true},
		{name: "gzip bomb", verb: "list", answer: hostileAnswer{body: bomb()}, says: "size limit"},
		{name: "a million brackets in a list", verb: "list", answer: listed(keptObject, `{"metadata":{"name":"b","namespace":"default"},"data":`+strings.Repeat("[", 1e6)+strings.Repeat("]", 1e6)+"}"), limit: 4 << 20, local: true, bytes: 128 << 20, minutes: 1},
		{name: "redirect of a list", verb: "list", answer: refusal(307, http.Header{"Location": {"http://elsewhere/"}}, ""), says: "another server, http://elsewhere"},
		{name: "redirect of a watch", verb: "watch", answer: refusal(308, http.Header{"Location": {"https://apiserver/"}}, ""), says: "another server, https://apiserver"},
		{name: "ever-new continue tokens", verb: "list", answer: hostileAnswer{body: pages(func(n int) string { return fmt.Sprint("t", n) }), paced: true}, local: true, minutes: 31, heap: 64 << 20, requests: 4000},
		{name: "repeated continue token", verb: "list", answer: hostileAnswer{body: pages(func(int) string { return "same" })}, says: "continue token", local: true, requests: 120},
		{name: "watches that end after one event", verb: "watch", ends: true, local: true, requests: 120,
			answer: hostileAnswer{body: func(n int) io.Reader {
				return strings.NewReader(jsonEvent(watch.Modified, jsonObject("kept", fmt.Sprint(8+n), "")))
			}}, fine: true},
		{name: "long message of a refusal", verb: "list", answer: refusal(403, nil, status(403, "Forbidden", long)), minutes: 1, says: "403"},
		{name: "long message of an event", verb: "watch", answer: eventOf(watch.Error, status(500, "InternalError", long)), limit: 4 << 20, says: "éé", bytes: 32 << 20, minutes: 1},
		{name: "long version of a list", verb: "list", answer: hostileAnswer{body: text(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"` + long + `"},"items":[]}`)}, limit: 4 << 20, says: "resource version has", bytes: 32 << 20, minutes: 1},
		{name: "long version of an object", verb: "watch", answer: eventOf(watch.Added, jsonObject("b", long, "")), limit: 4 << 20, says: "resource version has", bytes: 32 << 20, minutes: 1},
		{name: "long name of what does not fit", verb: "list", answer: listed(keptObject, `{"metadata":{"namespace":"default","name":"`+long+`"},"data":7}`), limit: 4 << 20, local: true, bytes: 32 << 20, minutes: 1, heap: 24 << 20},
		{name: "another kind", verb: "list", answer: listed(keptObject, objectOf("v1", "Secret", "default", "b")), says: "kind"},
		{name: "another group", verb: "watch", answer: eventOf(watch.Added, objectOf("example.com/v1", "ConfigMap", "default", "b")), says: "API group"},
		{name: "another namespace", verb: "watch", answer: eventOf(watch.Deleted, objectOf("v1", "ConfigMap", "other", "kept")), says: "namespace"},
		{name: "versions that go back", verb: "watch", answer: eventOf(watch.Bookmark, jsonObject("", "3", "")), says: "restored from a backup", local: true},
		{name: "empty version of a list", verb: "list", answer: hostileAnswer{body: text(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`)}, says: "no resource version", local: true},
		{name: "versions that are no numbers", verb: "watch", answer: eventOf(watch.Added, jsonObject("kept", "x-y", "")), fine: true},
		{name: "Retry-After of decades, 429", verb: "list", answer: refusal(429, retry, status(429, "TooManyRequests", "later")), says: "429"},
		{name: "Retry-After of decades, 503", verb: "watch", answer: refusal(503, retry, "later"), says: "503"},
		{name: "401 for ever", verb: "list", answer: refusal(401, nil, status(401, "Unauthorized", "who are you")), says: "who are you"},
		{name: "403 for ever", verb: "watch", answer: refusal(403, nil, status(403, "Forbidden", "not for you")), says: "not for you", requests: 120},
		{name: "pieces of 256 bytes", verb: "list", answer: hostileAnswer{body: text(listHead + keptObject + "," + markedObject("b", "8", strings.Repeat("9", 512<<10)) + "]}"), pieces: 256}, fine: true},
	}
}
