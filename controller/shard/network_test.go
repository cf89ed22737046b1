package shard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// host is the machine of a member: its network and its clock, both of which go wrong.
type host struct {
	next  http.RoundTripper
	start time.Time
	rate  float64 // of its clock

	// mu protects the fields below it.
	mu      sync.Mutex
	random  *rand.Rand
	changed chan struct{} // closed by the next change of what follows
	cut     bool          // nothing goes through
	paused  bool          // nothing happens
	rough   bool          // each request may go wrong
	fading  bool          // one more answer arrives, late
	healed  int           // how often all was well again
	late    sync.WaitGroup
	end     chan struct{} // closed at the end
}

func newHost(random *rand.Rand, rate float64) *host {
	return &host{start: time.Now(), rate: rate, random: random, changed: make(chan struct{}), end: make(chan struct{})}
}

func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// wait waits while something holds.
func (h *host) wait(done <-chan struct{}, while func() bool) error {
	for {
		h.mu.Lock()
		holds, changed := while(), h.changed
		h.mu.Unlock()
		if !holds {
			return nil
		}
		select {
		case <-changed:
		case <-done:
			return errors.New("given up")
		}
	}
}

func (h *host) stuck() bool  { return h.cut || h.paused }
func (h *host) asleep() bool { return h.paused }

// now implements clock. Nobody gets past it while the machine is paused.
func (h *host) now() time.Time {
	_ = h.wait(nil, h.asleep)
	return h.start.Add(time.Duration(float64(time.Since(h.start)) * h.rate))
}

// after implements clock.
func (h *host) after(d time.Duration, f func()) func() {
	timer := time.AfterFunc(time.Duration(float64(d)/h.rate)+1, func() { // never too early
		_ = h.wait(nil, h.asleep)
		f()
	})
	return func() { timer.Stop() }
}

// What may become of a request.
const (
	fine = iota
	lostRequest
	lostAnswer
	lateRequest // it arrives when nobody waits for it any more
	lateAnswer
	refused
	fates
	lastAnswer // nothing goes through after it
)

func (h *host) fate() (fate int, delay time.Duration, healed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fading {
		h.fading = false
		return lastAnswer, 3500 * time.Millisecond, h.healed
	}
	if !h.rough || h.random.IntN(2) == 0 {
		return fine, 0, h.healed
	}
	return h.random.IntN(fates), time.Duration(h.random.IntN(12000)) * time.Millisecond, h.healed
}

// RoundTrip implements [http.RoundTripper].
func (h *host) RoundTrip(request *http.Request) (*http.Response, error) {
	gone := request.Context().Done()
	if err := h.wait(gone, h.stuck); err != nil {
		return nil, err
	}
	if request.URL.Query().Get("watch") != "" {
		response, err := h.next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		response.Body = &slowBody{ReadCloser: response.Body, host: h, done: gone}
		return response, nil
	}
	fate, delay, healed := h.fate()
	switch fate {
	case lostRequest:
		<-gone
		return nil, request.Context().Err()
	case refused:
		return nil, errors.New("connection refused")
	case lateRequest:
		return h.sendLate(request, delay)
	}
	response, err := h.send(request)
	if err != nil {
		return nil, err
	}
	switch fate {
	case lostAnswer:
		<-gone
		return nil, request.Context().Err()
	case lateAnswer, lastAnswer:
		select {
		case <-time.After(delay):
		case <-gone:
			return nil, request.Context().Err()
		}
	}
	if fate == lastAnswer {
		h.set(func() { h.cut = h.cut || healed == h.healed })
		return response, nil
	}
	if err := h.wait(gone, h.stuck); err != nil { // the answer does not arrive
		return nil, err
	}
	return response, nil
}

// send sends a request and reads the answer, whatever becomes of who asked.
func (h *host) send(request *http.Request) (*http.Response, error) {
	response, err := h.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

func (h *host) sendLate(request *http.Request, delay time.Duration) (*http.Response, error) {
	late := request.Clone(context.WithoutCancel(request.Context()))
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		late.Body = io.NopCloser(bytes.NewReader(body))
	}
	type answer struct {
		response *http.Response
		err      error
	}
	answered := make(chan answer, 1)
	h.late.Go(func() {
		select {
		case <-time.After(delay):
			response, err := h.send(late)
			answered <- answer{response, err}
		case <-h.end:
		}
	})
	select {
	case a := <-answered:
		return a.response, a.err
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// slowBody is that of a watch: what arrives while nothing goes through arrives later.
type slowBody struct {
	io.ReadCloser
	host *host
	done <-chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if waited := b.host.wait(b.done, b.host.stuck); waited != nil {
		return 0, waited
	}
	return n, err
}
