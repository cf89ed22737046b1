package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// ErrReplayEnded means that a reflector asked for something after the end of a recording.
var ErrReplayEnded = errors.New("recording has ended")

// Replay is a [Client] that answers from a recording of a [Recorder], in order:
//
//	replay, err := reflector.NewReplay[*corev1.Pod](file)
//	r := reflector.New(replay, pods)
//
// Informers take one as well. It is for one reflector, which need not be of the version of this library that
// was recorded: what a request says of pages, timeouts and bookmarks does not matter, nor does
// how old a list may be, as long as the recorded answer is new enough. Changes that the reflector
// does not wait for, because it lists earlier, are left out. All else is a
// [*DifferenceError]: another order of requests, another selector, a watch from another
// version. A reflector with shards replays a recording of the same ones, or one of everything. Of what the recorded reflector did by itself, such as giving up a silent watch, the replay waits
// until this one does it, too.
//
// An open watch at the end of the recording stays open, and silent; whoever asks for more
// gets an [ErrReplayEnded]. [Replay.Done] says when it has come to that.
//
// Where the recorded Run ended and was called again, a watch ends, and the reflector opens
// another, as Run does.
//
// All methods may be called from any goroutine.
type Replay[T Object] struct {
	head  heading
	lines []line
	pace  pace
	done  chan struct{}

	mu   sync.Mutex // protects the fields below
	at   int        // the next line
	over bool
	err  error
}

// NewReplay reads a recording to its end. It returns a [*RecordingError] if it cannot be
// read: [ErrNotRecording], [ErrRecordingVersion], [ErrRecordingType], [ErrRecordingDamaged],
// [ErrNoStruct], or what from returned. One that was cut off, as a killed process leaves it, is
// replayed up to there: see [Replay.Err].
//
// Any recording can be read as Unstructured or PartialObjectMetadata.
func NewReplay[T Object](from io.Reader, opts ...ReplayOption) (*Replay[T], error) {
	head, lines, err := readRecording(from)
	if err != nil {
		return nil, err
	}
	if err := checkType[T](head.Type); err != nil {
		return nil, &RecordingError{Line: 1, Err: err}
	}
	r := &Replay[T]{head: head, lines: lines, pace: newPace(), done: make(chan struct{})}
	for _, opt := range opts {
		opt.applyReplay(&r.pace)
	}
	return r, nil
}

// Done returns a channel that is closed when there is nothing more to come: the store has all of
// the recording's events, or a request differs from those of the recording. Err says which.
func (r *Replay[T]) Done() <-chan struct{} { return r.done }

// Err returns nil before Done, and if the recording was replayed to its end. Otherwise it is the
// [*DifferenceError] of a request, or a [*RecordingError]: an [ErrRecordingCut], or an object that does not
// fit T.
func (r *Replay[T]) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Get is never called: see [Client].
func (r *Replay[T]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, errNoGet
}

// List answers with the next page of the recording. It returns the error of an object that the
// recorded client could not decode; a reflector lives with those.
func (r *Replay[T]) List(ctx context.Context, opts metav1.ListOptions) (*ResourceList[T], error) {
	p, err := r.list(ctx, opts)
	if err != nil {
		return nil, err
	}
	if len(p.lacking) > 0 {
		return nil, p.lacking[0].Err
	}
	return &ResourceList[T]{ListMeta: metav1.ListMeta{ResourceVersion: p.resourceVersion, Continue: p.next}, Items: p.items}, nil
}

