package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// ErrReplayEnded means that a reflector sent a request after the end of a recording.
var ErrReplayEnded = errors.New("recording has ended")

// Replay is a [reflector.Client] that replays the responses of a [Recorder]'s recording, in order:
//
//	replay, err := record.NewReplay[*corev1.Pod](file)
//	r := reflector.New(replay, pods)
//
// A Replay is for one reflector or informer. The reflector may have another version of this library
// than the recorded one. The replay accepts requests with other page sizes, timeouts and bookmark
// settings. It also accepts another minimum version of a list, if the recorded list is new enough.
// It skips recorded changes that the reflector does not wait for, because it lists earlier.
//
// Every other difference is a [*DifferenceError]: another order of requests, another selector, or a
// watch from another version. A reflector with shards needs a recording of the same shards or of
// all objects. If the recorded reflector closed a silent watch, the replay waits until this
// reflector closes it too.
//
// A watch that is open at the end of the recording stays open and silent. A later request fails
// with [ErrReplayEnded]. [Replay.Done] signals the end.
//
// Where the recorded Run ended and was called again, the replay ends the watch, or fails the next
// page of the list. The reflector then opens another watch or lists anew, as Run does.
//
// All methods may be called from any goroutine.
type Replay[T source.Object] struct {
	head  heading
	lines []line
	pace  pace
	done  chan struct{}

	mu   sync.Mutex // protects the fields below
	at   int        // the next line
	over bool
	err  error
}

