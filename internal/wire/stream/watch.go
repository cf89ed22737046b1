package stream

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch is an open watch. One goroutine reads the frames and decodes them. Helpers join when data
// arrives faster than this goroutine decodes it.
type Watch[T Object] struct {
	of       *Reader[T]
	response *Response // whose body is read; also for the texts of errors
	wants    Wants[T]
	// parts has the order of the frames. A part is mostly sent before it is decoded, and more frames may
	// join it until a goroutine takes it; so its result is complete only when its done is nil or closed.
	parts  chan *part[T]
	cancel context.CancelFunc
	// err is the error that ended the watch; nil after an ordinary end, and after Next has
	// returned it. It is set before parts is closed: read it after.
	err error
}

const (
	// partsAhead is how many parts of a watch may wait for the receiver.
	partsAhead = 4
	// If the reader waited at least caughtUp for a batch of at most little bytes, it decodes the
	// batch itself. It has caught up, and waking a helper would cost more.
	caughtUp = 20 * time.Microsecond
	little   = partSize / 4
	// About mostHeld objects that the caller holds become one item. Fewer do if longestWait is over when
	// the next batch comes, so that the reflector notices progress of a slow server.
	mostHeld    = 512
	longestWait = 100 * time.Millisecond
)

// Watch starts reading a watch that ends with ctx. Closing the watch calls cancel, which must end
// ctx. initial says that the response begins with a watch-list; the watch then does not decode objects
// that the store holds.
func (r *Reader[T]) Watch(ctx context.Context, cancel context.CancelFunc, response *Response, initial bool, w Wants[T]) *Watch[T] {
	s := &Watch[T]{
		of: r, response: response, wants: w, parts: make(chan *part[T], partsAhead), cancel: cancel,
	}
	if initial {
		r.Pool.keep(runtime.GOMAXPROCS(0))
	} else {
		r.Pool.keep(few)
	}
	go func() {
		defer close(s.parts)
		defer response.Close()
		if err := s.read(ctx, initial); err != io.EOF && ctx.Err() == nil {
			s.err = err
		}
	}()
	return s
}

