package reflector

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ReplayOption configures a [Replay].
type ReplayOption interface{ applyReplay(*pace) }

type replayOptionFunc func(*pace)

func (f replayOptionFunc) applyReplay(p *pace) { f(p) }

// WithReplaySpeed makes a replay so many times as fast as the recording; the default is 1. With 0, or
// less, it is as fast as possible, but the back-offs of the reflector take their time, unless it runs in a
// bubble of testing/synctest. A reflector that comes late gets at once what it missed.
func WithReplaySpeed(times float64) ReplayOption {
	return replayOptionFunc(func(p *pace) { p.speed = max(times, 0) })
}

// WithReplaySteps makes a replay wait for [Replay.Step] before each answer and each event.
func WithReplaySteps() ReplayOption {
	return replayOptionFunc(func(p *pace) { p.steps = make(chan chan<- Frame) })
}

// Frame is something of a recording that a client gave: the answer to a request, an event, or the end of a watch.
type Frame struct {
	// Line is where it is in the recording, from 1.
	Line int
	// At is when it came, since the recording began.
	At time.Duration
	// Text says what it is, such as "page", "opened", "failed: TEXT", "ADDED" or "ended".
	Text string
}

// pace says when a frame may pass.
type pace struct {
	speed float64           // 0 is as fast as possible
	steps chan chan<- Frame // nil unless it is stepped

	mu    sync.Mutex // protects the fields below
	began time.Time  // when the recording would have
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

// past reports whether the time of an offset is over, where time counts.
func (p *pace) past(at offset) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps == nil && p.speed > 0 && time.Now().After(p.began.Add(p.scaled(at)))
}

// pass calls give when the time of a frame has come. It returns the error of ctx if that ended before.
func (p *pace) pass(ctx context.Context, l *line, give func() bool) error {
	if p.steps != nil {
		select {
		case step := <-p.steps:
			if give() {
				step <- l.shown()
			}
			close(step)
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
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
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	give()
	return ctx.Err()
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

// Step lets the next frame of a replay with [WithReplaySteps] pass, as soon as the reflector
// waits for it, and returns which it was. The store then has what an event brought; what a list
// brought, it has when the next Step returns. Events that came together are one step, of
// which Frame is the last. After the end Step returns [ErrReplayEnded], or Err. It returns at
// once, with an error, if the replay has no steps.
func (r *Replay[T]) Step(ctx context.Context) (Frame, error) {
	if r.pace.steps == nil {
		return Frame{}, errNoSteps
	}
	for {
		step := make(chan Frame, 1)
		select {
		case r.pace.steps <- step:
		case <-r.done:
			return Frame{}, r.stepError()
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
		select {
		case f, passed := <-step:
			if passed {
				return f, nil
			}
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

var errNoSteps = fmt.Errorf("replay has no steps: pass WithReplaySteps to NewReplay")

func (r *Replay[T]) stepError() error {
	if err := r.Err(); err != nil {
		return err
	}
	return ErrReplayEnded
}
