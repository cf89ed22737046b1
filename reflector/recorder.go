package reflector

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrRecorderTaken means that a [Recorder] was given to a second reflector, such as the
	// one of another scope of an informer.
	ErrRecorderTaken = errors.New("recorder records another reflector: give each one of its own")

	// ErrRecorderBehind means that a recording ended because what waited to be written was
	// more than [WithRecorderBuffer] allows.
	ErrRecorderBehind = errors.New("recording ended: its writer is too slow; give it a larger buffer by WithRecorderBuffer, or a faster writer")

	// ErrRecorderStuck means that the writer of a recording had not ended five seconds after
	// the reflector had.
	ErrRecorderStuck = errors.New("recording ended: its writer does not return")
)

// DefaultRecorderBuffer is how many bytes of a recording may wait to be written.
const DefaultRecorderBuffer = 64 << 20

// Recorder writes down all that one reflector asked for and what its client answered: lists,
// watches, their events, bookmarks and failures, each with the time. [NewReplay] reads it.
//
// A recording is text, one JSON object a line. The first says what it is of. Objects are
// written as JSON makes them of T, which has to be able to read them; of one that could not be
// decoded there are name, version and error.
//
// Nobody waits for the writer: what the reflector receives goes through a buffer to a goroutine
// that lives as long as Run. If the buffer is full or a write fails, the recording ends,
// for one with holes could not be replayed. That is an [*Error] with [OpRecord] for the log and
// the hook of [WithErrorHook], Err returns why, and the reflector goes on. What is left when Run ends
// is written before it returns.
//
// A recorded reflector works more: each object is encoded by the goroutine of Run, and in relists
// the objects that the store has are decoded, too.
//
// All methods may be called from any goroutine.
type Recorder struct {
	to    io.Writer
	limit int
	masks masking.Mask

	mu sync.Mutex // protects the fields below
	// owner is the reflector that is recorded.
	owner   any
	began   time.Time
	waiting []byte // to be written
	wake    chan struct{}
	err     error // why nothing more is recorded
	told    bool  // of err
}

// RecorderOption configures a [Recorder].
type RecorderOption interface{ applyRecorder(*Recorder) }

type recorderOptionFunc func(*Recorder)

func (f recorderOptionFunc) applyRecorder(r *Recorder) { f(r) }

// NewRecorder returns a recorder for [WithRecorder]. Its writer is called from one
// goroutine at a time, and is not closed. A nil writer ends the recording at once.
func NewRecorder(to io.Writer, opts ...RecorderOption) *Recorder {
	r := &Recorder{to: to, limit: DefaultRecorderBuffer, masks: masking.Mask{Instead: redact}}
	if isNil(to) {
		r.err = errNoWriter
	}
	for _, opt := range opts {
		opt.applyRecorder(r)
	}
	return r
}

var errNoWriter = errors.New("recording has no writer")

// WithRecorderMasked masks fields of all objects, by JSON pointers (RFC 6901) such as
// "/spec/password"; of a field that has fields itself, each value is masked, and lists are
// gone through. Strings become "redacted", which is valid base64 as well, numbers 0 and
// booleans false, so that what can be read as T still can, unless T expects, say, a time there.
func WithRecorderMasked(pointers ...string) RecorderOption {
	return recorderOptionFunc(func(r *Recorder) {
		for _, pointer := range pointers {
			r.masks.Paths = append(r.masks.Paths, masking.Path(pointer))
		}
	})
}

// WithRecordedSecrets records the data of Secrets, and how answers began that could not be read. Without
// it they are masked, as [WithRecorderMasked] does it, whether T is the Secret of Kubernetes,
// one of your own or has one inside. The file is then as secret as they are.
func WithRecordedSecrets() RecorderOption {
	return recorderOptionFunc(func(r *Recorder) { r.masks.ShowSecrets = true })
}

// WithRecorderBuffer sets how many bytes may wait to be written, and as many again may be with
// the writer; one frame is taken whatever its size. The default is [DefaultRecorderBuffer]; it is also
// that if bytes is not positive.
func WithRecorderBuffer(bytes int) RecorderOption {
	return recorderOptionFunc(func(r *Recorder) {
		if bytes > 0 {
			r.limit = bytes
		}
	})
}

// WithRecorder records what the reflector receives. A recorder is for one reflector: another
// one's Run returns [ErrRecorderTaken]. Run may be called again, and its recording goes on. The
// default, and a nil recorder, is no recording, and costs nothing.
func WithRecorder(recorder *Recorder) Option {
	return optionFunc(func(o *options) { o.recorder = recorder })
}

// redact returns what is recorded in the place of a value.
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

// Err returns why the recording ended before its reflector did: [ErrRecorderBehind],
// [ErrRecorderStuck], what the writer returned, or why something could not be encoded. It
// is nil if the recording is as it should be.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// claim makes a reflector the one that is recorded.
func (r *Recorder) claim(by any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner != nil && r.owner != by {
		return ErrRecorderTaken
	}
	r.owner = by
	return nil
}

// start begins to write, until stop is called. head is written the first time.
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
		timeout := time.NewTimer(closeTimeout)
		defer timeout.Stop()
		select {
		case <-done:
		case <-timeout.C:
			r.fail(ErrRecorderStuck)
		}
	}
}

// now returns the offset of what happens now; false if nobody wants it.
func (r *Recorder) now() (offset, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return offset(time.Since(r.began)), r.err == nil
}

// add has a frame written.
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
	default: // it will look anyhow
	}
}

// drain writes what waits.
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

// write writes all of a text. A writer that panics must not end the program.
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

// failLocked ends the recording, and says so in it, if it can still be written.
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

// untold returns why the recording ended, once.
func (r *Recorder) untold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told {
		return nil
	}
	r.told = r.err != nil
	return r.err
}