// NewReplay reads a whole recording. If it cannot read the recording, it returns a
// [*RecordingError] with [ErrNotRecording], [ErrRecordingVersion], [ErrRecordingType],
// [ErrRecordingDamaged], [client.ErrNoStruct], or the reader's error. A killed process leaves a
// recording that is cut off. The replay ends at the cut: see [Replay.Err].
//
// T may be Unstructured or PartialObjectMetadata for every recording.
func NewReplay[T source.Object](from io.Reader, opts ...ReplayOption) (*Replay[T], error) {
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

// Done returns a channel that is closed when the replay is over. Either the store has all of the
// recording's events, or a request differs from the recording. Err tells which.
func (r *Replay[T]) Done() <-chan struct{} { return r.done }

// Err returns nil before Done, and after a complete replay. Otherwise it returns the
// [*DifferenceError] of a request, or a [*RecordingError] for [ErrRecordingCut] or for an object
// that does not fit T.
func (r *Replay[T]) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Get returns an error. Reflectors do not call it: see [reflector.Client].
func (r *Replay[T]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, source.ErrNoGet
}

// List returns the next page of the recording. If the recorded client could not decode an object,
// List returns that error. A reflector instead handles such objects one by one.
func (r *Replay[T]) List(ctx context.Context, opts metav1.ListOptions) (*client.ResourceList[T], error) {
	p, err := r.list(ctx, request{verb: frameList, opts: opts, probe: source.IsProbe(ctx)})
	if err != nil {
		return nil, err
	}
	if len(p.Rejections) > 0 {
		return nil, p.Rejections[0].Err
	}
	return &client.ResourceList[T]{ListMeta: metav1.ListMeta{ResourceVersion: p.ResourceVersion, Continue: p.Continue}, Items: p.Items}, nil
}

// Watch returns the next watch of the recording. Its objects are of type T if T is a
// runtime.Object. Other events are ERROR events.
func (r *Replay[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	open, err := r.watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return source.NewWatch[T](ctx, open), nil
}

// Source returns the source of the recording for a reflector. It returns nil if self is a wrapper
// of the Replay.
func (r *Replay[T]) Source(self any) source.Source[T] {
	if self != any(r) {
		return nil
	}
	return replaySource[T]{r}
}

func (r *Replay[T]) watch(ctx context.Context, opts metav1.ListOptions) (*replayStream[T], error) {
	if r == nil {
		return nil, source.ErrNoClient
	}
	answer, err := r.answer(ctx, request{verb: frameWatch, opts: opts})
	if err != nil {
		return nil, err
	}
	if answer.Kind == framePage {
		return nil, r.differs(r.damaged(answer, errOtherAnswer))
	}
	return &replayStream[T]{of: r}, nil
}

var errOtherAnswer = fmt.Errorf("%w: answer is one to another request", ErrRecordingDamaged)

func (r *Replay[T]) list(ctx context.Context, asked request) (p source.Page[T], err error) {
	if r == nil {
		return p, source.ErrNoClient
	}
	answer, err := r.answer(ctx, asked)
	if err != nil {
		return p, err
	}
	if answer.Kind == frameOpened {
		return p, r.differs(r.damaged(answer, errOtherAnswer))
	}
	p = source.Page[T]{ResourceVersion: answer.ResourceVersion, Continue: answer.Continue, Sharded: answer.Sharded, OutOfShard: answer.OutOfShard, Conflict: answer.Conflict}
	for _, item := range answer.Items {
		object, err := decodeRecorded[T](item)
		if err != nil {
			return source.Page[T]{}, r.differs(r.damaged(answer, err))
		}
		p.Items = append(p.Items, object)
	}
	for i := range answer.Rejected {
		p.Rejections = append(p.Rejections, answer.Rejected[i].rejection())
	}
	return p, nil
}

func (r *Replay[T]) damaged(at *line, err error) error {
	return &RecordingError{Line: at.number, Err: err}
}

// answer returns the recorded answer to a request at its recorded time.
func (r *Replay[T]) answer(ctx context.Context, asked request) (*line, error) {
	answer, err := r.find(asked)
	if err == errListStopped {
		return nil, err
	}
	if err != nil {
		return nil, r.differs(err)
	}
	if answer == nil { // the recording ends with the request
		r.finish(r.ending())
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if answer.number == 0 {
		return answer, nil // find made this answer
	}
	handled, err := r.pace.pass(ctx, nil, answer)
	if err != nil {
		return nil, err
	}
	handled()
	if answer.Kind == frameFailed {
		if !r.more() {
			r.finish(r.ending())
		}
		return nil, answer.Failure.err()
	}
	return answer, nil
}

// find advances to the next matching request of the recording and its answer. It returns nil if the
// recording ends with the request.
func (r *Replay[T]) find(asked request) (*line, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.at; i < len(r.lines); i++ {
		recorded := &r.lines[i]
		if !recorded.Kind.asks() {
			continue // the rest of an abandoned watch
		}
		r.pace.begin(recorded)
		if asked.opts.Continue != "" && recorded.Options.Continue == "" && r.stoppedLocked(i) {
			r.at = i
			return nil, errListStopped
		}
		var answer *line
		if i+1 < len(r.lines) {
			answer = &r.lines[i+1]
		}
		switch {
		case answer != nil && answer.Kind == frameStopped && i+2 < len(r.lines):
			if asked.opts.Continue != "" {
				r.at = i + 2
				return nil, errListStopped
			}
			continue // the recorded Run did not wait for the answer, and another one asked
		case recorded.Probe && !asked.probe:
			continue // the recorded reflector paused long enough to need a probe
		case asked.probe && !recorded.Probe:
			return &line{frame: frame{Kind: framePage, ResourceVersion: asked.opts.ResourceVersion}}, nil
		}
		if err := asked.compare(recorded, answer); err != nil {
			if answer != nil && answer.refused() {
				continue // this reflector may already know that the version is refused
			}
			return nil, err
		}
		if answer == nil || !answer.Kind.answers() {
			r.at = i + 1
			return nil, nil
		}
		if answer.Kind == frameFailed && r.supersededLocked(asked, i+2) {
			continue // this reflector backed off longer and missed a failure
		}
		r.at = i + 2
		return answer, nil
	}
	return nil, &DifferenceError{Asked: inWords(asked.verb, &asked.opts), Err: ErrReplayEnded}
}

// errListStopped is the error of a page that the recorded Run did not ask for, or did not wait for.
var errListStopped = errors.New("recorded reflector was stopped during this list")

// stoppedLocked reports whether the recorded Run ended between the last answer and a line.
func (r *Replay[T]) stoppedLocked(before int) bool {
	return slices.ContainsFunc(r.lines[r.at:before], func(l line) bool { return l.Kind == frameStopped })
}

// supersededLocked reports whether the recorded reflector had repeated the request by now.
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

// more reports whether the recording has further requests or events.
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

// ending returns nil if the recording ends with the end of a Run, and otherwise the error that
// describes its end.
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

// differs ends the replay and returns err.
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

// replaySource is the source of a Replay.
type replaySource[T source.Object] struct{ *Replay[T] }

func (s replaySource[T]) Check() error {
	if s.Replay == nil {
		return source.ErrNoClient
	}
	return nil
}

func (s replaySource[T]) List(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (source.Page[T], error) {
	p, err := s.Replay.list(ctx, request{verb: frameList, opts: opts, probe: w.Probe != nil})
	stream.FilterPage(w.Shards, &p) // the recording may contain other shards
	return p, err
}

func (s replaySource[T]) Watch(ctx context.Context, opts metav1.ListOptions, _ source.Wants[T]) (source.Stream[T], error) {
	open, err := s.Replay.watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return open, nil
}

// Lookup finds nothing: there is no server to ask, so an object that the recording shows as deleted
// counts as gone.
func (s replaySource[T]) Lookup(context.Context, store.Key) (types.UID, bool, error) {
	return "", false, nil
}

func (s replaySource[T]) About() source.About {
	if s.Replay == nil {
		return source.About{}
	}
	return source.About{Resource: s.head.Resource, WatchLists: s.head.WatchList, Replayed: true}
}

// IsWatchListSemanticsUnSupported reports whether the recorded reflector did not use watch-lists.
func (r *Replay[T]) IsWatchListSemanticsUnSupported() bool { return r == nil || !r.head.WatchList }