// Next implements [Items]. At the end it returns an item with the error that ended the watch, if
// there is one.
func (s *Watch[T]) Next(ctx context.Context, wake <-chan time.Time) ([]Item[T], error) {
	var next *part[T]
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, ErrAwake
	case next = <-s.parts:
	}
	if next != nil {
		if next.done != nil {
			select {
			case <-next.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return next.result, nil
	}
	if s.err == nil {
		return nil, io.EOF
	}
	last := Item[T]{Kind: Ended, Err: s.err}
	if errors.Is(s.err, wire.ErrMalformed) || errors.Is(s.err, wire.ErrTooLarge) || errors.Is(s.err, ErrContentType) {
		last.Kind = Failed // by invalid data, which another watch would bring as well
	}
	s.err = nil
	return []Item[T]{last}, nil
}

// Close ends the watch and waits for its end.
func (s *Watch[T]) Close() error {
	s.cancel()
	return Drain(s.parts)
}

// read reads until the watch ends, and returns the reason.
func (s *Watch[T]) read(ctx context.Context, initial bool) error {
	format, body := s.response.open()
	frames := wire.NewWatch(body, format, s.of.MaxObjectBytes)
	decoding := newPipeline(s.of, 0, func(d *decoder[T], items *[]Item[T], batch *wire.Batch) {
		s.decode(d, items, format, batch)
	})
	defer decoding.close()
	var held []Item[T] // one item for all objects of some batches, whose objects the caller holds, or none
	var sent time.Time // when held was sent last
	for {
		asked := time.Now()
		batch, err := frames.Next() // nil with an error
		now := time.Now()
		if initial && err == nil {
			initial = s.ask(decoding.own, format, batch)
		}
		whole := err == nil && keepWhole(&held, batch)
		if len(held) > 0 && (!whole || len(held[0].Keys) >= mostHeld || now.Sub(sent) >= longestWait) {
			if !s.send(ctx, decoding.addResult(held)) {
				return ctx.Err()
			}
			held, sent = nil, now
		}
		switch {
		case err == io.EOF:
			return err
		case err != nil:
			return s.response.Fail(frames.Head(), err)
		case whole:
			continue
		}
		var p *part[T]
		if now.Sub(asked) >= caughtUp && batch.Size() <= little {
			p = decoding.decodeNow(batch)
		} else if p = decoding.add(batch); p == nil {
			continue // the batch joined the part that was sent last, which no goroutine has taken yet
		}
		if !s.send(ctx, p) {
			return ctx.Err()
		}
	}
}

// ask asks which objects of the initial events of a watch-list the caller holds, and reports whether more
// initial events may follow. It asks about no later event, because the reflector replaces the content of the
// store when it receives the bookmark after the initial events.
func (s *Watch[T]) ask(d *decoder[T], format wire.Format, batch *wire.Batch) (more bool) {
	for i := range batch.Frames {
		frame := &batch.Frames[i]
		over := !frame.Single() // it may hide the bookmark
		if frame.Type == string(watch.Bookmark) {
			_, closing, err := readBookmark(format, frame)
			over = closing || err != nil
		}
		if over {
			s.of.Pool.keep(few) // from now on, only a few objects arrive at a time
			return false
		}
		if frame.Type == string(watch.Added) && frame.Object != nil && s.wants.Holds != nil {
			d.ask(&s.wants, format, frame)
		}
	}
	return true
}

// send sends a part. It returns false if the watch was stopped.
func (s *Watch[T]) send(ctx context.Context, p *part[T]) bool {
	select {
	case s.parts <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// decode appends the items of a batch.
func (s *Watch[T]) decode(d *decoder[T], items *[]Item[T], format wire.Format, batch *wire.Batch) {
	for i := 0; i < len(batch.Frames); i++ {
		if n := keep(items, batch.Frames[i:]); n > 0 {
			i += n - 1
			continue
		}
		frame := &batch.Frames[i]
		if s.wants.Shards != nil && s.passBy(d, items, format, frame) {
			continue
		}
		*items = slices.Grow(*items, len(batch.Frames)-i)
		item, whole := s.item(d, format, frame)
		if whole || format != wire.JSON {
			*items = append(*items, item)
			continue
		}
		frames, err := frame.Recut() // into several events, if the frame turns out to hold several
		if err != nil {
			*items = append(*items, item)
			continue
		}
		for i := range frames {
			item, _ := s.item(d, format, &frames[i])
			*items = append(*items, item)
		}
	}
}

// changeOf returns how an event of a type changes the store; 0 if it is not about an object.
func changeOf(event string) store.ChangeType {
	switch watch.EventType(event) {
	case watch.Added:
		return store.Addition
	case watch.Modified:
		return store.Modification
	case watch.Deleted:
		return store.Deletion
	}
	return 0
}

// passBy handles a frame whose object is in no shard, without decoding it. It appends an item for the
// object and returns true, or returns false.
func (s *Watch[T]) passBy(d *decoder[T], items *[]Item[T], format wire.Format, frame *wire.Frame) bool {
	change := changeOf(frame.Type)
	if change == 0 || frame.Object == nil || !frame.Single() {
		return false
	}
	id, yes := s.wants.Shards.excludes(format, frame.Object)
	if !yes || CheckVersion(string(id.ResourceVersion)) != nil { // item fails that one
		return false
	}
	passOver(items, change, d.ids.text(id.ResourceVersion))
	return true
}

// item converts a frame to an item. whole is false if the frame cannot be decoded as one event, so that it may
// hold several: see Recut. It is true for every other event, also an invalid one, such as one without an object.
func (s *Watch[T]) item(d *decoder[T], format wire.Format, frame *wire.Frame) (_ Item[T], whole bool) {
	change := changeOf(frame.Type)
	switch {
	case change == 0:
		return s.other(format, frame)
	case frame.Object == nil:
		return s.fail(frame, &answer.TypeError{Want: s.of.Type, Got: "nil"}), true
	}
	decoded, err := d.decode(format, frame.Object)
	item := Item[T]{Kind: Put, Version: decoded.version, Write: store.Write[T]{Type: change, Object: decoded.object}}
	if change == store.Deletion {
		item.Kind, item.Write.FinalStateKnown = Delete, true
	}
	if err == nil && decoded.key.Name != "" {
		if len(frame.Kind) > 0 { // protobuf has the kind outside of the object
			if string(frame.Kind) != d.envelope.Kind || string(frame.APIVersion) != d.envelope.APIVersion {
				d.envelope = metav1.TypeMeta{Kind: string(frame.Kind), APIVersion: string(frame.APIVersion)}
			}
			setKind(decoded.object, d.envelope)
		}
		if _, mismatch := d.check(decoded.object, decoded.key.Namespace, format, frame.Object); mismatch != nil {
			return s.fail(frame, mismatch), true
		}
		item.Write.Hash = d.hash(format, frame)
	} else {
		// This may be an object of another kind.
		if mismatch := s.otherKind(format, frame); mismatch != nil {
			return s.fail(frame, mismatch), true
		}
		if err == nil { // the store rejects what has no name
			if long := CheckVersion(item.Version); long != nil {
				return Item[T]{Kind: Failed, Err: s.response.Fail(nil, long)}, true
			}
			return item, true
		}
		key, version, ok := identify(format, frame.Object)
		if !ok {
			return s.fail(frame, err), false
		}
		if key.Name != "" {
			if mismatch := s.of.CheckNamespace(key.Namespace); mismatch != nil {
				return s.fail(frame, mismatch), true
			}
		}
		item = Undecodable[T](change, key, version, err)
	}
	if long := CheckVersion(item.Version); long != nil {
		item = Item[T]{Kind: Failed, Err: s.response.Fail(nil, long)}
	}
	return item, err == nil
}

// other converts a frame that is about no object. whole is as in item.
func (s *Watch[T]) other(format wire.Format, frame *wire.Frame) (_ Item[T], whole bool) {
	switch watch.EventType(frame.Type) {
	case watch.Bookmark:
		if frame.Object == nil {
			return s.fail(frame, &answer.TypeError{Want: s.of.Type, Got: "nil"}), true
		}
		version, closing, err := readBookmark(format, frame)
		switch {
		case err != nil && version == "" && !closing:
			return s.fail(frame, errors.Join(wire.ErrMalformed, discreet.Error(err))), false
		case err != nil: // the version is too long
			return Item[T]{Kind: Failed, Err: s.response.Fail(nil, err)}, true
		}
		return Item[T]{Kind: Mark, Version: version, Closing: closing}, true
	case watch.Error:
		return s.status(format, frame), true
	}
	return s.fail(frame, &answer.EventTypeError{Type: frame.Type}), true
}

// status returns the item of an ERROR event.
func (s *Watch[T]) status(format wire.Format, frame *wire.Frame) Item[T] {
	if frame.Object == nil {
		return s.fail(frame, &answer.TypeError{Want: "*v1.Status", Got: "nil"})
	}
	var status metav1.Status
	if err := wire.Unmarshal(format, frame.Object, &status); err != nil {
		return s.fail(frame, errors.Join(wire.ErrMalformed, discreet.Error(err)))
	}
	kind := status.Kind
	if format == wire.Protobuf {
		kind = string(frame.Kind) // the protobuf message has no kind
	}
	if kind != "Status" {
		return s.fail(frame, &answer.TypeError{Want: "*v1.Status", Got: cut.Text(kind, cut.MaxName)})
	}
	return Item[T]{Kind: Failed, Err: s.response.Refused(apierrors.FromObject(&status))}
}

// fail returns the item for a frame that makes the watch unusable.
func (s *Watch[T]) fail(frame *wire.Frame, err error) Item[T] {
	return Item[T]{Kind: Failed, Err: s.response.Fail(frame.Object[:min(len(frame.Object), headSize)], err)}
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
		return &answer.TypeError{Want: s.of.Type, Got: kind.Kind}
	}
	return s.of.CheckKind(kind)
}

func isTableKind(kind metav1.TypeMeta) bool {
	return kind.Kind == "Table" && strings.HasPrefix(kind.APIVersion, metav1.GroupName+"/")
}
