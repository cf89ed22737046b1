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

// view is what was seen at one time. Its events are made once for all streams.
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

// serveStream sends what is shown, once in an interval, until the reader goes or the page
// is closed.
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

// send writes an event, and reports whether it could. A server has a limit for a whole
// answer, which must not end a stream, and with HTTP/2 one that passes between events would
// as well. Some ResponseWriters have none to set.
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

// event returns a server-sent event. A carriage return ends a line of it too, and errors
// may have some.
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
