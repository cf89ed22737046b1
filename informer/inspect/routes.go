package inspect

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var assets embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"ago": ago, "since": since, "bytes": byteCount, "seconds": seconds, "clock": func(t time.Time) string { return t.Format("15:04:05.000") }, "pipeline": newPipeline,
	"count": count, "informerBadge": informerBadge, "runnableBadge": runnableBadge,
	"link":      func(informer string, of located) string { return link(informer, of.located()) },
	"linkKey":   link,
	"queuesOf":  func(informer, of string, queues []Queue) queueTable { return queueTable{informer, of, queues} },
	"changesOf": func(informer string, changes []Change) changeTable { return changeTable{informer, changes} },
}).ParseFS(assets, "assets/*.html"))

// policy stops a page that shows a hostile object from running inline scripts, and from loading
// files or sending forms to other hosts.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"

func (p *Page) newRoutes() *http.ServeMux {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		serveHTML(w, "overview.html", overview{p.State(), max(int(p.interval.Seconds()), 1)})
	})
	routes.HandleFunc("GET /state.json", func(w http.ResponseWriter, r *http.Request) { serveJSON(w, p.State()) })
	routes.HandleFunc("GET /objects", p.serveObjects)
	routes.HandleFunc("GET /object", p.serveObject)
	routes.HandleFunc("GET /object.json", p.serveObject)
	routes.HandleFunc("GET /stream", p.serveStream)
	for _, name := range []string{"page.css", "page.js"} {
		routes.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, assets, "assets/"+name) })
	}
	return routes
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if !p.allows(r.Host) {
		refuseHost(w, r.Host)
		return
	}
	if r.URL.Path == "" { // as with StripPrefix of a path that ends with no slash
		path, query, asked := strings.Cut(r.RequestURI, "?")
		if asked {
			query = "?" + query
		}
		http.Redirect(w, r, path+"/"+query, http.StatusMovedPermanently)
		return
	}
	p.routes.ServeHTTP(w, r)
}

func serveJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(true)
	_ = encoder.Encode(value) // an error means that the client has gone
}

// serveHTML serves the complete output of a template, or an error.
func serveHTML(w http.ResponseWriter, name string, value any) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
}

type overview struct {
	State
	Refresh int // seconds, for readers without scripts
}

type objectList struct {
	Informer   string
	Namespaces []string
	Namespace  string
	Contains   string
	Keys       []key
	Limit      int
}

func (p *Page) serveObjects(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := objectList{Informer: query.Get("informer"), Namespace: query.Get("namespace"), Contains: query.Get("contains"), Limit: shownKeys}
	source := p.find(w, list.Informer)
	if source == nil {
		return
	}
	list.Namespaces, list.Keys = source.keys(list.Namespace, list.Contains)
	serveHTML(w, "objects.html", list)
}

func (p *Page) serveObject(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	id := query.Get("informer")
	source := p.find(w, id)
	if source == nil {
		return
	}
	k := key{Cluster: query.Get("cluster"), Namespace: query.Get("namespace"), Name: query.Get("name")}
	object, known := source.object(k, p.masked)
	object.Informer = id
	switch {
	case !known:
		http.Error(w, fmt.Sprintf("informer %s has no object %.500v and no change of it", id, k), http.StatusNotFound)
	case r.URL.Path == "/object.json":
		serveJSON(w, object)
	default:
		serveHTML(w, "object.html", object)
	}
}

// queueTable and changeTable are the template data of rows of an informer.
type queueTable struct {
	Informer string
	Of       string // the subscriber or the object to which the queues belong
	Queues   []Queue
}

type changeTable struct {
	Informer string
	Changes  []Change
}

// located is a row about an object that has a page.
type located interface{ located() key }

func (q Queue) located() key { return q.where }

func (c Change) located() key { return c.where }

// link returns the address of an object's page, relative to the page.
func link(informer string, k key) string {
	query := url.Values{"informer": {informer}, "name": {k.Name}}
	if k.Namespace != "" {
		query.Set("namespace", k.Namespace)
	}
	if k.Cluster != "" {
		query.Set("cluster", k.Cluster)
	}
	return "object?" + query.Encode()
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return seconds(time.Since(t).Seconds()) + " ago"
}

