package record

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
)

// ReplayOption configures a [Replay].
type ReplayOption interface{ applyReplay(*pace) }

type replayOptionFunc func(*pace)

func (f replayOptionFunc) applyReplay(p *pace) { f(p) }

// WithReplaySpeed sets the speed of a replay relative to the recording; the default is 1. With 0 or
// less the replay does not wait between frames. The reflector's back-offs still take their time,
// except in a testing/synctest bubble. A late reflector gets all overdue frames at once.
func WithReplaySpeed(times float64) ReplayOption {
	return replayOptionFunc(func(p *pace) { p.speed = max(times, 0) })
}

// WithReplaySteps makes a replay wait for [Replay.Step] before each answer and each event.
func WithReplaySteps() ReplayOption {
	return replayOptionFunc(func(p *pace) { p.steps = make(chan chan<- Frame) })
}

// Frame is a recorded answer to a request, a recorded event, or the recorded end of a watch.
type Frame struct {
	// Line is the line number in the recording, from 1.
	Line int
	// At is the time since the beginning of the recording.
	At time.Duration
	// Text describes the frame, such as "page", "opened", "failed: TEXT", "ADDED" or "ended".
	Text string
}

// pace decides when a frame may pass.
type pace struct {
	speed float64           // 0 is as fast as possible
	steps chan chan<- Frame // nil without WithReplaySteps

	mu    sync.Mutex // protects the fields below
	began time.Time  // start of the recording on the replay's clock
}

func newPace() pace { return pace{speed: 1} }

// begin starts the clock with the first request.
func (p *pace) begin(asked *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = time.Now().Add(-p.scaled(asked.At))
	}
}

func (p *pace) scaled(at offset) time.Duration {
	if p.speed == 0 {
		return 0
	}
	return time.Duration(float64(at) / p.speed)
}

// past reports whether the time of an offset has passed. It is always false with steps or at speed
// 0.
func (p *pace) past(at offset) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps == nil && p.speed > 0 && time.Now().After(p.began.Add(p.scaled(at)))
}

// pass waits for the time of a frame. It returns stream.ErrAwake if wake delivers a value first, and the
// error of ctx. The caller calls handled when the reflector has handled the frame, so that Step
// returns.
func (p *pace) pass(ctx context.Context, wake <-chan time.Time, l *line) (handled func(), err error) {
	if p.steps != nil {
		select {
		case step := <-p.steps:
			return func() { step <- l.shown() }, nil
		case <-wake:
			return nil, stream.ErrAwake
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if p.speed > 0 {
		p.mu.Lock()
		pause := time.Until(p.began.Add(p.scaled(l.At)))
		p.mu.Unlock()
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-wake:
			return nil, stream.ErrAwake
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() {}, ctx.Err()
}

func (l *line) shown() Frame {
	f := Frame{Line: l.number, At: time.Duration(l.At), Text: string(l.Kind)}
	if l.Kind == frameEvent && l.Type != "" {
		f.Text = l.Type
	}
	if l.Failure != nil {
		f.Text += ": " + l.Failure.Text
	}
	return f
}

// Step lets the next frame of a replay with [WithReplaySteps] pass, when the reflector waits for
// it. It returns that frame. The store then has the changes of an event; it has the objects of a
// list when the next Step returns. Events that arrived together are one step, and Frame is the last
// of them. After the end Step returns [ErrReplayEnded], or Err. Without steps Step returns an error
// at once.
func (r *Replay[T]) Step(ctx context.Context) (Frame, error) {
	if r.pace.steps == nil {
		return Frame{}, errNoSteps
	}
	step := make(chan Frame, 1)
	select {
	case r.pace.steps <- step:
	case <-r.done:
		return Frame{}, r.stepError()
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	}
	select {
	case f := <-step:
		return f, nil
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	}
}

var errNoSteps = fmt.Errorf("replay has no steps: pass WithReplaySteps to NewReplay")

func (r *Replay[T]) stepError() error {
	if err := r.Err(); err != nil {
		return err
	}
	return ErrReplayEnded
}
