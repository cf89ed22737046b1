package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
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
	f := &failure{Text: err.Error()}
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
	watching := of != nil && of.answer != nil && of.answer.Status == 200 && (of.what == aWatch || of.what == aWatchList)
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
