package record

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/internal/exactjson"
	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Recorded is a client that records the answers of another client. See [Client].
type Recorded[T source.Object, L any] struct {
	source.Client[T, L]
	to *Recorder
}

// Client returns a client that records the requests of its reflector and the answers of another
// client:
//
//	recorder := record.NewRecorder(file)
//	r := reflector.New(record.Client(client, recorder), pods)
//
// With a nil recorder it records nothing. Only the requests of a reflector are recorded.
func Client[T source.Object, L any](client source.Client[T, L], recorder *Recorder) *Recorded[T, L] {
	return &Recorded[T, L]{client, recorder}
}

// IsWatchListSemanticsUnSupported reports whether the client cannot serve watch-lists.
func (c *Recorded[T, L]) IsWatchListSemanticsUnSupported() bool { return !source.CanStream(c.Client) }

// Source returns the recording source for a reflector. It returns nil if self is a wrapper of the
// client.
func (c *Recorded[T, L]) Source(self any) source.Source[T] {
	if self != any(c) {
		return nil
	}
	of := source.Of(c.Client)
	if c.to == nil {
		return of
	}
	return &recorded[T]{Source: of, to: c.to}
}

// recorded is a source that records the answers of another source.
type recorded[T source.Object] struct {
	source.Source[T]
	to     *Recorder
	report func(error) // of the current run
}

// Begin starts the recording of a run.
func (r *recorded[T]) Begin(run source.Run) (end func(), err error) {
	if err := r.to.claim(run.Reflector); err != nil {
		return nil, err
	}
	inner := func() {}
	if session, ok := r.Source.(source.Session); ok {
		if inner, err = session.Begin(run); err != nil {
			return nil, err
		}
	}
	r.report = run.Report
	about := r.About()
	if about.Type == nil {
		about.Type = reflect.TypeFor[T]()
	}
	stop := r.to.start(heading{
		Format: recordingFormat, Version: recordingVersion, Type: typeName(about.Type), Masked: !r.to.masks.ShowSecrets,
		Reflector: run.Name, Resource: about.Resource, WatchList: run.WatchLists,
	})
	r.add(frame{Kind: frameRun, ResourceVersion: run.ResourceVersion})
	return func() {
		r.add(frame{Kind: frameStopped})
		stop()
		r.tell()
		inner()
	}, nil
}

// Lookup is that of the source. It is not recorded: only the requests that fill a store are.
func (r *recorded[T]) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	return source.Lookup(ctx, r.Source, key)
}

// tell reports the end of the recording, once.
func (r *recorded[T]) tell() {
	if err := r.to.untold(); err != nil {
		r.report(err)
	}
}

// active reports whether the recorder accepts frames.
func (r *recorded[T]) active() bool {
	_, wanted := r.to.now()
	return wanted
}

func (r *recorded[T]) add(f frame) {
	var wanted bool
	if f.At, wanted = r.to.now(); wanted {
		r.to.add(&f)
	}
}

// List records a list. The source delivers every object, also those that the store holds.
func (r *recorded[T]) List(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (source.Page[T], error) {
	r.tell()
	if !r.active() {
		return r.Source.List(ctx, opts, w)
	}
	r.add(frame{Kind: frameList, Options: &opts, Probe: w.Probe != nil})
	w.Holds, w.Take = nil, nil
	p, err := r.Source.List(ctx, opts, w)
	if err != nil {
		r.failed(ctx, err)
		return p, err
	}
	p.Conflict = w.Probe != nil && w.Probe(p)
	r.page(p)
	return p, nil
}

// Watch records a watch.
func (r *recorded[T]) Watch(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (source.Stream[T], error) {
	r.tell()
	if !r.active() {
		return r.Source.Watch(ctx, opts, w)
	}
	r.add(frame{Kind: frameWatch, Options: &opts})
	w.Holds = nil
	open, err := r.Source.Watch(ctx, opts, w)
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	r.add(frame{Kind: frameOpened})
	return &recordedStream[T]{Stream: open, of: r, shards: w.Shards}, nil
}

// failed records the failure of a request, unless the run has ended.
func (r *recorded[T]) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if cause != error(protocol.NoAnswer) {
			return
		}
		err = fmt.Errorf("%w: %w", cause, err)
	}
	r.add(frame{Kind: frameFailed, Failure: r.failure(err)})
}

