package reflector_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

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
