package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

var (
	// ErrReplayEnded means that a client sent a request after the last one of the recording that is
	// like it.
	ErrReplayEnded = errors.New("recording has ended")

	// ErrNotRecorded means that a recording has no request of this kind: it is a write, or one for a
	// subresource, or the recorded program did not read this object.
	ErrNotRecorded = errors.New("it is not in the recording")
)

// Replay is the server of a recording: a transport that answers what the recorded server answered,
// in the same order and after the same time.
//
// The replay accepts lists and watches with other page sizes, timeouts and bookmark settings than
// the recorded ones. It also accepts other minimum versions of a list. A list or watch that differs
// otherwise is a [*DifferenceError] and ends the replay: another order of requests, another
// selector, a watch from another version. A client with a shard selector needs a recording of the
// same shards or of all objects. A read of one object or of the discovery gets the answer that the
// server last gave at this time of the recording.
//
// A client that asks later than the recorded one gets at once what is overdue. What arrived one after
// the other in a watch still arrives a millisecond apart.
//
// While the recorded server could not answer, each list and watch fails as the recorded ones did,
// whichever the client sends first. The pauses of two clients are random, so that their attempts
// differ in number: the client gets the first failure of such a time in any case, and is answered
// when the recorded client was.
//
// Where a recorded client closed a watch and asked again, the replay ends the watch. A watch that
// is open at the end of the recording stays open and silent. A later request fails with
// [ErrReplayEnded].
//
// All methods may be called from any goroutine.
type Replay struct {
	reads         map[string][]*exchange // by path and kind
	conversations map[string]*conversation
	ending        error // of a replay of everything
	done          chan struct{}

	mu    sync.Mutex // protects the fields below, and taken of all exchanges
	began time.Time  // the start of the recording, on the replay's clock
	left  int        // answers and groups of events that no client has received
	over  bool
	err   error
}

// conversation is a sequence of lists and watches of the same objects.
type conversation struct {
	exchanges []*exchange
	// overlaps is true if a request was sent while a watch was open. So there were several clients, and
	// the order of their requests means nothing.
	overlaps bool
}

// NewReplay reads a whole recording. If it cannot read the recording, it returns a
// [*RecordingError] with [ErrNotRecording], [ErrRecordingVersion], [ErrRecordingDamaged], or the
// reader's error. A killed process leaves a recording that is cut off. The replay ends at the cut:
// see [Replay.Err].
func NewReplay(from io.Reader) (*Replay, error) {
	all, ending, err := readRecording(from)
	if err != nil {
		return nil, err
	}
	r := &Replay{reads: map[string][]*exchange{}, conversations: map[string]*conversation{}, ending: ending, done: make(chan struct{})}
	for _, e := range all {
		if e.what == aRead {
			r.reads[e.Path+" "+e.As] = append(r.reads[e.Path+" "+e.As], e)
			continue
		}
		c := r.conversations[e.conversation()]
		if c == nil {
			c = &conversation{}
			r.conversations[e.conversation()] = c
		}
		for _, earlier := range c.exchanges {
			c.overlaps = c.overlaps || !earlier.failed() && earlier.watches() && (earlier.end == nil || earlier.end.At > e.at)
			if next := earlier.continues(); next != "" && next == e.options.Get("continue") {
				earlier.what = aList // in pages of one object, and no probe
			}
		}
		c.exchanges = append(c.exchanges, e)
		e.in = c
	}
	for _, c := range r.conversations {
		for _, e := range c.exchanges {
			r.left += e.parts()
		}
	}
	if r.left == 0 {
		r.finishLocked(ending) // no lock: no client has the replay yet
	}
	return r, nil
}

// Config returns a config for the recording's clients. It has no rate limit.
func (r *Replay) Config() *rest.Config {
	return &rest.Config{Host: "http://recording", QPS: -1, Transport: r}
}

// Done returns a channel that is closed when the replay is over: clients have received all answers
// and events of lists and watches, or a request differs from the recording. Err tells which. In a
// testing/synctest bubble the clients have also handled them, unless they wait for a time to pass.
func (r *Replay) Done() <-chan struct{} { return r.done }

// Err returns nil before Done, and after a complete replay. Otherwise it returns the
// [*DifferenceError] of a request, or a [*RecordingError] with [ErrRecordingCut].
func (r *Replay) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Replay) finishLocked(err error) {
	if !r.over {
		r.over, r.err = true, err
		close(r.done)
	}
}

// DifferenceError means that a client sent a request to a [Replay] that differs from the next
// request of the recording.
type DifferenceError struct {
	// Line is the line of the recorded request, from 1; 0 if there is none.
	Line int
	// Asked describes the request, and Recorded the recorded one.
	Asked, Recorded string
	// Err is [ErrReplayEnded], [ErrNotRecorded] or nil.
	Err error
}

// Error names both requests and the line.
func (e *DifferenceError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("replay: %s was asked for: %v", e.Asked, e.Err)
	}
	return fmt.Sprintf("replay differs from line %d of the recording: %s was asked for, and then it was %s", e.Line, e.Asked, e.Recorded)
}

// Unwrap returns Err.
func (e *DifferenceError) Unwrap() error { return e.Err }