// page records the response to a list request.
func (r *recorded[T]) page(p source.Page[T]) {
	f := frame{
		Kind: framePage, ResourceVersion: p.ResourceVersion, Continue: p.Continue, Sharded: p.Sharded, OutOfShard: p.OutOfShard, Conflict: p.Conflict,
		Items: make([]json.RawMessage, len(p.Items)),
	}
	for i, object := range p.Items {
		var err error
		if f.Items[i], err = r.encode(object); err != nil {
			r.to.fail(err)
			return
		}
	}
	for _, bad := range p.Rejections {
		f.Rejected = append(f.Rejected, r.rejected(bad))
	}
	r.add(f)
}

// recordedStream records the events of a watch.
type recordedStream[T source.Object] struct {
	source.Stream[T]
	of     *recorded[T]
	shards *source.Shards // of the reflector, so that the objects of others are not recorded
	// frames are events that the reflector may not have handled yet. If its run ends before it
	// handles them, they are not recorded.
	frames []frame
	ctx    context.Context // of the last call of Next
}

// Next records the last events, which the reflector has handled, and waits for more.
func (s *recordedStream[T]) Next(ctx context.Context, wake <-chan time.Time) ([]source.Event[T], error) {
	s.flush()
	s.of.tell()
	s.ctx = ctx
	events, err := s.Stream.Next(ctx, wake)
	switch {
	case err == io.EOF:
		s.of.add(frame{Kind: frameEnded})
	case err == nil:
		for i := range events {
			events[i].Filter(s.shards)
		}
		s.frames = s.of.received(events)
	}
	return events, err
}

// Unhandled drops the frames of the last events that the reflector has not handled, if its run has
// ended. Otherwise they came with an event for which the reflector closes the watch.
func (s *recordedStream[T]) Unhandled(events int) {
	if s.ctx == nil || s.ctx.Err() == nil {
		return
	}
	s.frames = s.frames[:max(len(s.frames)-events, 0)]
	if n := len(s.frames); n > 0 {
		s.frames[n-1].More = false
	}
}

// Close records the end of the watch.
func (s *recordedStream[T]) Close() error {
	s.flush()
	s.of.add(frame{Kind: frameClosed})
	return s.Stream.Close()
}

func (s *recordedStream[T]) flush() {
	for i := range s.frames {
		s.of.to.add(&s.frames[i])
	}
	s.frames = nil
}

// received returns the frames of events that arrived together.
func (r *recorded[T]) received(events []source.Event[T]) []frame {
	at, wanted := r.to.now()
	if !wanted {
		return nil
	}
	frames := make([]frame, 0, len(events))
	for i := range events {
		f, err := r.event(&events[i])
		if err != nil {
			r.to.fail(err)
			return nil
		}
		f.At, f.More = at, i < len(events)-1
		frames = append(frames, f)
	}
	return frames
}

func (r *recorded[T]) event(e *source.Event[T]) (f frame, err error) {
	f = frame{Kind: frameEvent, Type: string(e.Type)}
	switch {
	case e.Cut:
		f.Cut, f.Failure = true, r.failure(e.Err)
	case e.Err != nil:
		f.Failure = r.failure(e.Err)
		f.Failure.Namespace, f.Failure.Name = e.Key.Namespace, e.Key.Name
	case e.Type == watch.Bookmark:
		f.ResourceVersion, f.InitialEventsEnd = e.ResourceVersion, e.InitialEventsEnd
	case e.OutOfShard > 0:
		f.OutOfShard, f.ResourceVersion = e.OutOfShard, e.ResourceVersion
	case e.Rejection != nil:
		f.Rejected = []rejectedFrame{r.rejected(*e.Rejection)}
	default:
		f.Object, err = r.encode(e.Object)
	}
	return f, err
}

func (r *recorded[T]) rejected(bad store.Rejection) rejectedFrame {
	return rejectedFrame{
		Namespace: bad.Key.Namespace, Name: bad.Key.Name,
		UID: string(bad.Version.UID), ResourceVersion: bad.Version.ResourceVersion,
		Failure: *r.failure(bad.Err),
	}
}

// encode returns the recorded form of an object. A panic in a method of T ends only the recording.
func (r *recorded[T]) encode(object T) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
		if err != nil {
			err = fmt.Errorf("recording ended: encode %T: %w", object, err)
		}
	}()
	masks := &r.to.masks
	if data, err = exactjson.Append(nil, object); err != nil || masks.ShowSecrets && len(masks.Paths) == 0 {
		return data, err
	}
	tree, err := masking.Decode(data)
	if err != nil {
		return nil, err
	}
	masks.Object(tree, typeName(reflect.TypeOf(object)))
	return json.Marshal(tree) // its numbers are texts
}

func (r *recorded[T]) failure(err error) *failureFrame {
	return newFailureFrame(err, !r.to.masks.ShowSecrets)
}

// typeName returns the name of a type with the path of its package.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeName(t.Elem())
	}
	if t.PkgPath() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}
