package network

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// End is how a connection ends.
type End int

const (
	Stays  End = iota
	Closed     // in good order, as by a process that ends
	Reset      // by a RST, as by a firewall or a host that lost its memory
)

// Fault is what a [Line] does to its connections. The zero value does nothing.
type Fault struct {
	Stall bool          // nothing comes through, in either direction, and no connection ends
	Delay time.Duration // of each piece that the server sends
	End   End           // of each connection, once After bytes of the server's came through
	After int64
}

// Line is a way to a server, for one test. Its methods may be called from any goroutine.
type Line struct {
	listener net.Listener
	targets  []string // servers
	next     atomic.Int64
	received atomic.Int64
	open     sync.WaitGroup

	// mu protects the fields below it.
	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed when the fault changes
	pairs   map[*pair]struct{}
	over    bool
}

// pair is a connection of a client and the one to the server that belongs to it.
type pair struct{ client, server *net.TCPConn }

// Listen opens a line to the server of a configuration, until the end of the test, and changes the configuration to use it. Other servers of the
// cluster share the address: connections take turns, and a server that refuses one is left out.
func Listen(t testing.TB, config *rest.Config, others ...*rest.Config) *Line {
	t.Helper()
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{target.Host}
	for _, other := range others {
		also, _, err := rest.DefaultServerUrlFor(other)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, also.Host)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{listener: listener, targets: targets, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	config.Host = (&url.URL{Scheme: target.Scheme, Host: listener.Addr().String()}).String()
	l.open.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// Received returns how many bytes of the server's came through.
func (l *Line) Received() int64 { return l.received.Load() }

// Set has a fault from now on, also for connections that exist. One of them that is to end after no more bytes ends at once.
func (l *Line) Set(fault Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
	close(l.changed)
	l.changed = make(chan struct{})
	if fault.End != Stays && fault.After == 0 {
		for p := range l.pairs {
			p.end(fault.End)
		}
	}
}

// Mend is Set without a fault.
func (l *Line) Mend() { l.Set(Fault{}) }

func (l *Line) current() (Fault, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault, l.changed
}

func (l *Line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.open.Go(func() { l.serve(client.(*net.TCPConn)) })
	}
}

// dial connects to the server whose turn it is, or to one after it.
func (l *Line) dial() (server net.Conn, err error) {
	for range l.targets {
		if server, err = net.Dial("tcp", l.targets[int(l.next.Add(1))%len(l.targets)]); err == nil {
			return server, nil
		}
	}
	return nil, err
}

func (l *Line) serve(client *net.TCPConn) {
	server, err := l.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	p := &pair{client, server.(*net.TCPConn)}
	defer p.end(Closed)
	l.mu.Lock()
	l.pairs[p] = struct{}{}
	if l.over || l.fault.End != Stays && l.fault.After == 0 {
		p.end(max(l.fault.End, Closed))
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.pairs, p)
	}()
	var sent sync.WaitGroup
	sent.Go(func() {
		defer p.server.Close()
		l.send(p)
	})
	l.receive(p)
	_ = p.client.Close()
	sent.Wait()
}

// send forwards what the client says.
func (l *Line) send(p *pair) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := p.client.Read(buffer)
		for fault, changed := l.current(); fault.Stall; fault, changed = l.current() {
			<-changed
		}
		if _, failed := p.server.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// receive forwards what the server says.
func (l *Line) receive(p *pair) {
	buffer := make([]byte, 32<<10)
	var since int64 // bytes since the fault changed
	_, last := l.current()
	for {
		n, err := p.server.Read(buffer)
		fault, changed := l.await()
		if changed != last {
			since, last = 0, changed
		}
		truncated := fault.End != Stays && since+int64(n) >= fault.After
		if truncated {
			n = int(fault.After - since)
		}
		since += int64(n)
		l.received.Add(int64(n))
		if _, failed := p.client.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
		if truncated {
			p.end(fault.End)
			return
		}
	}
}

// await waits until something of the server's comes through, and returns the fault that it has then.
func (l *Line) await() (Fault, <-chan struct{}) {
	for {
		fault, changed := l.current()
		switch {
		case fault.Stall:
			<-changed
		case fault.Delay > 0:
			late := time.NewTimer(fault.Delay)
			select {
			case <-late.C:
				return fault, changed
			case <-changed:
				late.Stop()
			}
		default:
			return fault, changed
		}
	}
}

func (p *pair) end(how End) {
	if how == Reset {
		_ = p.client.SetLinger(0)
	}
	_ = p.client.Close()
	_ = p.server.Close()
}

func (l *Line) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.Set(Fault{End: Closed})
	l.open.Wait()
}
