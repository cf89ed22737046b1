package reflector

import (
	"context"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// replayWatch is an open watch of a Replay.
type replayWatch[T Object] struct {
	of     *Replay[T]
	events chan watch.Event
	ctx    context.Context // until the watch is stopped
	cancel context.CancelFunc
}

func newReplayWatch[T Object](ctx context.Context, of *Replay[T]) *replayWatch[T] {
	w := &replayWatch[T]{of: of, events: make(chan watch.Event)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	go w.run()
	return w
}

func (w *replayWatch[T]) Stop() { w.cancel() }

func (w *replayWatch[T]) ResultChan() <-chan watch.Event { return w.events }

func (w *replayWatch[T]) run() {
	defer close(w.events)
	for w.next() {
		// next does all the work.
	}
}

// next delivers the next frames. It returns false when the watch has ended.
func (w *replayWatch[T]) next() bool {
	lines, behind, over := w.of.upcoming()
	if over {
		w.settle()
		if w.ctx.Err() == nil {
			w.of.finish(w.of.ending())
		}
		<-w.ctx.Done()
		return false
	}
	last := &lines[len(lines)-1]
	switch {
	case last.Kind == frameClosed && w.of.goesOn():
		w.settle()
		return false
	case last.Kind == frameEvent:
		events, err := readRecorded[T](lines)
		if err != nil {
			w.of.finish(err)
			events = []event[T]{{kind: watch.Error, err: err}}
		}
		given := false
		err = w.of.pace.pass(w.ctx, last, func() bool {
			given = w.send(carriedTogether[T]{events})
			if given {
				w.of.pass(behind)
			}
			if w.of.pace.steps != nil {
				w.settle()
			}
			return given
		})
		return err == nil && given
	case last.Kind == frameEnded:
		w.settle()
		_ = w.of.pace.pass(w.ctx, last, func() bool { w.of.pass(behind); return true })
		return false
	}
	// The recorded reflector closed the watch, so this reflector will close it too.
	<-w.ctx.Done()
	return false
}

func (w *replayWatch[T]) send(events carriedTogether[T]) bool {
	select {
	case w.events <- watch.Event{Object: events}:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// settle waits until the store has the last events. It sends empty events: the reflector receives
// them only when it has handled the earlier ones.
func (w *replayWatch[T]) settle() { w.send(carriedTogether[T]{}) }

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
	rest := r.lines[r.at:]
	if len(rest) == 0 || rest[0].Kind == frameStopped || rest[0].Kind == frameLost ||
		rest[0].Kind == frameClosed && (len(rest) == 1 || rest[1].Kind == frameLost || rest[1].Kind == frameStopped && len(rest) == 2) {
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
func readRecorded[T Object](lines []line) ([]event[T], error) {
	events := make([]event[T], len(lines))
	for i := range lines {
		var err error
		if events[i], err = readRecordedEvent[T](&lines[i].frame); err != nil {
			return nil, &RecordingError{Line: lines[i].number, Err: err}
		}
	}
	return events, nil
}

func readRecordedEvent[T Object](f *frame) (e event[T], err error) {
	e.kind = watch.EventType(f.Type)
	switch {
	case f.Failure != nil:
		e.err, e.cut = f.Failure.err(), f.Cut
		e.key = store.Key{Namespace: f.Failure.Namespace, Name: f.Failure.Name}
	case e.kind == watch.Bookmark:
		e.version, e.closing = f.ResourceVersion, f.InitialEventsEnd
	case f.Foreign > 0:
		e.foreign, e.version, e.departed = f.Foreign, f.ResourceVersion, f.Departed.departure()
	case len(f.Lacking) > 0:
		bad := f.Lacking[0].rejection()
		e.lacking, e.version = &bad, bad.Version.ResourceVersion
	default:
		if e.object, err = decodeRecorded[T](f.Object); err == nil {
			e.version = e.object.GetResourceVersion()
		}
	}
	return e, err
}

func (l *lackingFrame) rejection() store.Rejection {
	return store.Rejection{
		Key:     store.Key{Namespace: l.Namespace, Name: l.Name},
		Version: store.Version{UID: types.UID(l.UID), ResourceVersion: l.ResourceVersion},
		Err:     l.Failure.err(),
	}
}

// decodeRecorded decodes an object of a recording.
func decodeRecorded[T Object](data []byte) (object T, err error) {
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