// Watch answers with the next watch of the recording. What it brings is for a reflector.
func (r *Replay[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if r == nil {
		return nil, ErrNoClient
	}
	answer, err := r.answer(ctx, request{verb: frameWatch, opts: opts})
	if err != nil {
		return nil, err
	}
	if answer.Kind == framePage {
		return nil, r.differs(r.damaged(answer, errOtherAnswer))
	}
	return newReplayWatch(ctx, r), nil
}

var errOtherAnswer = fmt.Errorf("%w: answer is one to another request", ErrRecordingDamaged)

func (r *Replay[T]) list(ctx context.Context, opts metav1.ListOptions) (p page[T], err error) {
	if r == nil {
		return p, ErrNoClient
	}
	answer, err := r.answer(ctx, request{verb: frameList, opts: opts})
	if err != nil {
		return p, err
	}
	if answer.Kind == frameOpened {
		return p, r.differs(r.damaged(answer, errOtherAnswer))
	}
	p = page[T]{resourceVersion: answer.ResourceVersion, next: answer.Continue, sharded: answer.Sharded, foreign: answer.Foreign, conflict: answer.Conflict}
	for _, item := range answer.Items {
		object, err := decodeRecorded[T](item)
		if err != nil {
			return page[T]{}, r.differs(r.damaged(answer, err))
		}
		p.items = append(p.items, object)
	}
	for i := range answer.Lacking {
		p.lacking = append(p.lacking, answer.Lacking[i].rejection())
	}
	return p, nil
}

func (r *Replay[T]) damaged(at *line, err error) error {
	return &RecordingError{Line: at.number, Err: err}
}

// answer returns the answer to a request when its time has come.
func (r *Replay[T]) answer(ctx context.Context, asked request) (*line, error) {
	asked.probe = ctx.Value(probeKey{}) != nil
	answer, err := r.find(asked)
	if err != nil {
		return nil, r.differs(err)
	}
	if answer == nil { // the recording ends with the request
		r.finish(r.ending())
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if answer.number == 0 {
		return answer, nil // it is not in the recording
	}
	if err := r.pace.pass(ctx, answer, func() bool { return true }); err != nil {
		return nil, err
	}
	if answer.Kind == frameFailed {
		if !r.more() {
			r.finish(r.ending())
		}
		return nil, answer.Failure.err()
	}
	return answer, nil
}

// find goes to the next request of the recording, and behind the answer to it. There may be
// none.
func (r *Replay[T]) find(asked request) (*line, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.at; i < len(r.lines); i++ {
		recorded := &r.lines[i]
		if !recorded.Kind.asks() {
			continue // it is of a watch that was left
		}
		r.pace.begin(recorded)
		var answer *line
		if i+1 < len(r.lines) {
			answer = &r.lines[i+1]
		}
		switch {
		case answer != nil && answer.Kind == frameStopped && i+2 < len(r.lines):
			continue // the recorded Run did not wait for the answer, and another one asked
		case recorded.Probe && !asked.probe:
			continue // there was time then to become doubtful
		case asked.probe && !recorded.Probe:
			return &line{frame: frame{Kind: framePage, ResourceVersion: asked.opts.ResourceVersion}}, nil
		}
		if err := asked.compare(recorded, answer); err != nil {
			if answer != nil && answer.refused() {
				continue // this reflector knew, perhaps
			}
			return nil, err
		}
		if answer == nil || !answer.Kind.answers() {
			r.at = i + 1
			return nil, nil
		}
		if answer.Kind == frameFailed && r.supersededLocked(asked, i+2) {
			continue // this reflector waited for longer, and has missed a failure
		}
		r.at = i + 2
		return answer, nil
	}
	return nil, &DifferenceError{Asked: inWords(asked.verb, &asked.opts), Err: ErrReplayEnded}
}

// supersededLocked reports whether the recorded reflector had asked the same again by now.
func (r *Replay[T]) supersededLocked(asked request, from int) bool {
	for i := from; i < len(r.lines); i++ {
		switch again := &r.lines[i]; {
		case again.Kind.asks() && again.Probe == asked.probe:
			return r.pace.past(again.At) && i+1 < len(r.lines) && asked.compare(again, &r.lines[i+1]) == nil
		case again.Kind == frameEvent:
			return false
		}
	}
	return false
}

// more reports whether something is left for a client to give.
func (r *Replay[T]) more() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines[r.at:] {
		if l.Kind.asks() || l.Kind.passes() {
			return true
		}
	}
	return false
}

// ending returns what the end of the recording is: nil if it is that of a Run.
func (r *Replay[T]) ending() error {
	number := 1
	if n := len(r.lines); n > 0 {
		last := r.lines[n-1]
		if last.Kind == frameStopped {
			return nil
		}
		if number = last.number; last.Kind == frameLost {
			return &RecordingError{Line: number, Err: fmt.Errorf("%w: %s", ErrRecordingCut, last.Failure.Text)}
		}
	}
	return &RecordingError{Line: number, Err: ErrRecordingCut}
}

// differs notes that the replay cannot go on, and returns why.
func (r *Replay[T]) differs(err error) error {
	if errors.Is(err, ErrReplayEnded) {
		r.finish(r.ending())
	} else {
		r.finish(err)
	}
	return err
}

func (r *Replay[T]) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over, r.err = true, err
		close(r.done)
	}
}

// replaySource is the source that is made from a Replay.
type replaySource[T Object] struct{ *Replay[T] }

func (s replaySource[T]) check() error {
	if s.Replay == nil {
		return ErrNoClient
	}
	return nil
}

func (s replaySource[T]) list(ctx context.Context, opts metav1.ListOptions, w wants[T]) (page[T], error) {
	p, err := s.Replay.list(ctx, opts)
	siftPage(w.shards, &p) // more may have been recorded
	return p, err
}

func (s replaySource[T]) watch(ctx context.Context, opts metav1.ListOptions, _ wants[T]) (feed[T], error) {
	w, err := s.Watch(ctx, opts)
	return feed[T]{watch: w}, err
}

func (s replaySource[T]) streams() bool { return s.check() == nil && s.head.WatchList }

func (s replaySource[T]) resourceName() string { return s.head.Resource }

// IsWatchListSemanticsUnSupported says whether the recorded reflector asked for watch-lists.
func (r *Replay[T]) IsWatchListSemanticsUnSupported() bool { return r == nil || !r.head.WatchList }
