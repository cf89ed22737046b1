package record

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"time"
)

// apart is the shortest time between two groups of events of a watch. A client handles the first
// one before the second one arrives, as the recorded client did.
const apart = time.Millisecond

// answer returns the answer of an exchange at its time.
func (r *Replay) answer(asked *http.Request, e *exchange) (*http.Response, error) {
	ctx := asked.Context()
	f := cmp.Or(e.answer, e.end)
	if f == nil || f.Kind == frameClosed { // the recorded client got no answer
		if err := r.untilNext(ctx, e); err != nil {
			return nil, err
		}
		return nil, &RecordedError{Text: "recorded client gave this request up"}
	}
	if e.what != aRead {
		if err := r.wait(ctx, f.At, time.Time{}); err != nil {
			return nil, err
		}
	}
	time.AfterFunc(apart, func() { r.passed(min(1, e.parts())) })
	if e.answer == nil {
		return nil, f.Failure.err()
	}
	header := http.Header{"Content-Type": {f.ContentType}}
	if f.RetryAfter != "" {
		header.Set("Retry-After", f.RetryAfter)
	}
	response := &http.Response{
		Status: http.StatusText(f.Status), StatusCode: f.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: -1, Request: asked,
	}
	if f.Status == 200 && (e.what == aWatch || e.what == aWatchList) {
		s := &stream{replay: r, of: e, events: e.events, last: time.Now()}
		s.ctx, s.cancel = context.WithCancel(ctx)
		response.Body = s
		return response, nil
	}
	response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(f.Body), bytes.NewReader(unreadable(f.Rest))))
	return response, nil
}

// unreadable returns bytes that a client can read as little as the recorded ones.
func unreadable(rest string) []byte {
	switch rest {
	case restTruncated:
		return []byte(`{"`)
	case restMalformed:
		return []byte("?")
	}
	return nil
}

// wait waits for a time of the recording, and at least until another time.
func (r *Replay) wait(ctx context.Context, at offset, least time.Time) error {
	r.mu.Lock()
	due := r.began.Add(time.Duration(at))
	r.mu.Unlock()
	timer := time.NewTimer(max(time.Until(due), time.Until(least)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// untilNext waits for the time at which the recorded client asked again, or for the end of ctx.
func (r *Replay) untilNext(ctx context.Context, e *exchange) error {
	if e.end != nil {
		if at, ok := e.next(); ok {
			return r.wait(ctx, at, time.Time{})
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// stream is the body of a watch.
type stream struct {
	replay *Replay
	of     *exchange
	ctx    context.Context // ends with the request, or with Close
	cancel context.CancelFunc

	events []*frame // that were not received; protected by replay.mu

	// The fields below belong to the client's goroutine that reads.
	last  time.Time    // when the last events were received
	rest  bytes.Buffer // of a frame
	ended bool         // rest has everything
}

func (s *stream) Read(to []byte) (int, error) {
	if s.rest.Len() == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	return s.rest.Read(to)
}

// next fills rest with the next frame.
func (s *stream) next() error {
	r := s.replay
	r.mu.Lock()
	events := s.events
	r.mu.Unlock()
	if len(events) > 0 {
		if err := r.wait(s.ctx, events[0].At, s.last.Add(apart)); err != nil {
			return err
		}
		r.mu.Lock()
		if len(s.events) == 0 { // Close was called
			r.mu.Unlock()
			return context.Canceled
		}
		s.events = s.events[1:]
		r.mu.Unlock()
		for _, event := range events[0].Events {
			s.rest.Write(event)
			s.rest.WriteByte('\n')
		}
		s.last = time.Now()
		time.AfterFunc(apart, func() { r.passed(1) })
		return nil
	}
	end := s.of.end
	if end == nil || end.Kind == frameClosed {
		if err := r.untilNext(s.ctx, s.of); err != nil {
			return err
		}
		return io.EOF
	}
	if err := r.wait(s.ctx, end.At, time.Time{}); err != nil {
		return err
	}
	if rest := unreadable(end.Rest); rest != nil && !s.ended {
		s.ended = true
		s.rest.Write(rest)
		return nil
	}
	if end.Failure != nil {
		return end.Failure.err()
	}
	return io.EOF
}

// Close ends the watch. The rest of its events is passed over.
func (s *stream) Close() error {
	s.cancel()
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	s.replay.passedLocked(len(s.events))
	s.events = nil
	return nil
}
