package reflector

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// recording sends the frames of one Run to a recorder. Its methods do nothing without a recorder.
type recording[T Object] struct {
	to   *Recorder
	stop func()
}

// begin starts the recording.
func (r *recording[T]) begin(head heading, version string) {
	if r.to == nil {
		return
	}
	head.Format, head.Version, head.Type = recordingFormat, recordingVersion, typeName(reflect.TypeFor[T]())
	head.Masked = !r.to.masks.ShowSecrets
	r.stop = r.to.start(head)
	r.add(frame{Kind: frameRun, ResourceVersion: version})
}

// end writes the last frame and waits until the recorder has written everything.
func (r *recording[T]) end() {
	if r.to != nil {
		r.add(frame{Kind: frameStopped})
		r.stop()
	}
}

// active reports whether the recorder accepts frames.
func (r *recording[T]) active() bool {
	if r.to == nil {
		return false
	}
	_, wanted := r.to.now()
	return wanted
}

func (r *recording[T]) add(f frame) {
	if r.to == nil {
		return
	}
	var wanted bool
	if f.At, wanted = r.to.now(); wanted {
		r.to.add(&f)
	}
}

func (r *recording[T]) asked(f frame) { r.add(f) }

// probeKey is the context key that marks list requests as probes.
type probeKey struct{}

// page records the response to a list request.
func (r *recording[T]) page(p source.Page[T]) {
	if !r.active() {
		return
	}
	f := frame{
		Kind: framePage, ResourceVersion: p.ResourceVersion, Continue: p.Continue, Sharded: p.Sharded, Foreign: p.OutOfShard, Conflict: p.Conflict,
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
		f.Lacking = append(f.Lacking, r.lacking(bad))
	}
	r.add(f)
}

// failed records the failure of a request, unless Run has ended.
func (r *recording[T]) failed(run context.Context, err error) {
	if r.active() && run.Err() == nil {
		r.add(frame{Kind: frameFailed, Failure: r.failure(err)})
	}
}

func (r *recording[T]) happened(kind frameKind) { r.add(frame{Kind: kind}) }

// received records events that arrived together.
func (r *recording[T]) received(events []source.Event[T]) {
	if !r.active() {
		return
	}
	for i := range events {
		f, err := r.event(&events[i])
		if err != nil {
			r.to.fail(err)
			return
		}
		f.More = i < len(events)-1
		r.add(f)
	}
}

func (r *recording[T]) event(e *source.Event[T]) (f frame, err error) {
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
		f.Foreign, f.ResourceVersion, f.Departed = e.OutOfShard, e.ResourceVersion, departedFrameOf(e.Left)
	case e.Rejection != nil:
		f.Lacking = []lackingFrame{r.lacking(*e.Rejection)}
	default:
		f.Object, err = r.encode(e.Object)
	}
	return f, err
}

func (r *recording[T]) lacking(bad store.Rejection) lackingFrame {
	return lackingFrame{
		Namespace: bad.Key.Namespace, Name: bad.Key.Name,
		UID: string(bad.Version.UID), ResourceVersion: bad.Version.ResourceVersion,
		Failure: *r.failure(bad.Err),
	}
}

// encode returns the recorded form of an object. A panic in a method of T ends only the recording.
func (r *recording[T]) encode(object T) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
		if err != nil {
			err = fmt.Errorf("recording ended: encode %T: %w", object, err)
		}
	}()
	masks := &r.to.masks
	if data, err = json.Marshal(object); err != nil || masks.ShowSecrets && len(masks.Paths) == 0 {
		return data, err
	}
	tree, err := masking.Decode(data)
	if err != nil {
		return nil, err
	}
	masks.Object(tree, typeName(reflect.TypeFor[T]()))
	return json.Marshal(tree)
}

func (r *recording[T]) failure(err error) *failureFrame {
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

// record starts the recording of this Run.
func (r *run[T]) record() {
	if r.recorder == nil {
		return
	}
	head := heading{Reflector: r.name, Resource: r.source.About().Resource, WatchList: r.protocol.WatchLists}
	r.recording.begin(head, r.store.ResourceVersion())
}

// tellRecording reports the end of the recording, once.
func (r *run[T]) tellRecording(ctx context.Context) {
	if r.recorder == nil {
		return
	}
	if err := r.recorder.untold(); err != nil {
		r.report(ctx, r.newError(OpRecord, "", err))
	}
}

func (r *run[T]) endRecording(ctx context.Context) {
	r.recording.end()
	r.tellRecording(ctx)
}
