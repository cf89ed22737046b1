package main

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

var (
	//go:embed assets
	assets embed.FS

	templates = template.Must(template.New("").Funcs(template.FuncMap{"number": func(n int) int { return n + 1 }}).ParseFS(assets, "assets/tour.html"))
)

// policy allows only files of the tour itself.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; frame-src 'self'; base-uri 'none'; form-action 'self'"

// shownLines is how many lines of evidence the page shows.
const shownLines = 6

// view is the content of the page.
type view struct {
	Steps             []step
	At                int
	Number            int // of the step, beginning with 1
	Last              bool
	Repeating         bool
	Auto, Frozen      bool
	Received, Printed []string
	Counts            string // of printed lines
}

func (t *tour) view() view {
	t.mu.Lock()
	w, began := t.world, t.began
	v := view{Steps: script, At: t.at, Number: t.at + 1, Last: t.at == len(script)-1, Repeating: t.repeating, Auto: t.auto, Frozen: t.frozen}
	t.mu.Unlock()
	if w == nil {
		return v
	}
	v.Received, v.Printed = newest(w.received(began)), newest(w.printed.since(began))
	var counts []string
	for _, s := range w.pods.Subscriptions() {
		counts = append(counts, fmt.Sprintf("%s %d", s.Name(), w.printed.count(s.Name(), began)))
	}
	v.Counts = strings.Join(counts, ", ")
	return v
}

func newest(lines []string) []string {
	return lines[max(len(lines)-shownLines, 0):]
}

func (t *tour) routes() *http.ServeMux {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-store")
		_ = templates.ExecuteTemplate(w, "tour.html", t.view()) // an error means that the visitor has gone
	})
	for _, name := range []string{"tour.css", "tour.js"} {
		routes.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, assets, "assets/"+name) })
	}
	do := func(path string, what func()) {
		routes.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			what()
			http.Redirect(w, r, "./", http.StatusSeeOther)
		})
	}
	for _, o := range []order{next, back, restart} {
		do("/"+string(o), func() { t.order(o) })
	}
	do("/freeze", func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.frozen = !t.frozen
	})
	do("/auto", func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.auto = !t.auto
	})
	return routes
}
