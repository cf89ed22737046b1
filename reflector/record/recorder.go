package record

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

var (
	// ErrRecorderBehind means that a recording ended because more than 256 MiB waited for its
	// writer. A list counts from its first byte to its last.
	ErrRecorderBehind = errors.New("recording ended: more than 256 MiB wait for its writer; give it a faster one, or let clients list in pages")

	// ErrRecorderStuck means that the recording's writer did not return within five seconds after
	// [Recorder.Close] was called.
	ErrRecorderStuck = errors.New("recording ended: its writer does not return")

	errNoWriter = errors.New("recording has no writer")
)

const (
	maxHeld      = 256 << 20
	frameSize    = 512 // counts for each frame, beside its data: requests that fail have none
	closeTimeout = 5 * time.Second
)

// Recorder records the requests of a program that read, and the answers to them: lists, watches,
// events, bookmarks and failures, each with its time. [NewReplay] reads the recording.
//
// A recording is text, with one JSON object a line. The values of Secrets are masked in it: those of
// the resource of Kubernetes, of resources with "secret" in their names, and of Secrets within other
// objects. Strings become "redacted", which is also valid base64, numbers become 0 and booleans
// false, so that a client can still decode the objects. Of an answer that is not JSON the
// recording has only the status and the content type.
//
// No client waits for the writer. What it receives goes through a buffer to a goroutine that runs
// while there is something to write. If the buffer is full, or a write fails, the recording ends,
// because a recording with gaps cannot be replayed; the clients go on.
//
// All methods may be called from any goroutine.
type Recorder struct {
	to    io.Writer
	limit int // for held
	done  chan struct{}

	mu      sync.Mutex // protects the fields below
	began   time.Time  // the time of the first request
	last    int        // the last number of a request
	waiting []frame
	held    int           // bytes of waiting, and of what the writing goroutine cannot write yet
	idle    chan struct{} // closed at the end of the writing goroutine; nil if there is none
	over    bool          // nothing more is recorded
	err     error         // why

	// unfinished are the answers whose end was not written. They belong to the writing goroutine.
	unfinished map[int]*unfinished
}

// NewRecorder returns a recorder. At most one goroutine at a time calls the writer, and the recorder
// does not close it. A nil writer ends the recording at once.
func NewRecorder(to io.Writer) *Recorder {
	r := &Recorder{to: to, limit: maxHeld, done: make(chan struct{})}
	if to == nil {
		r.over, r.err = true, errNoWriter
		close(r.done)
	}
	return r
}

// Wrap returns a transport that records what another one answers. It is for [rest.Config.Wrap]. A
// recorder may wrap the transports of several configs, as long as they are of one server.
func (r *Recorder) Wrap(to http.RoundTripper) http.RoundTripper { return transport{to, r} }

// Done returns a channel that is closed when nothing more is recorded. Err tells why.
func (r *Recorder) Done() <-chan struct{} { return r.done }

// Err returns the reason why the recording ended before Close: [ErrRecorderBehind], or the error of
// the writer. It also returns [ErrRecorderStuck]. It is nil for a complete recording, and before.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close ends the recording, writes what is left of it, and returns Err. Close it after the program's
// clients, because a recording without their end is the one of a killed program: see
// [ErrRecordingCut].
func (r *Recorder) Close() error {
	r.add(frame{Kind: frameStopped})
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle != nil {
		timeout := time.NewTimer(closeTimeout)
		defer timeout.Stop()
		select {
		case <-idle:
		case <-timeout.C:
			r.mu.Lock()
			r.endLocked(ErrRecorderStuck)
			r.mu.Unlock()
		}
	}
	return r.Err()
}

// transport records what another transport answers.
type transport struct {
	to       http.RoundTripper
	recorder *Recorder
}

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.to }

func (t transport) RoundTrip(asked *http.Request) (*http.Response, error) {
	q, ok := requestOf(asked)
	id := 0
	if ok {
		id = t.recorder.add(frame{Kind: frameRequest, request: q})
	}
	if id == 0 {
		return t.to.RoundTrip(asked)
	}
	ctx := asked.Context()
	asked = asked.Clone(ctx)
	asked.Header.Set("Accept", acceptedJSON(asked.Header.Get("Accept")))
	asked.Header.Del("Accept-Encoding") // the transport inside then decompresses
	answer, err := t.to.RoundTrip(asked)
	if err != nil {
		t.recorder.end(ctx, id, err)
		return answer, err
	}
	t.recorder.add(frame{
		Kind: frameAnswer, ID: id, Status: answer.StatusCode,
		ContentType: answer.Header.Get("Content-Type"), RetryAfter: answer.Header.Get("Retry-After"),
	})
	answer.Body = &body{ReadCloser: answer.Body, recorder: t.recorder, ctx: ctx, id: id}
	return answer, nil
}

// acceptedJSON returns the media types of JSON among those that a client accepts.
func acceptedJSON(accepted string) string {
	var types []string
	for one := range strings.SplitSeq(accepted, ",") {
		if one = strings.TrimSpace(one); strings.HasPrefix(one, "application/json") {
			types = append(types, one)
		}
	}
	if types == nil {
		return "application/json"
	}
	return strings.Join(types, ",")
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	recorder *Recorder
	ctx      context.Context // of the request
	id       int
	once     sync.Once // ends the answer
}

func (b *body) Read(to []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(to)
	if n > 0 {
		b.recorder.add(frame{Kind: frameData, ID: b.id, data: bytes.Clone(to[:n])})
	}
	if err != nil {
		b.once.Do(func() { b.recorder.end(b.ctx, b.id, err) })
	}
	return n, err
}

func (b *body) Close() error {
	b.once.Do(func() { b.recorder.end(b.ctx, b.id, context.Canceled) })
	return b.ReadCloser.Close()
}

// end records the end of an answer.
func (r *Recorder) end(ctx context.Context, id int, err error) {
	switch {
	case err == io.EOF:
		r.add(frame{Kind: frameEnded, ID: id})
	case ctx.Err() != nil || err == context.Canceled:
		r.add(frame{Kind: frameClosed, ID: id})
	default:
		r.add(frame{Kind: frameFailed, ID: id, Failure: failureOf(err)})
	}
}

// add appends a frame to the buffer, and returns its number; 0 if the recording has ended.
func (r *Recorder) add(f frame) (id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return 0
	}
	if r.began.IsZero() {
		r.began = time.Now()
	}
	if f.At = offset(time.Since(r.began)); f.Kind == frameRequest {
		r.last++
		f.ID = r.last
	}
	if r.held += frameSize + len(f.data); r.held > r.limit {
		r.endLocked(ErrRecorderBehind)
		return 0
	}
	r.waiting = append(r.waiting, f)
	if f.Kind == frameStopped {
		r.endLocked(nil)
	}
	r.writeLocked()
	return f.ID
}

// endLocked ends the recording. The last frame of a recording that ends early has the reason.
func (r *Recorder) endLocked(err error) {
	if r.err == nil {
		r.err = err
	}
	if r.over {
		return
	}
	r.over = true
	close(r.done)
	if err != nil {
		r.waiting = append(r.waiting, frame{At: offset(time.Since(r.began)), Kind: frameLost, Failure: &failure{Text: err.Error()}})
		r.writeLocked()
	}
}

// writeLocked starts the writing goroutine, unless it runs.
func (r *Recorder) writeLocked() {
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.write()
	}
}
