package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
			if of.stream = f.Status == 200 && (of.what == aWatch || of.what == aWatchList); of.stream {
				line(f)
			}
		case frameData:
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
				f.Rest = restOf(bytes.TrimSuffix(of.data, []byte{'\n'}))
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
	items, isList := tree["items"].([]any)
	switch object, _ := tree["object"].(map[string]any); {
	case event && object != nil:
		metadata, _ := object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		over, isOver := annotations[metav1.InitialEventsAnnotationKey] // of a bookmark
		if secrets.Object(object, name); isOver {
			annotations[metav1.InitialEventsAnnotationKey] = over
		}
	case isList:
		kind, _ := tree["kind"].(string)
		for _, item := range items {
			item, _ := item.(map[string]any)
			said, version := item["kind"], item["apiVersion"]
			if item == nil || said != nil {
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
