package inspect

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
)

const (
	// DefaultInterval is how often what is shown is renewed.
	DefaultInterval = time.Second
	// DefaultHistory is how many changes are remembered of each informer.
	DefaultHistory = 512
)

// minInterval is the shortest [WithInterval].
const minInterval = 50 * time.Millisecond

// Page is an [http.Handler] that shows informers. See the package documentation for
// what it serves.
//
// Create one with [New], and give it what it is to show with [Add] and [Page.AddMember].
type Page struct {
	interval time.Duration
	history  int
	masked   [][]string
	routes   *http.ServeMux
	closed   chan struct{}
	close    sync.Once

	// mu protects the fields below it. It is not held while anything else is asked.
	mu      sync.Mutex
	sources []*namedSource
	members []*namedMember
	last    *State // what was shown last
}

// source is an informer of any type.
type source interface {
	state() Informer
	object(key key, masked [][]string) (ObjectState, bool)
	keys(filter filter) ([]string, []key)
}

type namedSource struct {
	id string
	source
}

type namedMember struct {
	id     string
	member informer.Member
}

// Option configures a [Page].
type Option interface{ apply(*Page) }

type optionFunc func(*Page)

func (f optionFunc) apply(p *Page) { f(p) }

// WithInterval sets how often what is shown is renewed, however many look. The default
// is [DefaultInterval]; less than 50 ms counts as that.
func WithInterval(d time.Duration) Option {
	return optionFunc(func(p *Page) { p.interval = max(d, minInterval) })
}

// WithHistory sets how many changes are remembered of each informer, at about 150 bytes
// each. The default is [DefaultHistory]; 0 or less remembers none.
func WithHistory(changes int) Option {
	return optionFunc(func(p *Page) { p.history = max(changes, 0) })
}

// New returns a page that shows nothing yet.
func New(opts ...Option) *Page {
	p := &Page{interval: DefaultInterval, history: DefaultHistory, closed: make(chan struct{})}
	for _, opt := range opts {
		opt.apply(p)
	}
	p.routes = p.newRoutes()
	return p
}

// Add shows an informer, until remove is called. Its changes are remembered from now on.
// An informer that has the name of another one is shown as name#2, and so on.
func Add[T any](p *Page, i *informer.Informer[T]) (remove func()) {
	watched := newWatched(i, p.history)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := i.Name()
	for n := 2; slices.ContainsFunc(p.sources, func(s *namedSource) bool { return s.id == id }); n++ {
		id = fmt.Sprintf("%s#%d", i.Name(), n)
	}
	added := &namedSource{id, watched}
	p.sources = append(p.sources, added)
	return func() {
		watched.stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sources = slices.DeleteFunc(slices.Clone(p.sources), func(s *namedSource) bool { return s == added })
		p.last = nil
	}
}

// AddMember shows, until remove is called, whether something else is ready: a reconciler,
// a group, a manager.
func (p *Page) AddMember(name string, member informer.Member) (remove func()) {
	added := &namedMember{name, member}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, added)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.members = slices.DeleteFunc(slices.Clone(p.members), func(m *namedMember) bool { return m == added })
		p.last = nil
	}
}

// Close ends the streams, which otherwise last as long as their readers: a server waits
// for them when it is shut down. See [http.Server.RegisterOnShutdown]. What is not a
// stream is served as before.
func (p *Page) Close() { p.close.Do(func() { close(p.closed) }) }

// State returns what the page shows, which is at most as old as its interval.
func (p *Page) State() State {
	p.mu.Lock()
	last, sources, members := p.last, p.sources, p.members
	p.mu.Unlock()
	if last != nil && time.Since(last.At) < p.interval {
		return *last
	}
	s := State{At: time.Now()}
	for _, one := range sources {
		i := one.state()
		i.ID = one.id
		s.Informers = append(s.Informers, i)
	}
	for _, one := range members {
		m := Member{Name: one.id, Ready: true}
		if err := one.member.Ready(); err != nil {
			m.Ready, m.Reason = false, err.Error()
		}
		s.Members = append(s.Members, m)
	}
	p.mu.Lock()
	p.last = &s
	p.mu.Unlock()
	return s
}

func (p *Page) find(id string) source {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sources {
		if s.id == id {
			return s
		}
	}
	return nil
}
