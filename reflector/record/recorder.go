package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrRecorderTaken means that a [Recorder] was given to a second reflector, such as the
	// reflector of another scope of an informer.
	ErrRecorderTaken = errors.New("recorder records another reflector: give each one of its own")

	// ErrRecorderBehind means that a recording ended because its buffer exceeded
	// [WithRecorderBuffer].
	ErrRecorderBehind = errors.New("recording ended: its writer is too slow; give it a larger buffer by WithRecorderBuffer, or a faster writer")

	// ErrRecorderStuck means that the recording's writer did not return within five seconds after
	// the end of the reflector.
	ErrRecorderStuck = errors.New("recording ended: its writer does not return")
)

// DefaultRecorderBuffer is the default size of a recorder's buffer, in bytes.
const DefaultRecorderBuffer = 64 << 20

// Recorder records the requests of one reflector and the responses to them: lists, watches, events,
// bookmarks and failures, each with its time. [NewReplay] reads the recording.
//
// A recording is text, with one JSON object a line. The first line describes the recording. Objects
// are written as T encodes them to JSON, and T must be able to decode that JSON. For an undecodable
// object the recording has the name, the version and the error.
//
// The reflector does not wait for the writer. Received data goes through a buffer to a goroutine
// that runs as long as Run. If the buffer is full or a write fails, the recording ends, because a
// recording with gaps cannot be replayed. The reflector then logs a [*reflector.Error] with
// "record", calls the error handler of [reflector.WithErrorHandler], and goes on. Err
// returns the reason. Run writes the rest of the buffer before it returns.
//
// A recorded reflector does more work. The goroutine of Run encodes each object. A relist also
// decodes objects that the store already has.
//
// All methods may be called from any goroutine.
type Recorder struct {
	to    io.Writer
	limit int
	masks masking.Mask

	mu sync.Mutex // protects the fields below
	// owner is the recorded reflector.
	owner   any
	began   time.Time
	waiting []byte // buffered output
	wake    chan struct{}
	err     error // the error that ended the recording
	told    bool  // whether untold has returned err
}

// RecorderOption configures a [Recorder].
type RecorderOption interface{ applyRecorder(*Recorder) }

type recorderOptionFunc func(*Recorder)

func (f recorderOptionFunc) applyRecorder(r *Recorder) { f(r) }

// NewRecorder returns a recorder for [Client]. At most one goroutine at a time calls the
// writer. The recorder does not close the writer. A nil writer ends the recording at once.
func NewRecorder(to io.Writer, opts ...RecorderOption) *Recorder {
	r := &Recorder{to: to, limit: DefaultRecorderBuffer, masks: masking.Mask{Instead: redact}}
	if source.IsNil(to) {
		r.err = errNoWriter
	}
	for _, opt := range opts {
		opt.applyRecorder(r)
	}
	return r
}

var errNoWriter = errors.New("recording has no writer")

// WithRecorderMasked masks fields of all objects, by JSON pointers (RFC 6901) such as
// "/spec/password". If a field has fields itself, the recorder masks each value in it, including
// the elements of lists. Strings become "redacted", which is also valid base64. Numbers become 0
// and booleans false. T can therefore still decode the objects, unless it expects a special format
// such as a time.
func WithRecorderMasked(pointers ...string) RecorderOption {
	return recorderOptionFunc(func(r *Recorder) {
		for _, pointer := range pointers {
			r.masks.Paths = append(r.masks.Paths, masking.Path(pointer))
		}
	})
}

// WithRecordedSecrets records the data of Secrets, and the beginning of responses that could not be
// read. Without this option the recorder masks them, as [WithRecorderMasked] does. It recognizes
// the Secret of Kubernetes, your own Secret type, and a type that contains a Secret. With this
// option, protect the file like the Secrets.
func WithRecordedSecrets() RecorderOption {
	return recorderOptionFunc(func(r *Recorder) { r.masks.ShowSecrets = true })
}

// WithRecorderBuffer sets the size of the buffer in bytes. The writer may hold as many bytes again.
// An empty buffer accepts one frame of any size. The default is [DefaultRecorderBuffer], also if
// bytes is not positive.
func WithRecorderBuffer(bytes int) RecorderOption {
	return recorderOptionFunc(func(r *Recorder) {
		if bytes > 0 {
			r.limit = bytes
		}
	})
}

// redact returns the recorded replacement for a value.
func redact(value any) any {
	switch value.(type) {
	case string:
		return "redacted"
	case json.Number:
		return json.Number("0")
	case bool:
		return false
	}
	return value
}

// Err returns the reason why the recording ended before its reflector: [ErrRecorderBehind],
// [ErrRecorderStuck], the writer's error, or an encoding error. It is nil for a complete recording.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// claim assigns the recorder to a reflector.
func (r *Recorder) claim(by any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner != nil && r.owner != by {
		return ErrRecorderTaken
	}
	r.owner = by
	return nil
}

// start starts the writing goroutine. stop ends it. The first call also writes head.
func (r *Recorder) start(head heading) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return func() {}
	}
	wake, done := make(chan struct{}, 1), make(chan struct{})
	r.wake = wake
	if r.began.IsZero() {
		r.began = time.Now()
		head.Began = r.began
		r.appendLocked(json.Marshal(head))
	}
	go func() {
		defer close(done)
		for range wake {
			r.drain()
		}
		r.drain()
	}()
	return func() {
		r.mu.Lock()
		close(r.wake)
		r.wake = nil
		r.mu.Unlock()
		timeout := time.NewTimer(stream.CloseTimeout)
		defer timeout.Stop()
		select {
		case <-done:
		case <-timeout.C:
			r.fail(ErrRecorderStuck)
		}
	}
}

// now returns the offset of the current time; false if the recording has ended.
func (r *Recorder) now() (offset, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return offset(time.Since(r.began)), r.err == nil
}

// add appends a frame to the buffer.
func (r *Recorder) add(f *frame) {
	line, err := json.Marshal(f)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.appendLocked(line, err)
	}
}

func (r *Recorder) appendLocked(line []byte, err error) {
	switch {
	case err != nil:
		r.failLocked(fmt.Errorf("recording ended: %w", err))
	case len(r.waiting) > 0 && len(r.waiting)+len(line) > r.limit:
		r.failLocked(ErrRecorderBehind)
	default:
		r.waiting = append(append(r.waiting, line...), '\n')
	}
	select {
	case r.wake <- struct{}{}:
	default: // the writing goroutine is already notified
	}
}

// drain writes the buffer.
func (r *Recorder) drain() {
	for {
		r.mu.Lock()
		text := r.waiting
		r.waiting = nil
		r.mu.Unlock()
		if len(text) == 0 {
			return
		}
		if err := write(r.to, text); err != nil {
			r.fail(fmt.Errorf("recording ended: %w", err))
			r.mu.Lock()
			r.waiting = nil
			r.mu.Unlock()
			return
		}
	}
}

// write writes a whole text. A panic of the writer must not end the program.
func write(to io.Writer, text []byte) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
	}()
	n, err := to.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return err
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

// failLocked ends the recording and appends a last frame with the reason, if it can be encoded.
func (r *Recorder) failLocked(err error) {
	if r.err != nil {
		return
	}
	r.err = err
	last, encoding := json.Marshal(frame{At: offset(time.Since(r.began)), Kind: frameLost, Failure: &failureFrame{Text: err.Error()}})
	if encoding == nil {
		r.waiting = append(append(r.waiting, last...), '\n')
	}
}

// untold returns the error that ended the recording, once.
func (r *Recorder) untold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told {
		return nil
	}
	r.told = r.err != nil
	return r.err
}
