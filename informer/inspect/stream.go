package inspect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// writeTimeout is how long a reader of a stream may take for one event.
const writeTimeout = 10 * time.Second

// serveStream sends what is shown, once in an interval, until the reader goes or the page
// is closed.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request) {
	asJSON := r.URL.Query().Get("as") == "json"
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		event, err := p.event(asJSON)
		if err != nil {
			return
		}
		// A server has a limit for a whole answer, which must not end a stream. Some
		// ResponseWriters have none to set.
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(event); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
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

// event returns a server-sent event with what is shown.
func (p *Page) event(asJSON bool) ([]byte, error) {
	var content bytes.Buffer
	state := p.State()
	var err error
	if asJSON {
		err = json.NewEncoder(&content).Encode(state)
	} else {
		err = templates.ExecuteTemplate(&content, "informers", state)
	}
	if err != nil {
		return nil, err
	}
	var event bytes.Buffer
	for line := range bytes.Lines(content.Bytes()) {
		event.WriteString("data: ")
		event.Write(bytes.TrimRight(line, "\r\n"))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	return event.Bytes(), nil
}
