package reflector_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestHostileServerCostsLittleAndChangesNothing(t *testing.T) {
	for _, row := range hostileRows() {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &hostile{row: row}
				limit := row.limit
				if limit == 0 {
					limit = 1 << 20
				}
				config := &rest.Config{Host: "http://apiserver", Transport: server, BearerToken: bearerToken, QPS: -1}
				resource := openedAt[*corev1.ConfigMap](t, config, configMapResource, "default", client.WithMaxObjectBytes(limit), client.WithoutProtobuf())
				before := liveHeap()
				m := followedFrom(t, resource, "7", []*corev1.ConfigMap{heldObject()}, reflector.WithoutWatchList())
				<-time.After(time.Duration(orElse(int64(row.minutes), 10)) * time.Minute)
				assertRow(t, row, server, m)
				assert.LessOrEqual(t, liveHeap()-before, orElse(row.heap, 16<<20), "bytes of live heap")

				server.behave()
				<-time.After(25 * time.Minute)
				if !row.fine {
					assert.Subset(t, m.names(), []string{"kept", "new"}, "after the server behaves again")
				}
				assert.NoError(t, m.of.State().Err)
				m.stop()
			})
		})
	}
}

func heldObject() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept", UID: "uid of kept", ResourceVersion: "7"}}
}

func assertRow(t *testing.T, row hostileRow, server *hostile, m *follower[*corev1.ConfigMap]) {
	t.Helper()
	requests, read, elsewhere := server.measured()
	assert.LessOrEqual(t, requests, int(orElse(int64(row.requests), 120)), "requests")
	assert.LessOrEqual(t, read, orElse(row.bytes, 128<<20), "bytes read")
	assert.Zero(t, elsewhere, "requests to another host")
	assert.Contains(t, m.names(), "kept")
	assertBounded(t, m)
	for _, text := range m.texts() {
		assert.NotContains(t, text, objectBytes)
		assert.NotContains(t, text, bearerToken)
	}
	if row.fine {
		return
	}
	assert.Len(t, m.names(), 1)
	require.NotEmpty(t, m.errors())
	text := m.errors()[0].Error()
	assert.Contains(t, text, row.says)
	if row.local {
		assert.Contains(t, text, "ConfigMap")
	} else {
		assert.Contains(t, text, "http://apiserver/api/v1/namespaces/default/configmaps")
	}
}

func orElse(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// liveHeap returns the bytes that are live after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

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
		{name: "watches that end after one event", verb: "watch", ends: true, local: true, requests: 600, // one a second
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

const (
	bearerToken = "MARK-of-the-token"
	objectBytes = "MARK-of-an-object"
)

// hostile is an API server that answers one verb with what a row says, until it behaves.
type hostile struct {
	row hostileRow

	mu        sync.Mutex // protects the fields below
	behaves   bool
	requests  int
	read      int64 // bytes of bodies
	elsewhere int   // requests to another host
}

// hostileAnswer is an answer to a request, which is the n-th.
type hostileAnswer struct {
	code   int // 200 if it is 0
	header http.Header
	body   func(n int) io.Reader
	paced  bool // a piece of 16 KiB a second, so that what has no end has one in time
	pieces int  // bytes that come at once; 0 is any number
}

func (s *hostile) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if r.URL.Host != "apiserver" {
		s.elsewhere++
	}
	query := r.URL.Query()
	verb := "list"
	if query.Get("watch") != "" {
		verb = "watch"
	}
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
	body := &hostileBody{of: s, done: r.Context().Done(), size: 1 << 20}
	answer.Body = body
	switch {
	case s.requests > mostRequests:
		body.open = true // so that a loop without a pause ends
	case s.behaves && verb == "list":
		body.from = strings.NewReader(jsonList("90", keptObject, jsonObject("new", "90", "")).body)
	case s.behaves:
		body.from, body.open = strings.NewReader(jsonEvent(watch.Added, jsonObject("new", "90", ""))), true
	case verb == s.row.verb:
		a := s.row.answer
		if a.code != 0 {
			answer.StatusCode = a.code
		}
		for name, values := range a.header {
			answer.Header[name] = values
		}
		body.from, body.paced, body.open = a.body(s.requests), a.paced, verb == "watch" && a.code == 0 && !s.row.ends
		if a.pieces > 0 {
			body.size = a.pieces
		}
	case verb == "watch":
		body.from = strings.NewReader(jsonError(errGone))
	default:
		body.from = strings.NewReader(jsonList("80", keptObject).body)
	}
	return answer, nil
}

func (s *hostile) behave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaves = true
}

func (s *hostile) measured() (requests int, read int64, elsewhere int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.read, s.elsewhere
}

// The server stops there: more is a failure of the row.
const (
	mostRequests = 5000
	mostBytes    = 1 << 30
)

type hostileBody struct {
	of    *hostile
	from  io.Reader
	done  <-chan struct{}
	size  int
	paced bool
	open  bool // stays open at its end
}

