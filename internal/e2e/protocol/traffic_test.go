package protocol

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// kind is what a request of a reflector asks for; kinds can be combined.
type kind uint8

const (
	list      kind = 1 << iota // the first page of a list
	page                       // a later one
	watch                      // changes from a version on
	watchList                  // the state, and then changes
	probe                      // a list of one object, before a broken watch is resumed

	firstState = list | page | watchList
)

var kindNames = map[kind]string{list: "list", page: "page", watch: "watch", watchList: "watch-list", probe: "probe"}

func kindOf(r *http.Request) kind {
	query := r.URL.Query()
	switch {
	case query.Get("watch") == "" && query.Get("limit") == "1":
		return probe
	case query.Get("watch") == "" && query.Get("continue") == "":
		return list
	case query.Get("watch") == "":
		return page
	case query.Get("sendInitialEvents") == "true":
		return watchList
	}
	return watch
}

// traffic is what a reflector and its server say to each other. It is a wrapper of a transport.
type traffic struct {
	mu        sync.Mutex // protects what is below, and all exchanges and pauses
	exchanges []*exchange
	pauses    []*pause
}

// exchange is a request with its answer.
type exchange struct {
	kind   kind
	from   string // the resource version that was asked for
	status int    // of the answer; 0 without one
	code   int    // in the last ERROR event; 0 without one
}

// String is what is read when a count is not the expected one.
func (e exchange) String() string {
	s := kindNames[e.kind]
	if e.from != "" {
		s += " from " + e.from
	}
	switch {
	case e.status == 0:
		return s + ": no answer"
	case e.code != 0:
		return fmt.Sprintf("%s: %d, and %d in an event", s, e.status, e.code)
	}
	return fmt.Sprintf("%s: %d", s, e.status)
}

// expired reports whether the server no longer knew the version, however it said so.
func (e exchange) expired() bool { return cmp.Or(e.code, e.status) == http.StatusGone }

// count counts exchanges.
func (t *traffic) count(which func(exchange) bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.exchanges {
		if which(*e) {
			n++
		}
	}
	return n
}

// answered counts the requests of some kinds that the server did not refuse.
func (t *traffic) answered(kinds kind) int {
	return t.count(func(e exchange) bool { return e.kind&kinds != 0 && e.status == http.StatusOK })
}

// fullLists counts how often the server had to give all objects, or began to.
func (t *traffic) fullLists() int { return t.answered(list | watchList) }

// expired counts how often the server no longer knew a version.
func (t *traffic) expired() int { return t.count(exchange.expired) }

// String says all that happened, in order; what is repeated is counted.
func (t *traffic) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i := 0; i < len(t.exchanges); {
		line, times := t.exchanges[i].String(), 0
		for ; i < len(t.exchanges) && t.exchanges[i].String() == line; i++ {
			times++
		}
		if times > 1 {
			line += fmt.Sprintf(" (%d times)", times)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// pause is a place in the traffic where it stops until the scenario has done what it wants to do just there.
type pause struct {
	kinds  kind
	left   int  // requests or bytes
	inside bool // bytes

	reached chan struct{}
	resumed chan struct{}
	resume  func()
}

// pauseBefore stops before the nth request of some kinds is sent.
func (t *traffic) pauseBefore(nth int, kinds kind) *pause { return t.pause(nth, kinds, false) }

// pauseInside stops when so many bytes have been read of the answers to requests of some kinds.
func (t *traffic) pauseInside(bytes int, kinds kind) *pause { return t.pause(bytes, kinds, true) }

func (t *traffic) pause(left int, kinds kind, inside bool) *pause {
	p := &pause{kinds: kinds, left: left, inside: inside, reached: make(chan struct{}), resumed: make(chan struct{})}
	p.resume = sync.OnceFunc(func() { close(p.resumed) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pauses = append(t.pauses, p)
	return p
}

// step counts, and stops where a pause is reached.
func (t *traffic) step(ctx context.Context, of kind, inside bool, n int) {
	for _, p := range t.reached(of, inside, n) {
		close(p.reached)
		select {
		case <-p.resumed:
		case <-ctx.Done():
		}
	}
}

func (t *traffic) reached(of kind, inside bool, n int) (reached []*pause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pauses {
		if p.kinds&of == 0 || p.inside != inside || p.left <= 0 {
			continue
		}
		if p.left -= n; p.left <= 0 {
			reached = append(reached, p)
		}
	}
	return reached
}

// wrap makes a transport tell the traffic.
func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper { return &transport{t, next} }

type transport struct {
	traffic *traffic
	next    http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &exchange{kind: kindOf(r), from: r.URL.Query().Get("resourceVersion")}
	t.traffic.step(r.Context(), e.kind, false, 1)
	t.traffic.mu.Lock()
	t.traffic.exchanges = append(t.traffic.exchanges, e)
	t.traffic.mu.Unlock()
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.traffic.mu.Lock()
	e.status = response.StatusCode
	t.traffic.mu.Unlock()
	response.Body = &body{ReadCloser: response.Body, ctx: r.Context(), traffic: t.traffic, exchange: e}
	return response, nil
}

// body is that of an answer. It finds the ERROR events in a watch in JSON, one a line.
type body struct {
	io.ReadCloser
	ctx      context.Context
	traffic  *traffic
	exchange *exchange
	line     []byte // the beginning of the line that is being read
}

// longestError is enough for a line with a Status.
const longestError = 4096

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.exchange.kind&(watch|watchList) != 0 {
		b.scan(p[:n])
	}
	b.traffic.step(b.ctx, b.exchange.kind, true, n)
	return n, err
}

func (b *body) scan(news []byte) {
	for len(news) > 0 {
		part, rest, whole := bytes.Cut(news, []byte("\n"))
		b.line = append(b.line, part[:min(len(part), longestError-len(b.line))]...)
		if whole {
			b.event()
			b.line = b.line[:0]
		}
		news = rest
	}
}

func (b *body) event() {
	if !bytes.HasPrefix(b.line, []byte(`{"type":"ERROR"`)) {
		return
	}
	var event struct{ Object struct{ Code int } }
	if err := json.Unmarshal(b.line, &event); err != nil {
		event.Object.Code = -1 // seen in the counts
	}
	b.traffic.mu.Lock()
	defer b.traffic.mu.Unlock()
	b.exchange.code = event.Object.Code
}
