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
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// objects, which are known by their kind, their stringData or one of Kubernetes' types of Secrets.
// Metadata alone is masked if its resource is one of these; kubectl's copy of the object, always.
// Strings become "redacted", which is also valid base64, numbers become 0 and booleans
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
// clients: what they receive later is not recorded, so in a replay their watches stay open and silent.
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
	// A replay has no cache of HTTP around it that knows the answer.
	asked.Header.Del("If-None-Match")
	asked.Header.Del("If-Modified-Since")
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

// acceptedJSON returns the media types of JSON among those that a client accepts. If there are none, it
// returns JSON with the parameters of the others, which may name the kind of the answer.
func acceptedJSON(accepted string) string {
	const media = "application/json"
	var types, others []string
	for one := range strings.SplitSeq(accepted, ",") {
		if one = strings.TrimSpace(one); strings.HasPrefix(one, media) {
			types = append(types, one)
		} else if end := strings.IndexByte(one, ';'); end >= 0 {
			others = append(others, media+one[end:])
		}
	}
	if types == nil {
		types = others
	}
	return cmp.Or(strings.Join(types, ","), media)
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

// write is the writing goroutine. It writes the buffer until it is empty.
func (r *Recorder) write() {
	for freed := 0; ; {
		r.mu.Lock()
		frames := r.waiting
		r.waiting = nil
		if r.held -= freed; len(frames) == 0 {
			if r.over {
				r.unfinished = nil // nothing more comes
			}
			close(r.idle)
			r.idle = nil
			r.mu.Unlock()
			return
		}
		began := r.began
		r.mu.Unlock()

		var text []byte
		var err error
		if text, freed, err = r.encode(frames, began); err == nil {
			err = writeTo(r.to, text)
		}
		if err != nil {
			r.mu.Lock()
			r.endLocked(fmt.Errorf("recording ended: %w", err))
			r.waiting = nil
			r.mu.Unlock()
		}
	}
}

// writeTo writes a whole text. A panic of the writer must not end the program.
func writeTo(to io.Writer, text []byte) (err error) {
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

// unfinished is an answer that has begun.
type unfinished struct {
	request
	answer  frame
	stream  bool   // an opened watch, whose events are written one by one
	data    []byte // of the body, as far as it is not written
	scanned int    // the part of data that has no end of an event
	invalid bool   // no event of the stream follows
}

// encode returns the lines of frames, and the number of received bytes that no longer wait.
func (r *Recorder) encode(frames []frame, began time.Time) (text []byte, freed int, err error) {
	var written bytes.Buffer
	lines := json.NewEncoder(&written)
	lines.SetEscapeHTML(false) // people read recordings
	line := func(value any) {
		if err == nil {
			err = lines.Encode(value)
		}
	}
	if r.unfinished == nil {
		r.unfinished = map[int]*unfinished{}
		line(heading{Format: recordingFormat, Version: recordingVersion, Began: began})
	}
	for i := range frames {
		f := &frames[i]
		if f.Kind == frameRequest {
			r.unfinished[f.ID] = &unfinished{request: f.request}
			line(f)
			freed += frameSize
			continue
		}
		of := r.unfinished[f.ID]
		if of == nil {
			if f.Kind == frameStopped || f.Kind == frameLost {
				line(f)
			}
			// Else a Read of the client has got data after another goroutine closed the body.
			freed += frameSize + len(f.data)
			continue
		}
		freed += frameSize
		switch f.Kind {
		case frameAnswer:
			of.answer = *f
			if of.stream = f.Status == 200 && of.watches(); of.stream {
				line(f)
			}
		case frameData:
			if of.invalid {
				freed += len(f.data)
				break
			}
			of.data = append(of.data, f.data...)
			if of.stream {
				freed += r.writeEvents(of, f.At, line)
			}
		default:
			delete(r.unfinished, f.ID)
			freed += len(of.data)
			if of.stream {
				of.data = append(of.data, '\n') // the last event may have no end of a line
				r.writeEvents(of, f.At, line)
				if f.Rest = restOf(bytes.TrimSuffix(of.data, []byte{'\n'})); of.invalid {
					f.Rest = restMalformed
				}
			} else if whole := json.Valid(of.data); of.answer.Kind != "" && (whole || f.Kind == frameEnded) {
				f.Kind, f.Status, f.ContentType, f.RetryAfter = frameAnswer, of.answer.Status, of.answer.ContentType, of.answer.RetryAfter
				if f.Failure = nil; whole {
					f.Body = masked(of.data, of.resource, false)
				} else {
					f.Rest = restOf(of.data)
				}
			}
			line(f)
		}
	}
	return written.Bytes(), freed, err
}

// writeEvents writes the whole events of a watch, and returns the length of their bytes. Events that
// arrived together are one frame. An event ends where a line ends and the JSON value is complete.
func (r *Recorder) writeEvents(of *unfinished, at offset, line func(any)) (freed int) {
	events := frame{At: at, Kind: frameEvents, ID: of.answer.ID}
	for {
		if next := bytes.TrimLeft(of.data, " \t\r\n"); len(next) > 0 && next[0] != '{' {
			freed += len(of.data)
			of.data, of.scanned, of.invalid = nil, 0, true
			break
		}
		end := bytes.IndexByte(of.data[of.scanned:], '\n')
		if end < 0 {
			break
		}
		of.scanned += end + 1
		one := bytes.TrimSpace(of.data[:of.scanned])
		if len(one) > 0 && !json.Valid(one) {
			continue
		}
		if len(one) > 0 {
			events.Events = append(events.Events, masked(one, of.resource, true))
		}
		freed += of.scanned
		of.data, of.scanned = of.data[of.scanned:], 0
	}
	of.data = bytes.Clone(of.data)
	if of.scanned = len(of.data); events.Events != nil {
		line(events)
	}
	return freed
}

// restOf says what follows the last JSON value of an answer.
func restOf(data []byte) string {
	switch err := json.NewDecoder(bytes.NewReader(data)).Decode(new(json.RawMessage)); {
	case err == io.EOF:
		return ""
	case errors.Is(err, io.ErrUnexpectedEOF):
		return restTruncated
	}
	return restMalformed
}

// secrets masks what a recording must not have.
var secrets = masking.Mask{Instead: func(value any) any {
	switch value.(type) {
	case string:
		return "redacted"
	case json.Number:
		return json.Number("0")
	case bool:
		return false
	}
	return value
}}

// masked returns JSON without secrets: an answer to a request for a resource, or an event of a watch.
// All objects say their kind while they are masked, so that an item of a list, which often does not,
// is masked like the same object in an event.
func masked(data []byte, resource string, event bool) json.RawMessage {
	tree, err := masking.Decode(data)
	if err != nil {
		return json.RawMessage("null") // another value than an object
	}
	name := strings.TrimSuffix(resource, "s") // compared with the names of types
	kind, _ := tree["kind"].(string)
	items, isList := tree["items"].([]any)
	isList = isList && (kind == "" || strings.HasSuffix(kind, "List")) // an object may have items, too
	switch object, _ := tree["object"].(map[string]any); {
	case event && object != nil:
		metadata, _ := object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		over, isOver := annotations[metav1.InitialEventsAnnotationKey] // of a bookmark
		if secrets.Object(object, name); isOver {
			annotations[metav1.InitialEventsAnnotationKey] = over
		}
	case isList:
		others := make([]any, len(items)) // what is no object is masked as a part of the list
		for i, item := range items {
			if _, isObject := item.(map[string]any); !isObject {
				others[i] = item
			}
		}
		tree["items"] = others
		secrets.Object(tree, name)
		for i, item := range items {
			item, isObject := item.(map[string]any)
			if !isObject {
				continue
			}
			others[i] = item
			said, version := item["kind"], item["apiVersion"]
			if said != nil {
				secrets.Object(item, name)
				continue
			}
			item["kind"], item["apiVersion"] = strings.TrimSuffix(kind, "List"), tree["apiVersion"]
			secrets.Object(item, name)
			delete(item, "kind")
			if delete(item, "apiVersion"); version != nil {
				item["apiVersion"] = version
			}
		}
	default:
		secrets.Object(tree, name)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return json.RawMessage("null")
	}
	return text.Bytes()
}
