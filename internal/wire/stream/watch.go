package stream

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch is an open watch. One goroutine reads the frames and decodes them. Helpers join when data
// arrives faster than this goroutine decodes it.
type Watch[T Object] struct {
	of       *Reader[T]
	response *Response // provides the texts of errors
	frames   frames
	held     gate
	shards   *Shards
	parts    chan *part[[]Event[T]] // in order; results may be incomplete
	cancel   context.CancelFunc
	// err is the error that ended the watch; nil after an ordinary end, and after Next has
	// returned it. It is set when parts is closed.
	err error
}

// partsAhead is how many parts of a watch may wait for the receiver.
const partsAhead = 4

// Watch starts reading a watch that ends with ctx. Closing the watch calls cancel, which must end
// ctx. initial says that the response begins with a watch-list; the watch then does not decode objects
// that the store holds.
func (r *Reader[T]) Watch(ctx context.Context, cancel context.CancelFunc, response *Response, initial bool, skip Skip) *Watch[T] {
	s := &Watch[T]{
		of: r, response: response, frames: frames{response: response, limit: r.MaxObjectBytes}, held: gate{holds: skip.Holds, shards: skip.Shards, withoutManagedFields: r.WithoutManagedFields}, shards: skip.Shards,
		parts: make(chan *part[[]Event[T]], partsAhead), cancel: cancel,
	}
	if initial {
		r.Pool.keepAll()
	} else {
		r.Pool.keepFew()
	}
	go s.run(ctx)
	return s
}

// Next returns the events of the next part. At the end it returns an event with the error that
// ended the stream, if there is one.
func (s *Watch[T]) Next(ctx context.Context, wake <-chan time.Time) ([]Event[T], error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, ErrAwake
	case p, open := <-s.parts:
		switch {
		case open && p.wait(ctx.Done()):
			return p.result, nil
		case open:
			return nil, ctx.Err()
		case s.err == nil:
			return nil, io.EOF
		}
		last := Event[T]{Err: s.err, Cut: !s.unreadable()}
		s.err = nil
		return []Event[T]{last}, nil
	}
}

// Live makes the decoding goroutines decode every object. From then on, only a few objects arrive
// at a time.
func (s *Watch[T]) Live() {
	s.held.shut()
	s.of.Pool.keepFew()
}

// Close ends the stream and waits for its end.
func (s *Watch[T]) Close() error {
	s.cancel()
	return Drain(s.parts)
}

// unreadable reports whether invalid data ended the stream. Otherwise the connection broke, and
// another watch can resume.
func (s *Watch[T]) unreadable() bool {
	return errors.Is(s.err, wire.ErrMalformed) || errors.Is(s.err, wire.ErrTooLarge) || errors.Is(s.err, ErrContentType)
}

func (s *Watch[T]) run(ctx context.Context) {
	defer close(s.parts)
	defer s.response.Close()
	err := s.read(ctx)
	if err != io.EOF && ctx.Err() == nil {
		s.err = err
	}
}

const (
	// If the reader waited at least caughtUp for a batch of at most little bytes, it decodes the
	// batch itself. It has caught up, and waking a helper would cost more.
	caughtUp = 20 * time.Microsecond
	little   = partSize / 4
)

