package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

var (
	//go:embed assets
	assets embed.FS

	templates = template.Must(template.New("").Funcs(template.FuncMap{
		"json": func(flights [][]flight) (string, error) {
			text, err := json.Marshal(flights)
			return string(text), err
		},
	}).ParseFS(assets, "assets/tour.html"))
)

// policy allows only files of the tour itself.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'"

// tour plays the script step by step, and keeps what it showed, so that the reader can go back.
type tour struct {
	inspect *inspect.Page

	mu     sync.Mutex
	world  *world
	remove func()    // takes the world's informer from inspect
	shown  [][]frame // of the steps that happened; the first frame of a step is the state before it
}

// run serves the tour until ctx ends.
func run(ctx context.Context, listener net.Listener) error {
	t := &tour{inspect: inspect.New(inspect.WithInterval(250 * time.Millisecond))}
	if err := t.restart(ctx); err != nil {
		return err
	}
	routes := t.routes(ctx)
	// The buttons are for the tour's own page. Other websites must not press them.
	own := http.NewCrossOriginProtection().Handler(routes)
	web := &http.Server{Handler: own, ReadHeaderTimeout: 5 * time.Second}
	web.RegisterOnShutdown(t.inspect.Close)
	ctx, stop := context.WithCancel(ctx)
	down := make(chan error, 1)
	go func() {
		<-ctx.Done()
		down <- web.Shutdown(context.WithoutCancel(ctx))
	}()
	err := web.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	stop()
	return errors.Join(err, <-down, t.end())
}

// restart begins the tour in a new world.
func (t *tour) restart(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.endLocked(); err != nil {
		return err
	}
	server, err := reflectortest.NewServer(reflectortest.WithBookmarkInterval(5 * time.Second))
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, server.Config(), server)
	if err != nil {
		server.Close()
		return err
	}
	t.world, t.remove = w, inspect.Add(t.inspect, w.pods)
	t.shown = nil
	return t.playLocked()
}

func (t *tour) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.endLocked()
}

func (t *tour) endLocked() error {
	if t.world == nil {
		return nil
	}
	t.remove()
	err := t.world.stop()
	t.world = nil
	return err
}

// next lets a step happen, unless it has happened.
func (t *tour) next(step int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if step != len(t.shown) || step >= len(script) || t.world == nil {
		return nil
	}
	return t.playLocked()
}

// playLocked lets the next step happen.
func (t *tour) playLocked() error {
	s, w := script[len(t.shown)], t.world
	now := w.draw(s.shows)
	frames := []frame{{Picture: now}}
	for _, a := range s.acts {
		if a.text == turn.text && !w.slow.busy() && !(slices.Contains(s.shows, clientGo) && w.theirsSlow.busy()) {
			continue // nothing waits any more
		}
		if err := a.does(w); err != nil {
			return err
		}
		if err := w.settle(); err != nil {
			return err
		}
		before := now
		now = w.draw(s.shows)
		frames = append(frames, newFrame(a, before, now))
	}
	t.shown = append(t.shown, frames)
	return nil
}

// view is the content of the page.
type view struct {
	Step       step
	Next, Back int // numbers of steps; the first is 0
	Steps      int
	Last       bool
	Before     picture
	Frames     []frame
	Now        picture
}

func (t *tour) view(at int) view {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.shown) == 0 {
		return view{Step: step{Title: "The tour could not begin", Text: "Restart it."}, Steps: len(script)}
	}
	at = max(min(at, len(t.shown)-1), 0)
	frames := t.shown[at]
	return view{
		Step: script[at], Next: at + 1, Back: max(at-1, 0), Steps: len(script), Last: at == len(script)-1,
		Before: frames[0].Picture, Frames: frames[1:], Now: frames[len(frames)-1].Picture,
	}
}

func (t *tour) routes(ctx context.Context) *http.ServeMux {
	routes := http.NewServeMux()
	number := func(r *http.Request) int {
		n, _ := strconv.Atoi(r.FormValue("step")) // without a number it is the first step
		return n
	}
	routes.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		var page bytes.Buffer
		if err := templates.ExecuteTemplate(&page, "tour.html", t.view(number(r))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(page.Bytes()) // an error means that the reader has gone
	})
	for _, name := range []string{"tour.css", "tour.js"} {
		routes.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, assets, "assets/"+name) })
	}
	do := func(path string, what func(step int) error) {
		routes.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			step := number(r)
			if err := what(step); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			http.Redirect(w, r, "./?step="+strconv.Itoa(step), http.StatusSeeOther)
		})
	}
	do("/next", t.next)
	do("/restart", func(int) error { return t.restart(ctx) })
	routes.Handle("/informers/", http.StripPrefix("/informers", t.inspect))
	return routes
}
