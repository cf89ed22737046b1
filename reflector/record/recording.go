package record

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
)

var (
	// ErrNotRecording means that a file is not the recording of a [Recorder].
	ErrNotRecording = errors.New("it is no recording: it has to begin with the line that a Recorder writes first")

	// ErrRecordingVersion means that another version of this library wrote the recording in another
	// format.
	ErrRecordingVersion = errors.New("version of the recording is unknown: read it with the library that made it")

	// ErrRecordingDamaged means that a line of a recording is invalid. Only the last line may be
	// cut off.
	ErrRecordingDamaged = errors.New("line is damaged")

	// ErrRecordingCut means that a recording ends before its Recorder was closed. The program was
	// killed, or an error ended the recording.
	ErrRecordingCut = errors.New("recording ends before its program did")
)

// RecordingError means that all or a part of a recording cannot be read.
type RecordingError struct {
	// Line is the number of the line, from 1.
	Line int
	Err  error
}

// Error names the line and the cause.
func (e *RecordingError) Error() string { return fmt.Sprintf("recording, line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *RecordingError) Unwrap() error { return e.Err }

// RecordedError is a recorded failure of a connection. errors.Is and errors.As find the causes that
// clients act on, such as a refused connection or a timeout.
type RecordedError struct {
	// Text is the text of the failure.
	Text string
	// Causes are the recorded causes.
	Causes []error
}

// Error returns the text of the failure.
func (e *RecordedError) Error() string { return e.Text }

// Unwrap returns Causes.
func (e *RecordedError) Unwrap() []error { return e.Causes }

const (
	recordingFormat  = "kubereflector recording"
	recordingVersion = 2
	// maxHeading is the largest size of the first line. It keeps a large file of another format out
	// of memory.
	maxHeading = 64 << 10
)

// heading is the first line of a recording.
type heading struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Began   time.Time `json:"began"`
}

// frame is any line after the heading.
type frame struct {
	At   offset    `json:"at"`
	Kind frameKind `json:"frame"`
	ID   int       `json:"id,omitempty"` // of the request
	request
	// Status, ContentType and RetryAfter are those of the answer.
	Status      int    `json:"status,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	RetryAfter  string `json:"retryAfter,omitempty"`
	// Body is the body of an answer, except for that of a watch.
	Body json.RawMessage `json:"body,omitempty"`
	// Events arrived together.
	Events []json.RawMessage `json:"events,omitempty"`
	// Rest says what followed that is no JSON; empty if nothing did.
	Rest    string   `json:"rest,omitempty"`
	Failure *failure `json:"failure,omitempty"`

	data []byte // of a frameData
}

type frameKind string

const (
	frameRequest frameKind = "request" // a client sent a request
	frameAnswer  frameKind = "answer"  // the whole answer arrived, or a watch was opened
	frameData    frameKind = "data"    // bytes of an answer; in no file
	frameEvents  frameKind = "events"  // of a watch
	frameEnded   frameKind = "ended"   // the server ended a watch
	frameClosed  frameKind = "closed"  // the client gave up the request, or closed the watch
	frameFailed  frameKind = "failed"  // the request or the watch failed
	frameStopped frameKind = "stopped" // the Recorder was closed
	frameLost    frameKind = "lost"    // the recording ended early
)

const (
	restTruncated = "truncated"
	restMalformed = "malformed"
)

// offset is the time since the start of the recording, as text such as "1.5s".
type offset time.Duration

func (o offset) MarshalText() ([]byte, error) { return []byte(time.Duration(o).String()), nil }

func (o *offset) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*o = offset(d)
	return err
}

// failure is a failure in a recording.
type failure struct {
	Text   string   `json:"text"`
	Causes []string `json:"causes,omitempty"` // names of causes
}

// causes maps errors to their names in recordings.
var causes = []struct {
	name string
	err  error
}{
	{"connectionRefused", syscall.ECONNREFUSED},
	{"connectionReset", syscall.ECONNRESET},
	{"deadlineExceeded", context.DeadlineExceeded},
	{"end", io.EOF},
	{"unexpectedEnd", io.ErrUnexpectedEOF},
	{"timeout", timeout{}},
}

// timeout is a net.Error.
type timeout struct{}

func (timeout) Error() string   { return "timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

var _ net.Error = timeout{}

func failureOf(err error) *failure {
	f := &failure{Text: cut.Text(discreet.HTTP(err).Error(), cut.MaxText)}
	for _, cause := range causes {
		if errors.Is(err, cause.err) {
			f.Causes = append(f.Causes, cause.name)
		}
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		f.Causes = append(f.Causes, "timeout")
	}
	return f
}

func (f *failure) err() error {
	e := &RecordedError{Text: f.Text}
	for _, name := range f.Causes {
		for _, cause := range causes {
			if cause.name == name {
				e.Causes = append(e.Causes, cause.err)
			}
		}
	}
	return e
}

// exchange is a request of a recording, and what became of it.
type exchange struct {
	request
	line   int // of the request
	at     offset
	answer *frame // nil if there is none
	events []*frame
	end    *frame // nil if the watch was open, or the request unanswered, at the end of the recording
	in     *conversation
	taken  bool // by a request of the replay, or passed over; protected by Replay.mu
}

// readRecording reads a whole recording. It drops a last line that is cut off. ending is nil if the
// recording is complete.
func readRecording(from io.Reader) (all []*exchange, ending error, err error) {
	reader := bufio.NewReaderSize(from, maxHeading)
	byID := map[int]*exchange{}
	ending = &RecordingError{Line: 1, Err: ErrRecordingCut}
	for number := 1; ; number++ {
		var text []byte
		var reading error
		if number > 1 {
			text, reading = reader.ReadBytes('\n')
		} else if text, reading = reader.ReadSlice('\n'); errors.Is(reading, bufio.ErrBufferFull) {
			reading = ErrNotRecording
		}
		cut := reading == io.EOF
		if reading != nil && !cut {
			return nil, nil, &RecordingError{Line: number, Err: reading}
		}
		if number == 1 {
			var head heading
			if err := json.Unmarshal(text, &head); err != nil || head.Format != recordingFormat {
				return nil, nil, &RecordingError{Line: 1, Err: ErrNotRecording}
			}
			if head.Version != recordingVersion {
				return nil, nil, &RecordingError{Line: 1, Err: fmt.Errorf("%w: it is %d, and this library knows %d", ErrRecordingVersion, head.Version, recordingVersion)}
			}
			continue
		}
		if cut && len(bytes.TrimSpace(text)) == 0 {
			return all, ending, nil
		}
		f := new(frame)
		err := json.Unmarshal(text, f)
		if err == nil {
			err = f.join(byID)
		}
		switch {
		case err != nil && cut:
			return all, ending, nil
		case err != nil:
			return nil, nil, &RecordingError{Line: number, Err: fmt.Errorf("%w: %w", ErrRecordingDamaged, err)}
		case f.Kind == frameRequest:
			byID[f.ID] = &exchange{request: f.request, line: number, at: f.At}
			all = append(all, byID[f.ID])
		}
		switch f.Kind {
		case frameStopped:
			ending = nil
		case frameLost:
			ending = &RecordingError{Line: number, Err: fmt.Errorf("%w: %s", ErrRecordingCut, f.Failure.Text)}
		default:
			ending = &RecordingError{Line: number, Err: ErrRecordingCut}
		}
	}
}

var errFrame = errors.New("frame fits no request, or lacks a field")

// join adds a frame to the exchange that it belongs to.
func (f *frame) join(byID map[int]*exchange) error {
	of := byID[f.ID]
	watching := of != nil && of.answer != nil && of.answer.Status == 200 && of.watches()
	switch f.Kind {
	case frameRequest:
		if of == nil && f.request.parse() {
			return nil
		}
	case frameAnswer:
		if of != nil && of.answer == nil && of.end == nil && f.Status >= 200 && f.Status < 1000 {
			of.answer = f
			return nil
		}
	case frameEvents:
		if watching && of.end == nil && len(f.Events) > 0 {
			of.events = append(of.events, f)
			return nil
		}
	case frameEnded, frameClosed, frameFailed:
		if of != nil && of.end == nil && (watching || of.answer == nil && f.Kind != frameEnded) && (f.Failure != nil) == (f.Kind == frameFailed) {
			of.end = f
			return nil
		}
	case frameStopped:
		return nil
	case frameLost:
		if f.Failure != nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %.40q", errFrame, f.Kind)
}

// request is what a client asks the server for.
type request struct {
	Path  string `json:"path,omitempty"`
	Query string `json:"query,omitempty"`
	// As is the kind into which the server converts the objects, such as PartialObjectMetadata.
	As string `json:"as,omitempty"`

	what     what
	options  url.Values
	resource string // empty for discovery
}

// what says how a request is answered.
type what string

const (
	aRead      what = "a read" // of one object, or of what the server serves
	aList      what = "a list"
	aProbe     what = "a probe" // asks for one object and the server's version: see reflector-R6
	aWatch     what = "a watch"
	aWatchList what = "a watch-list"
)

// requestOf returns what an HTTP request asks for; false if no recording has such requests.
func requestOf(r *http.Request) (request, bool) {
	q := request{Path: r.URL.Path, Query: r.URL.RawQuery}
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		_, parameters, _ := mime.ParseMediaType(accepted)
		q.As = cmp.Or(q.As, strings.TrimSuffix(parameters["as"], "List")) // a watch has objects, a list has their list
	}
	return q, r.Method == http.MethodGet && q.parse()
}

// core finds where the API server's own path begins: a proxy's path may come first.
var core = regexp.MustCompile(`/(api/v1|apis/[^/]+)(/|$)`)

// parse derives the fields that a recording does not have.
func (q *request) parse() bool {
	var err error
	if q.options, err = url.ParseQuery(q.Query); err != nil {
		return false
	}
	q.what = aRead
	start := core.FindStringIndex(q.Path)
	if strings.Contains(q.Path, "/openapi/") {
		return false // it has the paths of discovery within its own
	}
	if start == nil {
		q.Path = "/" + path.Base(q.Path)
		return q.Path == "/api" || q.Path == "/apis" || q.Path == "/version"
	}
	q.Path = strings.TrimRight(q.Path[start[0]:], "/")
	parts := strings.Split(q.Path, "/")[1:] // api v1 …, or apis GROUP VERSION …
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	// A namespace's own subresources are not resources in it. Custom resources may have their names.
	isCore := strings.HasPrefix(q.Path, "/api/")
	if len(parts) > 2 && parts[0] == "namespaces" && (!isCore || parts[2] != "status" && parts[2] != "finalize") {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		q.resource = parts[0]
	}
	switch {
	case len(parts) != 1:
		return len(parts) < 3
	case q.options.Get("watch") == "true" || q.options.Get("watch") == "1":
		q.what = aWatch
		if q.options.Get("sendInitialEvents") == "true" {
			q.what = aWatchList
		}
	case q.options.Get("limit") == "1" && q.options.Get("resourceVersion") == "" && q.options.Get("continue") == "":
		q.what = aProbe
	default:
		q.what = aList
	}
	return true
}

// conversation identifies the requests that one reflector sends one after the other.
func (q *request) conversation() string {
	fields := q.options.Get("fieldSelector")
	if q.what == aProbe { // a probe adds the name of an object to the selector
		var others []string
		for field := range strings.SplitSeq(fields, ",") {
			if !strings.HasPrefix(field, "metadata.name=") && !strings.HasPrefix(field, "metadata.namespace=") {
				others = append(others, field)
			}
		}
		fields = strings.Join(others, ",")
	}
	return fmt.Sprintf("%s %s %q %q", q.Path, q.As, q.options.Get("labelSelector"), fields)
}

// fits reports whether the answer to a recorded request is one to this request. Page sizes, timeouts
// and bookmarks make no difference, and a list may have asked for another version, since it shows a
// whole state. If the recorded answer has all shards, a client may use a part of them.
func (q *request) fits(recorded *request) bool {
	shards := recorded.options.Get("shardSelector")
	same := q.what == recorded.what
	if q.what == aProbe && recorded.what == aList { // or the first page of a list in pages of one object
		same = recorded.options.Get("limit") == "1" && !q.named()
	}
	return same && q.options.Get("continue") == recorded.options.Get("continue") &&
		(shards == "" || shards == q.options.Get("shardSelector")) &&
		(q.what != aWatch || q.options.Get("resourceVersion") == recorded.options.Get("resourceVersion"))
}

// watches reports whether the answer to a request is a watch.
func (q *request) watches() bool { return q.what == aWatch || q.what == aWatchList }

// named reports whether a request asks for an object by its name.
func (q *request) named() bool {
	return strings.Contains(q.options.Get("fieldSelector"), "metadata.name=")
}

// String describes the request.
func (q *request) String() string {
	text := fmt.Sprintf("%s of %s", q.what, q.Path)
	for _, option := range []string{"continue", "resourceVersion", "labelSelector", "fieldSelector", "shardSelector"} {
		if value := q.options.Get(option); value != "" {
			text += fmt.Sprintf(" with %s %q", option, value)
		}
	}
	return text
}
