package record

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// replayStream is an open watch of a Replay.
type replayStream[T source.Object] struct {
	of *Replay[T]
	// handled is not nil while the reflector handles the events of the last call of Next.
	handled func()
}

func (s *replayStream[T]) Next(ctx context.Context, wake <-chan time.Time) ([]source.Event[T], error) {
	s.settle()
	lines, behind, over := s.of.upcoming()
	if over {
		s.of.finish(s.of.ending())
		return nil, stayOpen(ctx, wake)
	}
	last := &lines[len(lines)-1]
	switch {
	case last.Kind == frameClosed && s.of.goesOn():
		return nil, io.EOF
	case last.Kind != frameEvent && last.Kind != frameEnded:
		// The recorded reflector closed the watch, so this reflector will close it too.
		return nil, stayOpen(ctx, wake)
	}
	var events []source.Event[T]
	if last.Kind == frameEvent {
		var err error
		if events, err = readRecorded[T](lines); err != nil {
			s.of.finish(err)
			events = []source.Event[T]{{Type: watch.Error, Err: err}}
		}
	}
	handled, err := s.of.pace.pass(ctx, wake, last)
	if err != nil {
		return nil, err
	}
	s.of.pass(behind)
	if s.handled = handled; last.Kind == frameEnded {
		s.settle()
		return nil, io.EOF
	}
	return events, nil
}

// stayOpen waits until wake delivers a value or ctx ends.
func stayOpen(ctx context.Context, wake <-chan time.Time) error {
	select {
	case <-wake:
		return stream.ErrAwake
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle reports that the reflector has handled the last events.
func (s *replayStream[T]) settle() {
	if s.handled != nil {
		s.handled()
		s.handled = nil
	}
}

func (s *replayStream[T]) Live() {
	// The recorded reflector did not compare with the store's content.
}

func (s *replayStream[T]) Close() error {
	s.settle()
	return nil
}

// upcoming returns the next lines of a watch; several lines if events arrived together. behind is
// the index of the line after them. over is true if the recording has nothing more.
func (r *Replay[T]) upcoming() (lines []line, behind int, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.at
	for n < len(r.lines) && r.lines[n].Kind == frameEvent && r.lines[n].More {
		n++
	}
	if n < len(r.lines) && (n == r.at || r.lines[n].Kind == frameEvent) {
		n++
	}
	left := r.lines[r.at:]
	if len(left) == 0 || left[0].Kind == frameStopped || left[0].Kind == frameLost ||
		left[0].Kind == frameClosed && (len(left) == 1 || left[1].Kind == frameLost || left[1].Kind == frameStopped && len(left) == 2) {
		return nil, r.at, true
	}
	return r.lines[r.at:n], n, false
}

// goesOn reports whether the replay ends a watch that the recorded reflector closed. It does so if
// Run ended and was called again. At speed 0 without steps it also does so if the recorded
// reflector closed a silent watch, because the replay then does not wait for the silence.
func (r *Replay[T]) goesOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines[r.at+1:] {
		switch {
		case l.Kind == frameStopped:
			return true
		case l.Kind.asks() && !l.Probe:
			return r.pace.speed == 0 && r.pace.steps == nil && l.Kind == frameWatch && !initial(l.Options)
		}
	}
	return false
}

// pass records that the lines before behind were delivered. The reflector may have sent its next
// request at once, so r.at may already be further.
func (r *Replay[T]) pass(behind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = max(r.at, behind)
}

// readRecorded decodes the events of lines.
func readRecorded[T source.Object](lines []line) ([]source.Event[T], error) {
	events := make([]source.Event[T], len(lines))
	for i := range lines {
		var err error
		if events[i], err = readRecordedEvent[T](&lines[i].frame); err != nil {
			return nil, &RecordingError{Line: lines[i].number, Err: err}
		}
	}
	return events, nil
}

func readRecordedEvent[T source.Object](f *frame) (e source.Event[T], err error) {
	e.Type = watch.EventType(f.Type)
	switch {
	case f.Failure != nil:
		e.Err, e.Cut = f.Failure.err(), f.Cut
		e.Key = store.Key{Namespace: f.Failure.Namespace, Name: f.Failure.Name}
	case e.Type == watch.Bookmark:
		e.ResourceVersion, e.InitialEventsEnd = f.ResourceVersion, f.InitialEventsEnd
	case f.OutOfShard > 0:
		e.OutOfShard, e.ResourceVersion = f.OutOfShard, f.ResourceVersion
	case len(f.Rejected) > 0:
		bad := f.Rejected[0].rejection()
		e.Rejection, e.ResourceVersion = &bad, bad.Version.ResourceVersion
	default:
		if e.Object, err = decodeRecorded[T](f.Object); err == nil {
			e.ResourceVersion = e.Object.GetResourceVersion()
		}
	}
	return e, err
}

func (l *rejectedFrame) rejection() store.Rejection {
	return store.Rejection{
		Key:     store.Key{Namespace: l.Namespace, Name: l.Name},
		Version: store.Version{UID: types.UID(l.UID), ResourceVersion: l.ResourceVersion},
		Err:     l.Failure.err(),
	}
}

// decodeRecorded decodes an object of a recording.
func decodeRecorded[T source.Object](data []byte) (object T, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
	}()
	made := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	if loose, ok := made.(*unstructured.Unstructured); ok {
		err = utiljson.Unmarshal(data, &loose.Object) // Unstructured's own method requires a kind
	} else {
		err = utiljson.Unmarshal(data, made)
	}
	if err == nil {
		object = made.(T)
		object.GetResourceVersion() // a panic must happen here, where it is recovered
	}
	return object, err
}
