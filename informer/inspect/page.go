package inspect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
)

const (
	// defaultInterval is the default of [WithInterval].
	defaultInterval = time.Second
	// keptChanges is how many changes of each informer the page remembers, at about 150 bytes each.
	keptChanges = 512
	// keptVersions is for how many of the last changes of each informer the page keeps the object before
	// and after, to show their differences. It shares these objects with the cache and its readers.
	keptVersions = 64
)

// minInterval is the shortest [WithInterval].
const minInterval = 50 * time.Millisecond

// Page is an [http.Handler] that shows informers. See the package documentation for its contents.
//
// Create one with [New], and add informers and runnables with [Add] and [Page.AddRunnable].
type Page struct {
	interval time.Duration
	masked   [][]string
	hosts    []string // of WithHosts
	routes   *http.ServeMux
	closed   chan struct{}
	close    sync.Once

	// looking holds a token while one request computes the view; the others wait for its result.
	looking chan struct{}

	// mu protects the fields below it. It is not held while a source or runnable is asked, or a request
	// is answered.
	mu        sync.Mutex
	sources   []*namedSource // copied to be changed, as are runnables
	runnables []*namedRunnable
	changed   int   // the number of changes of sources and runnables
	last      *view // the last view; nil if it is outdated
}

// source is an informer of any type.
type source interface {
	state() Informer
	object(key key, masked [][]string) (ObjectState, bool)
	// keys returns all namespaces, and the keys in one of them, or in all if it is empty, that contain
	// a text.
	keys(namespace, contains string) ([]string, []key)
}

type namedSource struct {
	id string
	source
}

type namedRunnable struct {
	id       string
	runnable informer.Runnable
	// asking receives the answer of the runnable; nil unless the page asks it. Only the holder of
	// Page.looking uses it.
	asking chan Runnable
}

// answerLimit is how long the page waits for its runnables.
const answerLimit = 2 * time.Second

// ask asks the runnable, unless an earlier question has no answer yet: Ready may block.
func (m *namedRunnable) ask() {
	select {
	case <-m.asking: // too late for the request that asked
		m.asking = nil
	default:
	}
	if m.asking == nil {
		m.asking = make(chan Runnable, 1)
		go func(answer chan<- Runnable) { answer <- m.look() }(m.asking)
	}
}

// await returns the answer of the runnable, or an answer that ctx ended first.
func (m *namedRunnable) await(ctx context.Context) Runnable {
	select {
	case answer := <-m.asking:
		m.asking = nil
		return answer
	case <-ctx.Done():
		return Runnable{Name: m.id, Reason: fmt.Sprintf("no answer for %v", answerLimit)}
	}
}

func (m *namedRunnable) look() (shown Runnable) {
	shown = Runnable{Name: m.id}
	defer func() {
		if value := recover(); value != nil { // the server would not recover it: this is not its goroutine
			shown.Ready, shown.Reason = false, fmt.Sprintf("panic: %v", value)
		}
	}()
	err := m.runnable.Ready()
	shown.Ready, shown.Reason = err == nil, errorText(err)
	if reporter, ok := m.runnable.(StatusReporter); ok {
		for _, item := range reporter.StatusItems() {
			shown.StatusItems = append(shown.StatusItems, StatusItem{Name: item[0], Value: item[1]})
		}
	}
	return shown
}

// Option configures a [Page].
type Option interface{ apply(*Page) }

type optionFunc func(*Page)

func (f optionFunc) apply(p *Page) { f(p) }

// WithInterval sets how often the page renews its view, for any number of readers. The default is
// a second; the minimum is 50 ms.
func WithInterval(d time.Duration) Option {
	return optionFunc(func(p *Page) { p.interval = max(d, minInterval) })
}

// New returns an empty page.
func New(opts ...Option) *Page {
	p := &Page{interval: defaultInterval, closed: make(chan struct{}), looking: make(chan struct{}, 1)}
	for _, opt := range opts {
		opt.apply(p)
	}
	p.routes = p.newRoutes()
	return p
}

// Add shows an informer, until remove is called. The page remembers its changes from now on. If
// another informer has the same name, this one is shown as name#2, and so on.
func Add[T any](p *Page, i *informer.Informer[T]) (remove func()) {
	watched := &watched[T]{informer: i, history: history[T]{size: keptChanges, versions: keptVersions}}
	watched.stop = i.Follow(&watched.history)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := i.Name()
	for n := 2; slices.ContainsFunc(p.sources, func(s *namedSource) bool { return s.id == id }); n++ {
		id = fmt.Sprintf("%s#%d", i.Name(), n)
	}
	added := &namedSource{id, watched}
	p.sources = append(slices.Clone(p.sources), added)
	p.changeLocked()
	return func() {
		watched.stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sources = slices.DeleteFunc(slices.Clone(p.sources), func(s *namedSource) bool { return s == added })
		p.changeLocked()
	}
}

// AddRunnable shows whether a runnable is ready, until remove is called: a reconciler or a
// manager. It also shows the facts of a [StatusReporter].
func (p *Page) AddRunnable(name string, runnable informer.Runnable) (remove func()) {
	added := &namedRunnable{id: name, runnable: runnable}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runnables = append(slices.Clone(p.runnables), added)
	p.changeLocked()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.runnables = slices.DeleteFunc(slices.Clone(p.runnables), func(m *namedRunnable) bool { return m == added })
		p.changeLocked()
	}
}

// Close ends the streams, which otherwise last as long as their readers. A server waits for them
// when it shuts down: see [http.Server.RegisterOnShutdown]. Other requests still work.
func (p *Page) Close() { p.close.Do(func() { close(p.closed) }) }

// changeLocked makes the next request compute the view again.
func (p *Page) changeLocked() { p.changed, p.last = p.changed+1, nil }

// State returns the contents of the page. They are at most one interval old.
func (p *Page) State() State { return p.look().state }

// look returns the current view. Concurrent calls share one computation.
func (p *Page) look() *view {
	p.looking <- struct{}{}
	defer func() { <-p.looking }()
	p.mu.Lock()
	last, changed, sources, runnables := p.last, p.changed, p.sources, p.runnables
	p.mu.Unlock()
	if last != nil && time.Since(last.state.At) < p.interval {
		return last
	}
	s := State{At: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	for _, one := range runnables {
		one.ask()
	}
	for _, one := range sources {
		i := one.state()
		i.ID = one.id
		s.Informers = append(s.Informers, i)
	}
	for _, one := range runnables {
		s.Runnables = append(s.Runnables, one.await(ctx))
	}
	seen := newView(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == changed {
		p.last = seen
	}
	return seen
}

// find returns the informer that a request is about, or answers that there is none.
func (p *Page) find(w http.ResponseWriter, id string) source {
	p.mu.Lock()
	sources := p.sources
	p.mu.Unlock() // before the answer, which a client may not take
	for _, s := range sources {
		if s.id == id {
			return s
		}
	}
	http.Error(w, fmt.Sprintf("the page has no informer %.100q", id), http.StatusNotFound)
	return nil
}