// RoundTrip answers a request from the recording.
func (r *Replay) RoundTrip(asked *http.Request) (*http.Response, error) {
	if asked.Body != nil {
		_ = asked.Body.Close()
	}
	q, ok := requestOf(asked)
	if !ok {
		return nil, &DifferenceError{Asked: asked.Method + " " + asked.URL.Path, Err: ErrNotRecorded}
	}
	e, err := r.find(&q)
	if err != nil {
		return nil, err
	}
	return r.answer(asked, e)
}

// unknownProbe answers a probe that the recorded reflector did not need, because its pauses were shorter.
// A reflector resumes its watch after this answer.
var unknownProbe = &exchange{
	request: request{what: aRead},
	answer:  &frame{Status: http.StatusBadRequest, ContentType: "application/json", Body: []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"the recording has no such probe"}`)},
}

// find returns the exchange that answers a request.
func (r *Replay) find(q *request) (*exchange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = time.Now()
	}
	if q.what == aRead {
		return r.readLocked(q)
	}
	c := r.conversations[q.conversation()]
	if c == nil {
		c = &conversation{}
	}
	now := offset(time.Since(r.began))
	down := -1    // the index of the failure that the request gets if the server is not back by now
	told := false // the client has received a failure of these
	for i, e := range c.exchanges {
		switch fits := q.fits(&e.request); {
		case e.taken:
			told = e.down()
			continue
		case e.down() && !c.overlaps:
			if down < 0 || told && e.at <= now {
				down = i
			}
			continue
		case !fits && (e.what == aProbe || e.failed()):
			continue // the clients' pauses differ, so that one may ask again when the other did not
		case down >= 0 && (!told || e.at > now):
			return r.takeLocked(c.exchanges[:down+1]), nil
		case fits:
			return r.takeLocked(c.exchanges[:i+1]), nil
		case q.what == aProbe:
			return unknownProbe, nil
		case c.overlaps:
			continue
		}
		return nil, r.differsLocked(&DifferenceError{Line: e.line, Asked: q.String(), Recorded: e.String()})
	}
	if down >= 0 {
		return r.takeLocked(c.exchanges[:down+1]), nil
	}
	if q.what == aProbe {
		return unknownProbe, nil
	}
	if len(c.exchanges) > 0 {
		return nil, &DifferenceError{Asked: q.String(), Err: ErrReplayEnded}
	}
	for _, other := range r.conversations {
		for _, e := range other.exchanges {
			if e.Path == q.Path && e.As == q.As && !e.taken {
				return nil, r.differsLocked(&DifferenceError{Line: e.line, Asked: q.String(), Recorded: e.String()})
			}
		}
	}
	return nil, r.differsLocked(&DifferenceError{Asked: q.String(), Err: ErrNotRecorded})
}

// readLocked returns the last read before the time of the replay, or the first one.
func (r *Replay) readLocked(q *request) (found *exchange, err error) {
	for _, e := range r.reads[q.Path+" "+q.As] {
		if e.answer != nil && (found == nil || time.Duration(e.answer.At) <= time.Since(r.began)) {
			found = e
		}
	}
	if found == nil {
		err = &DifferenceError{Asked: q.String(), Err: ErrNotRecorded}
	}
	return found, err
}

// takeLocked takes and returns the last exchange, and passes over the earlier ones that need not be
// asked for.
func (r *Replay) takeLocked(until []*exchange) *exchange {
	e := until[len(until)-1]
	for _, earlier := range until {
		if !earlier.taken && (earlier == e || earlier.what == aProbe || earlier.failed()) {
			if earlier.taken = true; earlier != e {
				r.passedLocked(earlier.parts())
			}
		}
	}
	return e
}

func (r *Replay) differsLocked(err *DifferenceError) error {
	r.finishLocked(err)
	return err
}

// passed counts parts that a client has received.
func (r *Replay) passed(parts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passedLocked(parts)
}

func (r *Replay) passedLocked(parts int) {
	if r.left -= parts; r.left <= 0 {
		r.finishLocked(r.ending)
	}
}

// next returns the time of the first request after the end of the exchange.
func (e *exchange) next() (offset, bool) {
	all := e.in.exchanges
	i := slices.IndexFunc(all, func(later *exchange) bool { return later.line > e.line && later.at >= e.end.At && later.what != aProbe })
	if i < 0 {
		return 0, false
	}
	return all[i].at, true
}

// parts returns how many answers and groups of events clients have to receive.
func (e *exchange) parts() int {
	if e.what == aRead || e.what == aProbe || e.answer == nil && (e.end == nil || e.end.Kind == frameClosed) {
		return 0
	}
	return 1 + len(e.events)
}

// continues returns the token of the next page, if a request that may be a probe has one.
func (e *exchange) continues() string {
	var list struct {
		Metadata struct{ Continue string }
	}
	if e.what != aProbe || e.named() || e.answer == nil || json.Unmarshal(e.answer.Body, &list) != nil {
		return ""
	}
	return list.Metadata.Continue
}

// failed reports whether the request got no answer or a refusal.
func (e *exchange) failed() bool { return e.answer == nil || e.answer.Status >= 300 }

// down reports whether the server could not answer at that time: another request would have got the
// same.
func (e *exchange) down() bool {
	if e.answer == nil {
		return e.end != nil && e.end.Failure != nil
	}
	return e.answer.Status == http.StatusTooManyRequests || e.answer.Status >= 500
}

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
	if f.Status == 200 && e.watches() {
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
