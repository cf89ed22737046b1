package main

import (
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// tour plays the script.
type tour struct {
	server *reflectortest.Server
	pace   time.Duration
	next   chan struct{} // a token has the next step happen now

	// mu protects the fields below it.
	mu     sync.Mutex
	at     int // of the script
	paused bool
}

func newTour(server *reflectortest.Server, pace time.Duration, paused bool) *tour {
	return &tour{server: server, pace: pace, paused: paused, next: make(chan struct{}, 1)}
}

// play has one step happen after the other, until ctx ends.
func (t *tour) play(ctx context.Context) error {
	timer := time.NewTicker(t.pace)
	defer timer.Stop()
	for at := 0; ; at = (at + 1) % len(script) {
		t.mu.Lock()
		t.at = at
		t.mu.Unlock()
		if err := script[at].happens(t.server); err != nil {
			return err
		}
		timer.Reset(t.pace)
		for waiting := true; waiting; {
			select {
			case <-timer.C:
				waiting = t.state().Paused || at == len(script)-1
			case <-t.next:
				waiting = false
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// state is what the page shows.
type state struct {
	Steps  []step
	At     int
	Paused bool
}

func (t *tour) state() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return state{script, t.at, t.paused}
}

var (
	//go:embed tour.html
	page string

	templates = template.Must(template.New("").Parse(page))
)

func (t *tour) routes() *http.ServeMux {
	routes := http.NewServeMux()
	show := func(name string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = templates.ExecuteTemplate(w, name, t.state()) // whoever asked has gone
		}
	}
	do := func(what func()) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			what()
			http.Redirect(w, r, "steps", http.StatusSeeOther)
		}
	}
	routes.HandleFunc("GET /{$}", show("tour"))
	routes.HandleFunc("GET /steps", show("steps"))
	routes.HandleFunc("POST /next", do(func() {
		select {
		case t.next <- struct{}{}:
		default: // it is about to happen
		}
	}))
	routes.HandleFunc("POST /pause", do(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.paused = !t.paused
	}))
	return routes
}
