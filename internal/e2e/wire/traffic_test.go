package wire

import (
	"net/http"
	"strings"
	"sync"
)

// traffic is what the answers to a mirror's requests were. It is a wrapper of a transport.
type traffic struct {
	mu      sync.Mutex // protects what is below
	lists   int        // full ones, which were lists
	streams int        // full ones, which were watches that begin with the state
	media   map[string]int
}

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper { return transport{t, next} }

type transport struct {
	traffic *traffic
	next    http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK {
		t.traffic.note(r, response)
	}
	return response, err
}

func (t *traffic) note(r *http.Request, response *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.media == nil {
		t.media = map[string]int{}
	}
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	t.media[media]++
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") == "true":
		t.streams++
	case query.Get("watch") == "" && query.Get("continue") == "":
		t.lists++
	}
}

// full returns how often the server gave the whole state as a list, and as a watch.
func (t *traffic) full() (lists, streams int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lists, t.streams
}

// spoken returns the content types of all answers.
func (t *traffic) spoken() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for media := range t.media {
		all = append(all, media)
	}
	return all
}
