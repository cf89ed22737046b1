package reflectortest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A Server is an in-memory Kubernetes API server for tests. Its methods may be
// called from any goroutine.
type Server struct {
	options options
	faults  faults
	journal journal
	// registered is replaced, under mu, when a definition changes. A registry itself never changes.
	registered atomic.Pointer[registry]

	memory *memoryListener // nil on a port
	http   *http.Server
	url    string

	// conns counts the connections, the goroutine that accepts them, and that of the garbage
	// collector.
	conns   sync.WaitGroup
	closing chan struct{}
	close   sync.Once
	// running ends with the server; stop ends it.
	running context.Context
	stop    context.CancelFunc

	mu sync.Mutex // protects the fields below it and the history of every resource
	// version is the version of the last change of any resource, like etcd's revision.
	version uint64
	// bookmarks is closed and replaced to ask every watch for a bookmark.
	bookmarks chan struct{}
	sharding  bool // the server supports shard selectors
	// restored is closed and replaced when the state goes back in time.
	restored chan struct{}
	// written is closed at the next change. It is nil while WaitFor does not need it.
	written chan struct{}
	// uncollected means that something has changed since the last pass of the garbage collector, or
	// in it.
	uncollected bool
	// created has how often an object of a resource and a name was created. It is nil without
	// WithStableUIDs.
	created map[string]int
	// linked is the memory of the last pass for the next one.
	linked []*record
	// garbage gets a value at a change. It is nil without WithGarbageCollection, and never replaced.
	garbage chan struct{}

	definitions definitions
}

func (s *Server) registry() *registry { return s.registered.Load() }

// NewServer starts a server. The caller must close it; Start does that itself. For a
// testing/synctest bubble, call NewServer or Start inside the bubble.
func NewServer(opts ...Option) (*Server, error) {
	o := options{bookmarkInterval: time.Minute}
	for _, opt := range opts {
		opt.apply(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	registry, err := newRegistry(o.resources)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options:   o,
		closing:   make(chan struct{}),
		version:   1, // etcd's first revision, so that no list is at version 0
		bookmarks: make(chan struct{}),
		restored:  make(chan struct{}),
	}
	s.registered.Store(registry)
	if o.definitions {
		s.definitions.init(registry)
		s.registered.Store(registry.with(nil, nil))
	}
	if err := s.resolveAdmissions(); err != nil {
		return nil, err
	}
	s.running, s.stop = context.WithCancel(context.Background())
	s.journal.init()
	if o.stableUIDs {
		s.created = map[string]int{}
	}
	if o.collects {
		s.garbage = make(chan struct{}, 1)
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	if o.collects {
		s.conns.Go(s.runCollector)
	}
	return s, nil
}

// Start starts a server that is closed when the test ends. In a testing/synctest bubble, pass the
// bubble's own t. A server belongs to the bubble in which it was started, and cannot be reached
// from another.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := NewServer(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *Server) listen() error {
	var listener net.Listener
	if s.options.port {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("reflectortest: no port to listen on: %w", err)
		}
		s.url = "http://" + listener.Addr().String()
	} else {
		s.memory = newMemoryListener()
		listener = s.memory
		s.url = "http://" + s.memory.Addr().String()
	}
	s.http = &http.Server{Handler: s, ConnContext: withConn, ConnState: s.countConn}
	// One request a connection: net/http repeats a GET by itself when a reused
	// connection breaks, which would hide a fault from the client under test.
	s.http.SetKeepAlivesEnabled(false)
	s.conns.Go(func() { _ = s.http.Serve(listener) })
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func (s *Server) countConn(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	}
}

// Close ends every request and waits for the goroutines behind them. It may be
// called more than once.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closing)
		s.stop()
		_ = s.http.Close()
	})
	s.conns.Wait()
}

// URL is the address of the server. Without OnPort only clients made from Config reach it.
func (s *Server) URL() string { return s.url }

// Config is for kubernetes.NewForConfig and every other client. Each call
// returns a new one, without a limit on requests a second.
func (s *Server) Config() *rest.Config {
	c := &rest.Config{
		Host: s.url,
		QPS:  -1,
		// Ignore the proxy of the environment.
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	if s.memory != nil {
		c.Dial = s.memory.DialContext
	}
	return c
}

// ResourceVersion is the version of the last change.
func (s *Server) ResourceVersion() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Compact forgets every change before a version. A list at an older version, and a continue token
// of one, get 410 Expired. As in etcd, the server still knows the state at the version itself, and
// the change that made it. A watch from one version before it still gets that change; a watch from
// further back gets 410. A running watch that has sent the changes continues. LoseHistory forgets
// all changes.
func (s *Server) Compact(version uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version > s.version {
		return fmt.Errorf("reflectortest: cannot compact at version %d: the current one is %d", version, s.version)
	}
	for _, r := range s.collectionsLocked() {
		r.history.compact(version)
	}
	return nil
}

// loseHistory forgets every change up to now.
func (s *Server) loseHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.collectionsLocked() {
		r.history.lose(s.version)
	}
}

// Restore makes an older version the current one, as when etcd is restored from a backup. Later
// changes are gone, resource versions are used again, and every watch is cut off. Version 0 is
// refused: it has no state.
//
// A client that resumes its watch at its last version then asks for a future version. It gets no
// error, events or bookmarks until new changes have used the versions up to its own again. It
// misses these changes, and gets those that follow. A list that needs at least such a version, or
// continues at one, is refused with 504 Timeout, "Too large resource version".
func (s *Server) Restore(version uint64) error {
	if version == 0 {
		return errors.New("reflectortest: cannot restore version 0: the first one is 1")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if version > s.version {
		return fmt.Errorf("reflectortest: cannot restore version %d: the current one is %d", version, s.version)
	}
	for _, r := range s.collectionsLocked() {
		if version < r.history.compacted {
			return fmt.Errorf("reflectortest: cannot restore version %d: %s is compacted at %d", version, r.gvr(), r.history.compacted)
		}
	}
	for _, r := range s.collectionsLocked() {
		r.history.rewind(version)
	}
	s.version = version
	s.followDefinitionsLocked()
	s.wakeLocked()
	close(s.restored)
	s.restored = make(chan struct{})
	return nil
}

// SendBookmarks makes every watch that allows bookmarks send one now. A busy watch sends one
// bookmark when it has caught up, even after several calls.
func (s *Server) SendBookmarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.bookmarks)
	s.bookmarks = make(chan struct{})
}
