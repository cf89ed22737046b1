package reflector

import (
	"context"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// trunk is a watch of everything that several members have between them. One goroutine reads it, and
// gives each what is in its shards.
type trunk struct {
	hub      *hub
	asks     demand
	opts     metav1.ListOptions
	until    time.Time       // nobody joins later: it may have stalled
	ctx      context.Context // of the watch, which outlives whoever begins it
	cancel   context.CancelFunc
	answered chan struct{} // closed when the server has answered
	done     chan struct{} // closed when all has ended
	room     chan struct{} // something comes when a member took something, joined or left

	// These are set when answered is closed.

	refusal error // nil if the watch is open
	source  tap
	opened  time.Time

	// The hub's mu protects these.

	begun    bool
	members  []*member
	position revision  // what is newer goes to all who are members
	heard    time.Time // when something came last
	ended    bool
	err      error // why it ended

	// These are of the goroutine that reads.

	notices []notice
	slow    []*member // for whom the others wait

	// Of a watch-list that is shared: what is asked for, and whose shards. See gathering.

	roll    *roll
	union   *shardSet
	listed  bool      // the initial events are over
	ignored bool      // objects came that nobody asked for: the server does not select
	stirred time.Time // when all were told last that objects of others come
	stirs   bool      // they are told that in what is placed now
}

// memberPatience is how long others wait for one, all in all, until it has taken all there is for it.
const memberPatience = 5 * time.Second

func (t *trunk) beginLocked() {
	t.begun = true
	go t.run(t.opts)
}

func (t *trunk) run(opts metav1.ListOptions) {
	defer close(t.done)
	defer t.cancel()
	if t.ask(opts) != nil {
		return
	}
	defer t.source.close()
	err := io.EOF // also if a client ends the goroutine
	defer func() {
		t.hub.mu.Lock()
		defer t.hub.mu.Unlock()
		t.endLocked(err)
	}()
	err = t.read(t.ctx)
}

// ask opens the watch, and tells those who wait for it what came of that.
func (t *trunk) ask(opts metav1.ListOptions) error {
	var source tap
	err := errNoWatch // also if a client ends the goroutine
	defer func() {
		t.answer(source, err)
		if t.roll != nil {
			t.hub.gathered(*t.roll)
		}
	}()
	source, err = t.hub.open(t.ctx, opts)
	return err
}

func (t *trunk) answer(source tap, err error) {
	defer close(t.answered)
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	now := time.Now()
	t.source, t.refusal, t.opened, t.heard = source, err, now, now
	if err == nil {
		return
	}
	if len(t.members) > 0 && !slices.ContainsFunc(t.members, func(m *member) bool { return m.joined }) {
		t.hub.separateLocked(t.asks, unavailable) // they have watches of their own
	}
	t.endLocked(err)
}

// read hands out what comes until nothing does any more, and returns why.
func (t *trunk) read(ctx context.Context) error {
	for {
		came, err := t.source.next(ctx)
		if err != nil {
			return err
		}
		more, err := t.deliver(ctx, &came)
		if came.batch != nil {
			came.batch.Release()
		}
		if err != nil || !more {
			return err
		}
	}
}

// deliver hands out what came. It returns false if nothing after that can be.
func (t *trunk) deliver(ctx context.Context, came *haul) (bool, error) {
	t.notices = t.notices[:0]
	for i := range came.size() {
		t.notices = append(t.notices, came.notice(i, t.asks.by))
	}
	for {
		full, more := t.place(came)
		if !full && !more {
			return false, io.EOF
		}
		if !full {
			return true, nil
		}
		began := time.Now()
		timer := time.NewTimer(t.patience())
		select {
		case <-t.room:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
		timer.Stop()
		t.castOff(time.Since(began))
	}
}

// place puts what came into the inboxes of all members, or of none if one who takes part has no
// room. It returns false for more if what came has no order that anybody could join in.
func (t *trunk) place(came *haul) (full, more bool) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	for _, m := range t.members {
		switch {
		case len(m.inbox) < inboxSize:
		case m.joined:
			return true, true
		default: // it has not caught up, and has to come as far as this now
			m.inbox, m.since = nil, t.position
		}
	}
	defer t.wakeLocked()
	t.heard = time.Now()
	if t.stirs = t.heard.Sub(t.stirred) >= stirEvery; t.stirs {
		t.stirred = t.heard
	}
	for i, n := range t.notices {
		if !t.placeLocked(came, i, n) {
			t.hub.forgetLocked(t)
			return false, false
		}
	}
	return false, true
}

// placeLocked puts one event where it belongs. It returns false if it is one after which nothing
// can be said of what comes next.
func (t *trunk) placeLocked(came *haul, i int, n notice) bool {
	switch {
	case t.union != nil:
		return t.placeListedLocked(came, i, n)
	case n.kind == changing && n.version >= t.position:
		taken := false
		for _, m := range t.members {
			switch {
			case n.version <= m.floor:
			case m.shards.contains(n.hash):
				m.putLocked(came, i, taken)
				taken = true
			default:
				m.passLocked(n.version)
			}
		}
		t.position = n.version
		return true
	case n.kind == marking && n.version >= t.position:
		for _, m := range t.members {
			if n.version >= m.floor {
				m.putLocked(came, i, false)
			}
		}
		t.position = n.version
		return true
	}
	// A failure, what nobody can read, or a server that went back: that is for each to judge.
	for _, m := range t.members {
		if m.joined {
			m.putLocked(came, i, true)
		}
	}
	if n.kind == strange || n.kind == changing {
		t.hub.separateLocked(t.asks, orderless)
	}
	return false
}

// patience notes for whom others wait, and returns for how long they still do.
func (t *trunk) patience() time.Duration {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.slow = t.slow[:0]
	least, others := memberPatience, false
	for _, m := range t.members {
		switch {
		case !m.joined:
		case len(m.inbox) < inboxSize:
			others = true
		default:
			t.slow = append(t.slow, m)
			least = min(least, memberPatience-m.delay)
		}
	}
	if !others {
		clear(t.slow) // nobody waits for them
		t.slow = t.slow[:0]
		return memberPatience
	}
	return least
}

// castOff leaves those behind for whom others have waited long enough.
func (t *trunk) castOff(waited time.Duration) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	for _, m := range t.slow {
		if m.trunk != t || !m.joined {
			continue // it has left
		}
		if m.delay += waited; m.delay >= memberPatience {
			m.cast = true
			t.removeLocked(m)
		}
	}
	clear(t.slow)
}

