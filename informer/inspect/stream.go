package inspect

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// writeTimeout is how long a reader of a stream may take for one event.
const writeTimeout = 10 * time.Second

// view is the state at one time. Its events are encoded once for all streams.
type view struct {
	state      State
	html, json func() ([]byte, error)
}

func newView(s State) *view {
	return &view{
		state: s,
		html: sync.OnceValues(func() ([]byte, error) {
			var content bytes.Buffer
			err := templates.ExecuteTemplate(&content, "informers", s)
			return event(content.Bytes()), err
		}),
		json: sync.OnceValues(func() ([]byte, error) {
			content, err := json.Marshal(s)
			return event(content), err
		}),
	}
}

// serveStream sends the view once in each interval, until the reader disconnects or the page is
// closed.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // a client that has the header takes the connection for free
	}
	asJSON := r.URL.Query().Get("as") == "json"
	out := http.NewResponseController(w)
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		seen := p.look()
		made := seen.html
		if asJSON {
			made = seen.json
		}
		event, err := made()
		if err != nil {
			return
		}
		if !send(out, w, event) {
			return
		}
		select {
		case <-ticker.C:
		case <-p.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// send writes an event, and reports success. A server's write timeout covers a whole response and
// must not end a stream. With HTTP/2 it may also pass between events. Some ResponseWriters do not
// support deadlines.
func send(out *http.ResponseController, w io.Writer, event []byte) bool {
	_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(event); err != nil {
		return false
	}
	if err := out.Flush(); err != nil {
		return false
	}
	_ = out.SetWriteDeadline(time.Time{})
	return true
}

// event returns a server-sent event. A carriage return also ends its line, and errors may contain
// some.
func event(content []byte) []byte {
	content = bytes.ReplaceAll(content, []byte("\r"), []byte(" "))
	var event bytes.Buffer
	for line := range bytes.Lines(content) {
		event.WriteString("data: ")
		event.Write(bytes.TrimRight(line, "\n"))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	return event.Bytes()
}
