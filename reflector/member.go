package reflector

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// member is one watch of several that may be shared. All but what the hub's mu protects belongs to
// the goroutine that calls next.
type member struct {
	hub    *hub
	asks   demand
	opts   metav1.ListOptions
	shards *shardSet
	began  time.Time
	wake   chan struct{} // something comes when there is more, or no more

	own tap // nil once it takes part
	// begun is false before the first objects of a watch-list have come, odd true if what comes
	// has no order, and everything if it is not a shard alone.
	begun, odd, everything bool
	at                     revision // own brought everything up to here

	// The hub's mu protects these.

	trunk *trunk   // that it takes part in, or is about to
	since revision // what came after this is in inbox
	// joined means that it takes part: what is not newer than floor is known.
	joined bool
	floor  revision
	inbox  []haul
	told   bool          // a haul that says that others' objects came was left as it is
	delay  time.Duration // how long others have waited for it, since it had taken all that there was
	cast   bool          // it was too slow
}

// inboxSize is how many hauls may wait for a member: each is a buffer of 64 kB, or so many events.
const (
	inboxSize  = 8
	haulEvents = 64
)

// begins takes what came of asking for the watch: own is nil if it takes part in another.
func (m *member) begins(own tap, err error) (*member, error) {
	m.own, m.began = own, time.Now()
	return m, err
}

// answer returns whose text errors have.
func (m *member) answer() *answer {
	if m.own != nil {
		return m.own.of()
	}
	return m.trunk.source.of()
}

// next waits for more. It returns io.EOF when there is no more.
func (m *member) next(ctx context.Context) (haul, error) {
	if m.own == nil {
		return m.take(ctx)
	}
	came, err := m.own.next(ctx)
	if err != nil {
		return came, err
	}
	m.heed(&came)
	if m.begun && m.everything && !m.odd {
		m.approach(ctx)
	}
	return came, nil
}

// heed looks at what its own watch brought.
func (m *member) heed(came *haul) {
	for i := range came.size() {
		n := came.notice(i, m.asks.by)
		if n.kind == changing && !m.shards.contains(n.hash) {
			m.everything = true
		}
		switch {
		case !m.begun && (n.kind == changing || n.kind == marking):
			if n.closing {
				m.begun, m.at = true, n.version
			}
		case n.kind != changing && n.kind != marking || n.version < m.at:
			m.odd = true
		default:
			m.at = n.version
		}
	}
	if came.passed > 0 {
		m.everything = true
		m.at = max(m.at, came.version)
	}
}

// approach takes part in what is shared, if its own watch has brought all that was before.
func (m *member) approach(ctx context.Context) {
	h := m.hub
	h.mu.Lock()
	if m.trunk != nil && !m.trunk.joinableLocked() {
		h.mu.Unlock()
		h.leave(m)
		h.mu.Lock()
	}
	if m.trunk == nil {
		t := h.trunkLocked(m.asks)
		if t == nil && !h.aloneLocked(m.asks) {
			t = h.startLocked(ctx, m)
		}
		if t != nil {
			t.registerLocked(m)
		}
	}
	t := m.trunk
	caughtUp := t != nil && !t.opened.IsZero() && m.at >= m.since
	if caughtUp {
		t.joinLocked(m)
		m.skipLocked()
	}
	h.mu.Unlock()
	if caughtUp {
		own := m.own
		m.own = nil
		own.close()
	}
}

// skipLocked takes out of the inbox what is known.
func (m *member) skipLocked() {
	for i := range m.inbox {
		h := &m.inbox[i]
		known := 0
		for known < h.size() && h.notice(known, m.asks.by).version <= m.floor {
			known++
		}
		if h.batch != nil {
			h.batch.Frames = slices.Delete(h.batch.Frames, 0, known)
		}
		h.events = slices.Delete(h.events, 0, min(known, len(h.events)))
		if h.version <= m.floor {
			h.passed = 0
		}
	}
}

// take waits for what the trunk has for it.
func (m *member) take(ctx context.Context) (haul, error) {
	for {
		m.hub.mu.Lock()
		t := m.trunk
		if len(m.inbox) > 0 {
			next := m.inbox[0]
			if m.inbox = slices.Delete(m.inbox, 0, 1); len(m.inbox) == 0 {
				m.delay = 0
			}
			m.hub.mu.Unlock()
			t.makeRoom()
			return next, nil
		}
		cast, ended, err := m.cast, t.ended, t.err
		m.hub.mu.Unlock()
		switch {
		case cast:
			return haul{}, io.EOF
		case ended:
			return haul{}, m.last(ctx, err)
		}
		select {
		case <-m.wake:
		case <-ctx.Done():
			return haul{}, ctx.Err()
		}
	}
}

// last returns why there is no more. A watch that ends as soon as it began looks like a failure:
// so the end of one that was old is put off for who came late.
func (m *member) last(ctx context.Context, err error) error {
	rest := shortWatch - time.Since(m.began)
	if rest <= 0 || time.Since(m.trunk.opened) < shortWatch {
		return err
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return err
}

// putLocked puts an event into the inbox, or a copy of it if another member has it.
func (m *member) putLocked(came *haul, i int, taken bool) {
	tail := m.tailLocked()
	if tail != nil && tail.passed > 0 && !m.told {
		m.told, tail = true, nil // else nobody would see that others' objects come
	}
	if came.batch != nil {
		frame := &came.batch.Frames[i]
		if tail == nil || tail.batch != nil && !tail.batch.Append(frame) {
			m.inbox = append(m.inbox, haul{})
			tail = m.tailLocked()
		} else if tail.batch != nil {
			tail.passed = 0
			return
		}
		tail.batch, tail.passed = wire.NewBatch(), 0
		tail.batch.Format = came.batch.Format
		tail.batch.Append(frame)
		return
	}
	if tail == nil || len(tail.events) >= haulEvents {
		m.inbox = append(m.inbox, haul{})
		tail = m.tailLocked()
	}
	e := came.events[i]
	if taken {
		e = copyOf(e)
	}
	tail.events, tail.passed = append(tail.events, e), 0
}

// passLocked notes that something happened to an object of another shard. What comes after it
// says so, too.
func (m *member) passLocked(version revision) {
	if m.tailLocked() == nil {
		m.inbox = append(m.inbox, haul{})
	}
	tail := m.tailLocked()
	tail.passed++
	tail.version = version
}

// stirLocked notes that an object of somebody else was added, of which nothing else is to be known.
func (m *member) stirLocked() {
	if m.tailLocked() == nil {
		m.inbox = append(m.inbox, haul{})
	}
	m.tailLocked().added = true
}

// tailLocked returns what came last; nil if it was taken.
func (m *member) tailLocked() *haul {
	if len(m.inbox) == 0 {
		return nil
	}
	return &m.inbox[len(m.inbox)-1]
}

func (m *member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// close ends what the member has of its own, and the trunk if it was the last one there.
func (m *member) close() {
	if m.own != nil {
		m.own.close()
	}
	m.hub.leave(m)
}

// String returns a revision as the server writes it.
func (r revision) String() string { return strconv.FormatUint(uint64(r), 10) }