// joinableLocked reports whether somebody may still join. One that has been silent for so long may
// have stalled: bookmarks come every minute.
func (t *trunk) joinableLocked() bool {
	now := time.Now()
	return !t.ended && now.Before(t.until) && (t.opened.IsZero() || now.Sub(t.heard) < silence)
}

func (t *trunk) registerLocked(m *member) {
	m.trunk, m.since, m.floor, m.joined, m.inbox = t, t.position, 0, false, nil
	t.members = append(t.members, m)
}

// joinLocked makes a registered member take part from where it is. Those of whom there is too much
// already hold it up from now on: before, there may have been nobody to wait for them.
func (t *trunk) joinLocked(m *member) {
	m.joined, m.floor = true, m.at
	t.makeRoom()
}

// dropLocked takes a member out, and reports whether nobody is left for whom to go on.
func (t *trunk) dropLocked(m *member) bool {
	t.removeLocked(m)
	if len(t.members) > 0 || !t.begun {
		return false
	}
	t.hub.forgetLocked(t)
	t.cancel()
	return true
}

func (t *trunk) removeLocked(m *member) {
	t.members = slices.DeleteFunc(t.members, func(other *member) bool { return other == m })
	t.makeRoom()
}

// makeRoom tells the goroutine that reads to look again.
func (t *trunk) makeRoom() {
	select {
	case t.room <- struct{}{}:
	default:
	}
}

func (t *trunk) endLocked(err error) {
	t.ended, t.err = true, err
	t.hub.forgetLocked(t)
	t.wakeLocked()
}

func (t *trunk) wakeLocked() {
	for _, m := range t.members {
		if m.joined {
			m.wakeUp()
		}
	}
}

// copyOf returns an event for one more member: what handles one object may change it.
func copyOf(e watch.Event) watch.Event {
	if !isNil(e.Object) {
		e.Object = e.Object.DeepCopyObject()
	}
	return e
}
