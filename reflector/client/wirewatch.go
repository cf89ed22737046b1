package client

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/sharedwatch"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// wireWatch is an open watch of a Resource. One goroutine reads the stream, cuts it into frames and
// decodes them. Helpers join when data arrives faster than this goroutine decodes it.
type wireWatch[T source.Object] struct {
	of     *Resource[T]
	answer *answer            // provides the texts of errors
	frames sharedwatch.Reader // nil means the frames of answer
	held   gate[T]
	shards *source.Shards
	parts  chan *part[[]source.Event[T]] // in order; results may be incomplete
	cancel context.CancelFunc
	// err is the error that ended the stream; nil after an ordinary end, and after next has
	// returned it. It is set when parts is closed.
	err error
}

// partsAhead is how many parts of a watch may wait for the receiver.
const partsAhead = 4

// watch opens a watch. During the first objects of a watch-list, it does not decode objects that
// the store holds.
func (r *Resource[T]) watch(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (*wireWatch[T], error) {
	opts.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	a, err := r.open(ctx, &opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return r.follow(ctx, cancel, a, nil, opts, w), nil
}

// follow starts reading a watch that ends with its context.
func (r *Resource[T]) follow(ctx context.Context, cancel context.CancelFunc, a *answer, frames sharedwatch.Reader, opts metav1.ListOptions, w source.Wants[T]) *wireWatch[T] {
	s := &wireWatch[T]{
		of: r, answer: a, frames: frames, held: gate[T]{holds: w.Holds}, shards: w.Shards,
		parts: make(chan *part[[]source.Event[T]], partsAhead), cancel: cancel,
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		r.keepAll()
	} else {
		r.keepFew()
	}
	go s.run(ctx)
	return s
}

// Next returns the events of the next part. At the end it returns an event with the error that
// ended the stream, if there is one.
func (s *wireWatch[T]) Next(ctx context.Context, wake <-chan time.Time) ([]source.Event[T], error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, source.ErrAwake
	case p, open := <-s.parts:
		switch {
		case open && p.wait(ctx.Done()):
			return p.result, nil
		case open:
			return nil, ctx.Err()
		case s.err == nil:
			return nil, io.EOF
		}
		last := source.Event[T]{Err: s.err, Cut: !s.unreadable()}
		s.err = nil
		return []source.Event[T]{last}, nil
	}
}

// Live makes the decoding goroutines decode every object. From then on, only a few objects arrive
// at a time.
func (s *wireWatch[T]) Live() {
	s.held.shut()
	s.of.keepFew()
}

// Close ends the stream and waits for its end.
func (s *wireWatch[T]) Close() error {
	s.cancel()
	return source.Drain(s.parts)
}

// unreadable reports whether invalid data ended the stream. Otherwise the connection broke, and
// another watch can resume.
func (s *wireWatch[T]) unreadable() bool {
	return errors.Is(s.err, ErrMalformed) || errors.Is(s.err, ErrTooLarge) || errors.Is(s.err, ErrContentType)
}

func (s *wireWatch[T]) run(ctx context.Context) {
	defer close(s.parts)
	if s.frames == nil {
		s.frames = &answerFrames{answer: s.answer, limit: s.of.options.maxObjectBytes}
	}
	defer s.frames.Close()
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
func (s *wireWatch[T]) read(ctx context.Context) error {
	decoding := newPipeline(s.of, true, func(d *decoder[T], events *[]source.Event[T], batch *wire.Batch) {
		s.decode(d, events, batch.Format, batch)
	})
	defer func() { decoding.close(ctx.Err() == nil) }()
	for {
		asked := time.Now()
		came, err := s.frames.Next(ctx)
		now := time.Now()
		if came.Frames != nil {
			s.held.keepBack(s, decoding.own, came.Frames.Format, came.Frames)
		}
		if e, ok := s.held.pass(now, err != nil || came.Size() > 0 || came.OutOfShard > 0); ok && !s.send(ctx, decoding.ready([]source.Event[T]{e})) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if !s.sendFrames(ctx, decoding, came.Frames, now.Sub(asked)) {
			return ctx.Err()
		}
		if e, ok := othersEvent[T](came); ok && !s.send(ctx, decoding.ready([]source.Event[T]{e})) {
			return ctx.Err()
		}
	}
}

// sendFrames decodes and sends a batch that arrived after a wait. It returns false if the watch was
// stopped.
func (s *wireWatch[T]) sendFrames(ctx context.Context, decoding *pipeline[T, []source.Event[T]], batch *wire.Batch, after time.Duration) bool {
	if batch == nil {
		return true
	}
	if len(batch.Frames) == 0 {
		batch.Release()
		return true
	}
	var p *part[[]source.Event[T]]
	if after >= caughtUp && batch.Size() <= little {
		p = decoding.now(batch)
	} else if p = decoding.add(batch); p == nil {
		return true // the batch joined a part that was already sent
	}
	return s.send(ctx, p)
}

// send sends a part. It returns false if the watch was stopped.
func (s *wireWatch[T]) send(ctx context.Context, p *part[[]source.Event[T]]) bool {
	select {
	case s.parts <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// decode appends the events of a batch.
func (s *wireWatch[T]) decode(d *decoder[T], events *[]source.Event[T], format wire.Format, batch *wire.Batch) {
	*events = slices.Grow(*events, len(batch.Frames))
	for i := range batch.Frames {
		if frame := &batch.Frames[i]; !s.foreign(d, events, format, frame) {
			s.frame(d, events, format, frame)
		}
	}
}

// foreign handles a frame whose object is in no shard, without decoding it. It appends an event for
// the object and returns true, or returns false. Consecutive events of one type become one event.
func (s *wireWatch[T]) foreign(d *decoder[T], events *[]source.Event[T], format wire.Format, frame *wire.Frame) bool {
	kind := watch.EventType(frame.Type)
	if s.shards == nil || kind != watch.Added && kind != watch.Modified && kind != watch.Deleted {
		return false
	}
	if frame.Object == nil || !frame.Single() {
		return false
	}
	from, id := sift(s.shards, format, frame.Object)
	if from != foreign {
		return false
	}
	e := source.Event[T]{Type: kind}
	e.MarkOut(s.shards, d.keyOf(id), d.versionOf(id))
	if n := len(*events); n > 0 && e.Left == nil {
		if last := &(*events)[n-1]; last.OutOfShard > 0 && last.Left == nil && last.Type == kind {
			last.OutOfShard++
			last.ResourceVersion = e.ResourceVersion
			return true
		}
	}
	*events = append(*events, e)
	return true
}

// domestic reports whether an object is certainly in one of the shards.
func (s *wireWatch[T]) domestic(format wire.Format, data []byte) bool {
	from, _ := sift(s.shards, format, data)
	return from == domestic
}

// undecidedForeign reports whether an object is in no shard although a quick look at its bytes does
// not tell.
func (s *wireWatch[T]) undecidedForeign(format wire.Format, data []byte) bool {
	if s.shards == nil {
		return false
	}
	from, _ := sift(s.shards, format, data)
	key, _, ok := identify(format, data)
	return from == unclear && ok && key.Name != "" && siftPartly(s.shards, format, data) == foreign
}

// frame appends the event of a frame, or several events if the frame turns out to hold several.
func (s *wireWatch[T]) frame(d *decoder[T], events *[]source.Event[T], format wire.Format, frame *wire.Frame) {
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
func (s *wireWatch[T]) event(d *decoder[T], format wire.Format, frame *wire.Frame) (source.Event[T], bool) {
	e := source.Event[T]{Type: watch.EventType(frame.Type)}
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		return s.object(d, format, frame, e)
	case watch.Bookmark:
		return s.bookmark(format, frame, e)
	case watch.Error:
		e.Err = s.failure(format, frame)
		return e, true
	}
	e.Err = s.fail(frame, &source.EventTypeError{Type: frame.Type})
	return e, true
}

func (s *wireWatch[T]) object(d *decoder[T], format wire.Format, frame *wire.Frame, e source.Event[T]) (source.Event[T], bool) {
	if frame.Object == nil {
		e.Err = s.fail(frame, source.NewTypeError[T](nil))
		return e, true
	}
	decoded, err := d.decode(format, frame.Object)
	if s.undecidedForeign(format, frame.Object) {
		key, version, _ := identify(format, frame.Object)
		e.MarkOut(s.shards, key, version)
		return e, true
	}
	if err == nil && decoded.key.Name != "" {
		setKind(decoded.object, d.kinds.of(frame))
		if _, other := d.check(decoded.object, decoded.key.Namespace, format, frame.Object); other != nil {
			e.Err = s.fail(frame, other)
			return e, true
		}
		e.Object, e.ResourceVersion = decoded.object, decoded.version
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
	bad, ok := d.rejection(format, frame.Object, err)
	if !ok {
		e.Err = s.fail(frame, err)
		return e, false
	}
	if bad.Key.Name != "" {
		if other := s.of.checkNamespace(bad.Key.Namespace); other != nil {
			e.Err = s.fail(frame, other)
			return e, true
		}
	}
	e.Rejection, e.ResourceVersion = &bad, bad.Version.ResourceVersion
	e.Err = s.longVersion(e.ResourceVersion)
	return e, false
}

// longVersion returns an error if a version is too long.
func (s *wireWatch[T]) longVersion(version string) error {
	if err := source.CheckVersion(version); err != nil {
		return s.answer.fail(nil, err)
	}
	return nil
}

// fail wraps the error of a frame.
func (s *wireWatch[T]) fail(frame *wire.Frame, err error) error {
	return s.answer.fail(frame.Object[:min(len(frame.Object), headSize)], err)
}

// otherKind returns an error if the object of a frame has another kind than the resource.
func (s *wireWatch[T]) otherKind(format wire.Format, frame *wire.Frame) error {
	kind := metav1.TypeMeta{Kind: string(frame.Kind), APIVersion: string(frame.APIVersion)}
	if format != wire.Protobuf && utiljson.Unmarshal(frame.Object, &kind) != nil {
		return nil
	}
	switch {
	case isTableKind(kind):
		return source.ErrTable
	case kind.Kind == "Status" && kind.APIVersion == "v1":
		return &source.TypeError{Want: reflect.TypeFor[T]().String(), Got: kind.Kind}
	}
	return s.of.expected.check(kind)
}

func isTableKind(kind metav1.TypeMeta) bool {
	return kind.Kind == "Table" && strings.HasPrefix(kind.APIVersion, metav1.GroupName+"/")
}

// bookmark decodes a bookmark. Its object has only a version and, after the first objects of a
// watch-list, an annotation.
func (s *wireWatch[T]) bookmark(format wire.Format, frame *wire.Frame, e source.Event[T]) (source.Event[T], bool) {
	if frame.Object == nil {
		e.Err = s.fail(frame, source.NewTypeError[T](nil))
		return e, true
	}
	var object metav1.PartialObjectMetadata
	if err := wire.Unmarshal(format, frame.Object, &object); err != nil {
		e.Err = s.fail(frame, errors.Join(ErrMalformed, err))
		return e, false
	}
	e.ResourceVersion = object.ResourceVersion
	e.Err = s.longVersion(e.ResourceVersion)
	e.InitialEventsEnd = object.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	return e, true
}

// failure returns the error of an ERROR event.
func (s *wireWatch[T]) failure(format wire.Format, frame *wire.Frame) error {
	if frame.Object == nil {
		return s.fail(frame, source.NewTypeError[*metav1.Status](nil))
	}
	var status metav1.Status
	if err := wire.Unmarshal(format, frame.Object, &status); err != nil {
		return s.fail(frame, errors.Join(ErrMalformed, err))
	}
	kind := status.Kind
	if format == wire.Protobuf {
		kind = string(frame.Kind) // the protobuf message has no kind
	}
	if kind != "Status" {
		return s.fail(frame, &source.TypeError{Want: "*v1.Status", Got: source.Cut(kind, source.MaxName)})
	}
	return s.answer.refused(apierrors.FromObject(&status))
}