func (b *hostileBody) Read(into []byte) (int, error) {
	select {
	case <-b.done: // as net/http does it
		return 0, io.ErrClosedPipe
	default:
	}
	if b.paced {
		into = into[:min(len(into), 16<<10)]
		select {
		case <-time.After(time.Second):
		case <-b.done:
			return 0, io.ErrClosedPipe
		}
	}
	n, err := 0, io.EOF
	if b.from != nil {
		n, err = b.from.Read(into[:min(len(into), b.size)])
	}
	b.of.mu.Lock()
	b.of.read += int64(n)
	over := b.of.read > mostBytes
	b.of.mu.Unlock()
	if over {
		return 0, io.ErrUnexpectedEOF
	}
	if err == io.EOF && b.open {
		if n > 0 {
			return n, nil
		}
		<-b.done
		return 0, io.ErrClosedPipe
	}
	return n, err
}

func (b *hostileBody) Close() error { return nil }

// endlessly repeats what piece returns, after a beginning.
func endlessly(beginning string, piece func(i int) string) func(int) io.Reader {
	return func(int) io.Reader {
		return &repeated{rest: beginning, piece: piece}
	}
}

type repeated struct {
	rest  string
	piece func(i int) string
	i     int
}

func (r *repeated) Read(into []byte) (n int, err error) {
	for n < len(into) {
		if r.rest == "" {
			r.rest = r.piece(r.i)
			r.i++
		}
		copied := copy(into[n:], r.rest)
		r.rest = r.rest[copied:]
		n += copied
	}
	return n, nil
}

// text is a body of a text.
func text(s string) func(int) io.Reader {
	return func(int) io.Reader { return strings.NewReader(s) }
}

var keptObject = jsonObject("kept", "7", "")

func markedObject(name, version, data string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":%q,"uid":"uid of %.20s","resourceVersion":%q},"data":{"k":"%s","m":"%s"}}`, name, name, version, objectBytes, data)
}

// stopAfter is more than the 16 MiB at which client-go ends an event in protobuf.
const stopAfter = 20 << 20

// stopping is a server that ends an endless body after some megabytes.
type stopping struct {
	answer    hostileAnswer
	read      int
	elsewhere int
}

func (s *stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: max(s.answer.code, http.StatusOK), Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
	for name, values := range s.answer.header {
		answer.Header[name] = values
	}
	if r.URL.Host != "apiserver" {
		s.elsewhere++
		answer.StatusCode, answer.Body = http.StatusOK, io.NopCloser(strings.NewReader(jsonList("8").body))
		return answer, nil
	}
	answer.Body = &stoppingBody{of: s, from: s.answer.body(1)}
	return answer, nil
}

type stoppingBody struct {
	of   *stopping
	from io.Reader
}

func (b *stoppingBody) Read(into []byte) (int, error) {
	if b.of.read >= stopAfter {
		return 0, errors.New("the server stops here")
	}
	n, err := b.from.Read(into)
	b.of.read += n
	return n, err
}

func (b *stoppingBody) Close() error { return nil }

// What client-go bounds of a server's answers, and what it does not: doc.go has the same table.
func TestGeneratedClientsReadWholeAnswers(t *testing.T) {
	a := func(int) string { return strings.Repeat("a", 4096) }
	zeros := func(int) string { return strings.Repeat("\x00", 4096) }
	for name, tc := range map[string]struct {
		watch   bool
		answer  hostileAnswer
		bounded bool
	}{
		"endless list":              {false, hostileAnswer{body: endlessly(listHead, func(int) string { return keptObject + "," })}, false},
		"endless object in a list":  {false, hostileAnswer{body: endlessly(listHead+`{"data":{"k":"`, a)}, false},
		"endless event in JSON":     {true, hostileAnswer{body: endlessly(`{"type":"ADDED","object":{"data":{"k":"`, a)}, false},
		"endless event in protobuf": {true, hostileAnswer{header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf;stream=watch"}}, body: endlessly("\x7f\xff\xff\xff", zeros)}, true},
		"endless refusal":           {false, hostileAnswer{code: 500, body: endlessly("", a)}, false},
		"gzip bomb":                 {false, hostileAnswer{body: bomb()}, false},
		"redirect to another host":  {false, hostileAnswer{code: 307, header: http.Header{"Location": {"http://elsewhere/"}}, body: text("")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &stopping{answer: tc.answer}
				client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://apiserver", Transport: server, BearerToken: bearerToken, QPS: -1}).CoreV1().ConfigMaps("default")
				if tc.watch {
					w, err := client.Watch(t.Context(), metav1.ListOptions{})
					assert.NoError(t, err)
					for range w.ResultChan() {
						w.Stop()
					}
					synctest.Wait()
				} else {
					_, _ = client.List(t.Context(), metav1.ListOptions{})
				}
				assert.Equal(t, tc.bounded, server.read < stopAfter && server.elsewhere == 0)
			})
		})
	}
}
