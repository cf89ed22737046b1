package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer/inspect"
)

// order is what the visitor wants, or what the tour does instead.
type order string

const (
	next    order = "next"
	back    order = "back"
	restart order = "restart"
	over    order = "" // the tour ends
)

// tour plays the script. To go back it builds a new world and repeats the steps before without
// pauses, because the informer of the old world has already seen the later steps.
type tour struct {
	inspect *inspect.Page
	pace    time.Duration
	orders  chan order // holds one; only order sends

	// mu protects the fields below it.
	mu        sync.Mutex
	world     *world // nil before the first step
	at        int    // the number of the step in the script
	began     time.Time
	repeating bool // steps that the visitor has seen
	auto      bool // the next step happens after the pace
	frozen    bool
}

func newTour(page *inspect.Page, pace time.Duration, paused bool) *tour {
	return &tour{inspect: page, pace: pace, auto: !paused, orders: make(chan order, 1)}
}

// run serves the tour until ctx ends.
func run(ctx context.Context, listener net.Listener, pace time.Duration, paused bool) error {
	page := inspect.New(inspect.WithInterval(250 * time.Millisecond))
	t := newTour(page, pace, paused)
	routes := t.routes()
	routes.Handle("/informers/", http.StripPrefix("/informers", page))
	// The buttons are for the tour's own page. Other websites must not press them.
	own := http.NewCrossOriginProtection().Handler(routes)
	web := &http.Server{Handler: own, ReadHeaderTimeout: 5 * time.Second}
	web.RegisterOnShutdown(page.Close)

	ctx, stop := context.WithCancel(ctx)
	played := make(chan error, 1)
	go func() {
		err := t.play(ctx)
		stop()
		played <- errors.Join(err, web.Shutdown(context.WithoutCancel(ctx)))
	}()
	err := web.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	stop()
	return errors.Join(err, <-played)
}

// play runs the script until ctx ends.
func (t *tour) play(ctx context.Context) error {
	for first, goOn := 0, true; goOn; {
		var err error
		if first, goOn, err = t.live(ctx, first); err != nil {
			return err
		}
	}
	return nil
}

// live runs the script in a new world, without pauses before the step first. It returns the first
// step of the next world.
func (t *tour) live(ctx context.Context, first int) (again int, goOn bool, err error) {
	w, err := newWorld(ctx, t.inspect)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	for at := 0; at < len(script); {
		t.enter(w, at, at < first)
		wanted, err := t.step(ctx, w, at, at < first)
		switch {
		case err != nil || wanted == over:
			return 0, false, err
		case wanted == restart:
			return 0, true, nil
		case wanted == back:
			return max(at-1, 0), true, nil
		case at < len(script)-1:
			at++
		}
	}
	return 0, true, nil
}

func (t *tour) enter(w *world, at int, repeating bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.world, t.at, t.repeating, t.began = w, at, repeating, time.Now()
	if at == 0 {
		t.began = w.began
	}
}

// step makes a step happen and returns what follows it.
func (t *tour) step(ctx context.Context, w *world, at int, hurry bool) (order, error) {
	s := script[at]
	for n := range s.times {
		if at > 0 { // newWorld has made the first step happen
			if err := s.happens(w.server, n); err != nil {
				return over, err
			}
		}
		if hurry || n == s.times-1 {
			continue
		}
		select {
		case wanted := <-t.orders:
			if wanted != next {
				return wanted, nil
			}
			hurry = true
		case <-time.After(between):
		case <-ctx.Done():
			return over, nil
		}
	}
	wait := t.pace
	if hurry {
		wait = between / 10
	}
	ticker := time.NewTicker(wait)
	defer ticker.Stop()
	for {
		select {
		case wanted := <-t.orders:
			if wanted != next || at < len(script)-1 {
				return wanted, nil
			}
		case <-ticker.C:
			if hurry && s.done(w) || !hurry && t.goesOn() && at < len(script)-1 {
				return next, nil
			}
		case <-ctx.Done():
			return over, nil
		}
	}
}

// goesOn reports whether the next step happens without an order.
func (t *tour) goesOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.auto && !t.frozen
}

// order passes an order of the visitor to the script. It replaces an order that still waits.
func (t *tour) order(o order) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = false
	select {
	case <-t.orders:
	default:
	}
	t.orders <- o
}
