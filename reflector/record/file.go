package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	// ErrNotRecording means that a file is not the recording of a [Recorder].
	ErrNotRecording = errors.New("it is no recording: it has to begin with the line that a Recorder writes first")

	// ErrRecordingVersion means that another version of this library wrote the recording in another
	// format.
	ErrRecordingVersion = errors.New("version of the recording is unknown: read it with the library that made it, or a newer one")

	// ErrRecordingType means that a recording has objects of another type than T. If only the name
	// of the type differs, change type in the first line of the recording.
	ErrRecordingType = errors.New("recording is of another type")

	// ErrRecordingDamaged means that a line of a recording is invalid. Only the last line may be
	// cut off.
	ErrRecordingDamaged = errors.New("line is damaged")

	// ErrRecordingCut means that a recording ends before its reflector did. The program was killed,
	// or an error ended the recording.
	ErrRecordingCut = errors.New("recording ends before its reflector did")
)

// RecordingError means that all or a part of a recording cannot be read.
type RecordingError struct {
	// Line is the number of the line, from 1; 0 if the error concerns no single line.
	Line int
	Err  error
}

// Error names the line and the cause.
func (e *RecordingError) Error() string {
	if e.Line == 0 {
		return "recording: " + e.Err.Error()
	}
	return fmt.Sprintf("recording, line %d: %v", e.Line, e.Err)
}

// Unwrap returns Err.
func (e *RecordingError) Unwrap() error { return e.Err }

// line is a frame with its line number.
type line struct {
	frame
	number int
}

// maxHeading is the largest size of the first line in bytes. It avoids reading a large file of
// another format into memory.
const maxHeading = 64 << 10

// readLine returns a line with its line end, if it has one.
func readLine(from *bufio.Reader, number int) ([]byte, error) {
	if number > 1 {
		return from.ReadBytes('\n')
	}
	text, err := from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = ErrNotRecording
	}
	return text, err
}

// readRecording reads a whole recording. It drops a last line that is cut off.
func readRecording(from io.Reader) (head heading, lines []line, err error) {
	reader := bufio.NewReaderSize(from, maxHeading)
	for number := 1; ; number++ {
		text, reading := readLine(reader, number)
		if reading != nil && reading != io.EOF {
			return head, nil, &RecordingError{Line: number, Err: reading}
		}
		cut := reading == io.EOF
		if blank := len(bytes.TrimSpace(text)) == 0; blank && cut && number > 1 {
			return head, lines, nil
		}
		if number == 1 {
			if err := readHeading(text, &head); err != nil {
				return head, nil, &RecordingError{Line: 1, Err: err}
			}
			continue
		}
		next := line{number: number}
		if err := next.read(text); err == nil {
			lines = append(lines, next)
		} else if !cut {
			return head, nil, &RecordingError{Line: number, Err: fmt.Errorf("%w: %w", ErrRecordingDamaged, err)}
		}
		if cut {
			return head, lines, nil
		}
	}
}

func readHeading(text []byte, head *heading) error {
	if err := json.Unmarshal(text, head); err != nil || head.Format != recordingFormat {
		return ErrNotRecording
	}
	if head.Version != recordingVersion {
		return fmt.Errorf("%w: it is %d, and this library knows %d", ErrRecordingVersion, head.Version, recordingVersion)
	}
	return nil
}

var (
	errUnknownFrame = errors.New("frame is of no kind that there is")
	errNoOptions    = errors.New("request has no options")
	errNoFailure    = errors.New("failure does not say which")
	errNoObject     = errors.New("event has no object")
)

func (l *line) read(text []byte) error {
	if err := json.Unmarshal(text, &l.frame); err != nil {
		return err
	}
	broken := l.Type == ""
	switch {
	case !l.Kind.known():
		return fmt.Errorf("%w: %q", errUnknownFrame, l.Kind)
	case l.Kind.asks() && l.Options == nil:
		return errNoOptions
	case (l.Kind == frameFailed || l.Kind == frameLost || l.Kind == frameEvent && broken) && l.Failure == nil:
		return errNoFailure
	case l.Kind == frameEvent && l.Type != "BOOKMARK" && l.Failure == nil && l.OutOfShard <= 0 && len(l.Object) == 0 && len(l.Rejected) != 1:
		return errNoObject
	}
	return nil
}

// checkType returns an error unless recorded objects can be decoded as T.
func checkType[T source.Object](recorded string) error {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return client.ErrNoStruct
	}
	// These two types fit every object.
	if t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return nil
	}
	if name := typeName(t); name != recorded {
		return fmt.Errorf("%w: %s, and not %s", ErrRecordingType, recorded, name)
	}
	return nil
}