// read reads until the watch ends, and returns the reason.
func (s *Watch[T]) read(ctx context.Context) error {
	decoding := newPipeline(s.of, s.of.Decoders, true, func(d *decoder[T], events *[]Event[T], batch *wire.Batch) {
		s.decode(d, events, batch.Format, batch)
	})
	defer func() { decoding.close(ctx.Err() == nil) }()
	for {
		asked := time.Now()
		frames, err := s.frames.next()
		now := time.Now()
		if frames != nil {
			s.held.keepBack(frames.Format, frames)
		}
		follows := err != nil || frames != nil && len(frames.Frames) > 0
		if keys, version := s.held.pass(now, follows); keys != nil {
			e := Event[T]{Type: watch.Added, ResourceVersion: version, Held: keys}
			if !s.send(ctx, decoding.ready([]Event[T]{e})) {
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
		if !s.sendFrames(ctx, decoding, frames, now.Sub(asked)) {
			return ctx.Err()
		}
	}
}

// sendFrames decodes and sends a batch that arrived after a wait. It returns false if the watch was
// stopped.
func (s *Watch[T]) sendFrames(ctx context.Context, decoding *pipeline[*decoder[T], []Event[T]], batch *wire.Batch, after time.Duration) bool {
	if batch == nil {
		return true
	}
	if len(batch.Frames) == 0 {
		batch.Release()
		return true
	}
	var p *part[[]Event[T]]
	if after >= caughtUp && batch.Size() <= little {
		p = decoding.now(batch)
	} else if p = decoding.add(batch); p == nil {
		return true // the batch joined a part that was already sent
	}
	return s.send(ctx, p)
}

// send sends a part. It returns false if the watch was stopped.
func (s *Watch[T]) send(ctx context.Context, p *part[[]Event[T]]) bool {
	select {
	case s.parts <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// decode appends the events of a batch.
func (s *Watch[T]) decode(d *decoder[T], events *[]Event[T], format wire.Format, batch *wire.Batch) {
	*events = slices.Grow(*events, len(batch.Frames))
	for i := range batch.Frames {
		if frame := &batch.Frames[i]; !s.passBy(d, events, format, frame) {
			s.frame(d, events, format, frame)
		}
	}
}

// passBy handles a frame whose object is in no shard, without decoding it. It appends an event for
// the object and returns true, or returns false. Consecutive events of one type become one event.
func (s *Watch[T]) passBy(d *decoder[T], events *[]Event[T], format wire.Format, frame *wire.Frame) bool {
	kind := watch.EventType(frame.Type)
	if s.shards == nil || kind != watch.Added && kind != watch.Modified && kind != watch.Deleted {
		return false
	}
	if frame.Object == nil || !frame.Single() {
		return false
	}
	from, id := originOf(s.shards, format, frame.Object)
	if from != outOfShard {
		return false
	}
	version := d.ids.version(id).ResourceVersion
	if n := len(*events); n > 0 {
		if last := &(*events)[n-1]; last.OutOfShard > 0 && last.Type == kind {
			last.OutOfShard++
			last.ResourceVersion = version
			return true
		}
	}
	*events = append(*events, Event[T]{Type: kind, ResourceVersion: version, OutOfShard: 1})
	return true
}

// partlyOut reports whether an object is in no shard although a quick look at its bytes does not
// tell.
func (s *Watch[T]) partlyOut(format wire.Format, data []byte) bool {
	if s.shards == nil {
		return false
	}
	from, _ := originOf(s.shards, format, data)
	key, _, ok := identify(format, data)
	return from == unclear && ok && key.Name != "" && originByMetadata(s.shards, format, data) == outOfShard
}

// frame appends the event of a frame, or several events if the frame turns out to hold several.
func (s *Watch[T]) frame(d *decoder[T], events *[]Event[T], format wire.Format, frame *wire.Frame) {
	e, ok := s.event(d, format, frame)
	if ok || format != wire.JSON {
		*events = append(*events, e)
		return
	}
	frames, err := frame.Recut()
	if err != nil {
		*events = append(*events, e)
		return
	}
	for i := range frames {
		e, _ := s.event(d, format, &frames[i])
		*events = append(*events, e)
	}
}

// event converts a frame to an event. It returns false if the object cannot be decoded.
func (s *Watch[T]) event(d *decoder[T], format wire.Format, frame *wire.Frame) (Event[T], bool) {
	e := Event[T]{Type: watch.EventType(frame.Type)}
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		return s.object(d, format, frame, e)
	case watch.Bookmark:
		return s.bookmark(format, frame, e)
	case watch.Error:
		e.Err = s.failure(format, frame)
		return e, true
	}
	e.Err = s.fail(frame, &EventTypeError{Type: frame.Type})
	return e, true
}

func (s *Watch[T]) object(d *decoder[T], format wire.Format, frame *wire.Frame, e Event[T]) (Event[T], bool) {
	if frame.Object == nil {
		e.Err = s.fail(frame, s.nothing())
		return e, true
	}
	decoded, err := d.decode(format, frame.Object)
	if s.partlyOut(format, frame.Object) {
		_, version, _ := identify(format, frame.Object)
		e.markOut(version.ResourceVersion)
		return e, true
	}
	if err == nil && decoded.key.Name != "" {
		setKind(decoded.object, d.kinds.of(frame))
		if _, other := d.check(decoded.object, decoded.key.Namespace, format, frame.Object); other != nil {
			e.Err = s.fail(frame, other)
			return e, true
		}
		e.Object, e.ResourceVersion, e.Hash = decoded.object, decoded.version, d.hash(format, frame)
		e.Err = s.longVersion(e.ResourceVersion)
		return e, true
	}
	// This may be an object of another kind.
	if other := s.otherKind(format, frame); other != nil {
		e.Err = s.fail(frame, other)
		return e, true
	}
	if err == nil {
		e.Object, e.ResourceVersion = decoded.object, decoded.version
		return e, true
	}
	bad, ok := rejectionOf(format, frame.Object, err)
	if !ok {
		e.Err = s.fail(frame, err)
		return e, false
	}
	if bad.Key.Name != "" {
		if other := s.of.CheckNamespace(bad.Key.Namespace); other != nil {
			e.Err = s.fail(frame, other)
			return e, true
		}
	}
	e.Rejection, e.ResourceVersion = &bad, bad.Version.ResourceVersion
	e.Err = s.longVersion(e.ResourceVersion)
	return e, false
}

// longVersion returns an error if a version is too long.
func (s *Watch[T]) longVersion(version string) error {
	if err := CheckVersion(version); err != nil {
		return s.response.Fail(nil, err)
	}
	return nil
}

// fail wraps the error of a frame.
func (s *Watch[T]) fail(frame *wire.Frame, err error) error {
	return s.response.Fail(frame.Object[:min(len(frame.Object), headSize)], err)
}

// otherKind returns an error if the object of a frame has another kind than the resource.
func (s *Watch[T]) otherKind(format wire.Format, frame *wire.Frame) error {
	kind := metav1.TypeMeta{Kind: string(frame.Kind), APIVersion: string(frame.APIVersion)}
	if format != wire.Protobuf && utiljson.Unmarshal(frame.Object, &kind) != nil {
		return nil
	}
	switch {
	case isTableKind(kind):
		return ErrTable
	case kind.Kind == "Status" && kind.APIVersion == "v1":
		return &TypeError{Want: s.of.Type, Got: kind.Kind}
	}
	return s.of.CheckKind(kind)
}

func isTableKind(kind metav1.TypeMeta) bool {
	return kind.Kind == "Table" && strings.HasPrefix(kind.APIVersion, metav1.GroupName+"/")
}

func (s *Watch[T]) bookmark(format wire.Format, frame *wire.Frame, e Event[T]) (Event[T], bool) {
	if frame.Object == nil {
		e.Err = s.fail(frame, s.nothing())
		return e, true
	}
	b, err := readBookmark(format, frame)
	if err != nil && b == (bookmark{}) {
		e.Err = s.fail(frame, errors.Join(wire.ErrMalformed, err))
		return e, false
	}
	e.ResourceVersion, e.InitialEventsEnd = b.version, b.closing
	e.Err = s.longVersion(e.ResourceVersion)
	return e, true
}

// nothing returns the error for an event without an object.
func (s *Watch[T]) nothing() error { return &TypeError{Want: s.of.Type, Got: "nil"} }

// failure returns the error of an ERROR event.
func (s *Watch[T]) failure(format wire.Format, frame *wire.Frame) error {
	if frame.Object == nil {
		return s.fail(frame, &TypeError{Want: "*v1.Status", Got: "nil"})
	}
	var status metav1.Status
	if err := wire.Unmarshal(format, frame.Object, &status); err != nil {
		return s.fail(frame, errors.Join(wire.ErrMalformed, err))
	}
	kind := status.Kind
	if format == wire.Protobuf {
		kind = string(frame.Kind) // the protobuf message has no kind
	}
	if kind != "Status" {
		return s.fail(frame, &TypeError{Want: "*v1.Status", Got: Cut(kind, MaxName)})
	}
	return s.response.Refused(apierrors.FromObject(&status))
}