func since(t time.Time) string {
	if t.IsZero() {
		return "ever"
	}
	return seconds(time.Since(t).Seconds())
}

// age formats a duration for a badge.
func age(s float64) string {
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", int(s))
	case s < 3600:
		return fmt.Sprintf("%d min", int(s/60))
	}
	return fmt.Sprintf("%d h", int(s/3600))
}

// seconds formats a duration in few characters.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func byteCount(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// writeTimeout is how long a reader of a stream may take for one event.
const writeTimeout = 10 * time.Second

// view is the state at one time. Its events are encoded once for all streams.
type view struct {
	state      State
	html, json func() ([]byte, error)
}

func newView(s State) *view {
	return &view{
		state: s,
		html: sync.OnceValues(func() ([]byte, error) {
			var content bytes.Buffer
			err := templates.ExecuteTemplate(&content, "informers", s)
			return event(content.Bytes()), err
		}),
		json: sync.OnceValues(func() ([]byte, error) {
			content, err := json.Marshal(s)
			return event(content), err
		}),
	}
}

// serveStream sends the view once in each interval, until the reader disconnects or the page is
// closed.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // a client that has the header takes the connection for free
	}
	asJSON := r.URL.Query().Get("as") == "json"
	out := http.NewResponseController(w)
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		seen := p.look()
		made := seen.html
		if asJSON {
			made = seen.json
		}
		event, err := made()
		if err != nil || !send(out, w, event) {
			return
		}
		select {
		case <-ticker.C:
		case <-p.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// send writes an event, and reports success. A server's write timeout covers a whole response and
// must not end a stream. With HTTP/2 it may also pass between events. Some ResponseWriters do not
// support deadlines.
func send(out *http.ResponseController, w io.Writer, event []byte) bool {
	_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := w.Write(event)
	if err != nil || out.Flush() != nil {
		return false
	}
	_ = out.SetWriteDeadline(time.Time{})
	return true
}

// event returns a server-sent event. A carriage return also ends its line, and errors may contain
// some.
func event(content []byte) []byte {
	content = bytes.ReplaceAll(content, []byte("\r"), []byte(" "))
	var event bytes.Buffer
	for line := range bytes.Lines(content) {
		event.WriteString("data: ")
		event.Write(bytes.TrimRight(line, "\n"))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	return event.Bytes()
}

// WithHosts adds host names by which readers may open the page, such as "debug.example.com". A port,
// and upper or lower case, do not matter. An IP address and localhost are always allowed. "*" allows
// each name: use it only behind a proxy that authenticates readers and keeps the host of their
// requests, because otherwise any website can read the page through a reader's browser.
func WithHosts(names ...string) Option {
	return optionFunc(func(p *Page) {
		for _, name := range names {
			p.hosts = append(p.hosts, hostname(name))
		}
	})
}

// allows reports whether the page answers requests for a host. A website can resolve its own name to
// the address of the page (DNS rebinding), and a visitor's browser then takes the page for a part of
// the website and shows it everything. But the browser still sends the name of the website, and a
// website cannot make it send an address instead.
func (p *Page) allows(host string) bool {
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return true
	}
	for _, allowed := range p.hosts {
		if allowed == "*" || allowed == name {
			return true
		}
	}
	return false
}

// hostname returns a host without its port, brackets and final dot, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// maxHost is the length of the longest name that DNS has.
const maxHost = 253

// refuseHost answers a request for a host that the page does not allow.
func refuseHost(w http.ResponseWriter, host string) {
	name := hostname(host)
	name = name[:min(len(name), maxHost)]
	http.Error(w, fmt.Sprintf("this page of informers is not served for the host %q, because a website could reach it under its own name: "+
		"open it by an IP address or localhost, or allow the name by inspect.WithHosts(%q)", name, name), http.StatusMisdirectedRequest)
}
