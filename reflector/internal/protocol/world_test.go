package protocol

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// world is a server, a reflector and its store. It is a value.
type world struct {
	lags bool // the server's watch cache is one revision behind in lists that allow it
	left int8 // actions that the server may still take

	// log has the changes of the server since its creation, without those that a restore undid.
	// Change i has the revision i+1.
	log       [12]change
	rev       int8
	epoch     int8 // the number of restores
	compacted int8 // the newest revision whose changes are forgotten
	mute      bool // the server closes a watch from a forgotten revision, and does not say why
	refusal   refusal

	p       State
	pending Action // whose outcome is the next input
	now     time.Time
	hurry   int8 // requests since the last pause

	watch  watch
	staged [2]version // of the current list
	listed version    // the version of the current list
	store  [2]version
	synced version // the position, as the epoch in which it was read has it
	last   change  // the last change that the reflector received
	// undetected is true if the reflector resumed at a position from which the server has changed
	// in a restore, and could not know.
	undetected bool
	event      change // which the reflector applies
}

// version is one write of an object: its revision and the epoch of the write. The zero version is no
// object.
type version struct{ rev, epoch int8 }

// change is one write or deletion of an object.
type change struct {
	version
	key     int8
	deleted bool
}

// watch is the open watch, from the server's side.
type watch struct {
	open, broken bool
	ended        bool // the server closed it at once
	cursor       int8 // the revision of the last event
	bookmark     bool // a bookmark is due
	initial      int8 // the next of the initial events of a watch-list; 2 is their bookmark
	streams      bool // the initial events are not complete
}

// refusal is the index of the error that refuses the next request.
type refusal int8

var refusals = []error{
	nil,
	apierrors.NewTooManyRequests("busy", 0),
	apierrors.NewResourceExpired("expired"),
	apierrors.NewBadRequest("bad"),
	apierrors.NewInternalError(errors.New("internal")),
	statusError(403, "Forbidden", "forbidden"),
}

// action is one that the server may take.
type action struct {
	name string
	act  func(*world)
}

func (w *world) actions() []action {
	all := []action{
		{"write a", func(w *world) { w.write(0, false) }},
		{"write b", func(w *world) { w.write(1, false) }},
	}
	objects := w.at(w.rev)
	if objects[0] != (version{}) {
		all = append(all, action{"delete a", func(w *world) { w.write(0, true) }})
	}
	if objects[1] != (version{}) {
		all = append(all, action{"delete b", func(w *world) { w.write(1, true) }})
	}
	if w.compacted < w.rev {
		all = append(all, action{"compact", func(w *world) { w.compacted, w.mute = w.rev, false }})
	}
	if w.compacted < w.rev && !w.lags { // these lists only help if the cache that answers them does not lag for ever
		all = append(all, action{"forget", func(w *world) { w.compacted, w.mute = w.rev, true }})
	}
	if w.rev > 2 && w.epoch < 2 {
		all = append(all, action{"restore", (*world).restore})
	}
	if w.watch.open && !w.watch.broken {
		all = append(all, action{"cut", func(w *world) { w.watch.broken = true }})
		if !w.watch.bookmark && !w.watch.streams {
			all = append(all, action{"bookmark", func(w *world) { w.watch.bookmark = true }})
		}
	}
	if w.refusal == 0 && w.pending.Do <= AskWatchList {
		for i := range refusals[1:] {
			all = append(all, action{"refuse", func(w *world) { w.refusal = refusal(i + 1) }})
		}
	}
	return all
}

// restore undoes the last change, as a restore from a backup does. It ends the watch.
func (w *world) restore() {
	w.rev--
	w.log[w.rev] = change{}
	w.epoch++
	w.compacted = min(w.compacted, w.rev)
	w.watch.broken = w.watch.open
}

func (w *world) write(key int8, deleted bool) {
	w.log[w.rev] = change{version: version{rev: w.rev + 1, epoch: w.epoch}, key: key, deleted: deleted}
	w.rev++
}

// at returns the objects of the server at a revision.
func (w *world) at(rev int8) (objects [2]version) {
	for _, c := range w.log[:rev] {
		objects[c.key] = c.version
		if c.deleted {
			objects[c.key] = version{}
		}
	}
	return objects
}

// knows reports whether the server has, or had before it was compacted, the state at a version that
// the reflector read.
func (w *world) knows(v version) bool {
	return v.rev == 0 || v.rev <= w.rev && w.log[v.rev-1].epoch == v.epoch
}

// act carries out the pending action, and gives its outcome to the protocol.
func (w *world) act() error {
	a := w.pending
	switch a.Do {
	case AskPage, AskWatch, AskWatchList:
		if w.hurry++; w.hurry > 8 {
			return fmt.Errorf("%d requests without a pause", w.hurry)
		}
		if err := refusals[w.refusal]; err != nil {
			w.refusal = 0
			return w.step(Input{Kind: Failed, Err: err})
		}
		if a.Do == AskPage {
			return w.answer(a)
		}
		return w.open(a)
	case AskVersion:
		return w.step(Input{Kind: VersionKnown, Consistent: true})
	case Receive:
		return w.receive()
	case Replace:
		return w.replace(number(a.Version))
	case Apply:
		return w.apply()
	case Wait, Delay:
		if a.Do == Wait {
			w.staged, w.listed = [2]version{}, version{}
		}
		w.now = w.now.Add(a.Pause)
		w.hurry = 0
		return w.step(Input{Kind: Elapsed})
	}
	return fmt.Errorf("the protocol waits for the outcome of action %d", a.Do)
}

// answer answers a list request.
func (w *world) answer(a Action) error {
	if w.p.Probing() {
		return w.probe()
	}
	rev, from := w.rev, int8(0)
	asked := number(a.Version)
	switch {
	case a.Next != "":
		var epoch int8
		_, _ = fmt.Sscanf(a.Next, "%d/%d/%d", &rev, &epoch, &from)
		if rev < w.compacted || !w.knows(version{rev, epoch}) {
			return w.step(Input{Kind: Failed, Err: apierrors.NewResourceExpired("continue token expired")})
		}
	case asked > w.rev:
		return w.step(Input{Kind: Failed, Err: scriptErrors["ahead"]})
	case w.lags && a.Version != "":
		rev = max(asked, w.rev-1)
	}
	objects := w.at(rev)
	w.listed = version{rev, w.epochAt(rev)}
	for key := from; key < 2; key++ {
		if objects[key] != (version{}) {
			w.staged[key] = objects[key]
		}
		if a.Limit == 1 && key == 0 {
			return w.step(Input{Kind: Answered, Version: fmt.Sprint(rev), Next: fmt.Sprintf("%d/%d/1", rev, w.epochAt(rev))})
		}
	}
	return w.step(Input{Kind: Answered, Version: fmt.Sprint(rev)})
}

// probe answers with the object that changed last, as the runner compares it.
func (w *world) probe() error {
	position := number(w.p.Position())
	found := w.at(w.rev)[w.last.key]
	conflict := found.rev <= position && (w.last.deleted || found != w.last.version)
	if found == (version{}) {
		conflict = w.rev == position && !w.last.deleted
	}
	conflict = conflict && w.last.rev != 0
	if w.rev >= position && !conflict && !w.knows(w.synced) {
		w.undetected = true
	}
	return w.step(Input{Kind: Answered, Version: fmt.Sprint(w.rev), Conflict: conflict})
}

// open answers the request for a watch or a watch-list.
func (w *world) open(a Action) error {
	from := number(a.Version)
	switch {
	case a.Do == AskWatchList && from > w.rev:
		return w.step(Input{Kind: Failed, Err: scriptErrors["ahead"]})
	case a.Do == AskWatchList:
		w.watch = watch{open: true, cursor: w.rev, streams: true}
		w.listed = version{w.rev, w.epochAt(w.rev)}
	case from < w.compacted && !w.mute:
		return w.step(Input{Kind: Failed, Err: apierrors.NewResourceExpired("too old")})
	default:
		w.watch = watch{open: true, cursor: from, ended: from < w.compacted}
	}
	return w.step(Input{Kind: Accepted, Lasts: MaxWatch})
}

// receive returns the next event of the watch, or its end, or the alarm.
func (w *world) receive() error {
	o := &w.watch
	w.hurry = max(w.hurry-1, 0)
	switch {
	case o.broken:
		return w.step(Input{Kind: Ended, Err: errors.New("connection reset")})
	case o.ended:
		return w.step(Input{Kind: Ended})
	case o.streams:
		objects := w.at(o.cursor)
		for o.initial < 2 && objects[o.initial] == (version{}) {
			o.initial++
		}
		if o.initial == 2 {
			o.streams = false
			return w.step(Input{Kind: Marked, Version: fmt.Sprint(o.cursor), Closing: true})
		}
		w.event = change{version: objects[o.initial], key: o.initial}
		o.initial++
		return w.step(Input{Kind: Changed, Version: fmt.Sprint(w.event.rev), Added: true})
	case o.cursor < w.rev:
		w.undetected = w.undetected || !w.knows(w.synced)
		w.event = w.log[o.cursor]
		o.cursor++
		return w.step(Input{Kind: Changed, Version: fmt.Sprint(o.cursor)})
	case o.bookmark:
		o.bookmark = false
		w.undetected = w.undetected || !w.knows(w.synced) && w.rev >= w.synced.rev
		w.event = change{version: version{w.rev, w.epochAt(w.rev)}, key: -1}
		return w.step(Input{Kind: Marked, Version: fmt.Sprint(w.rev)})
	}
	w.hurry = 0
	if end := w.p.watching.opened.Add(MaxWatch); end.Before(w.p.Alarm()) {
		w.now = end
		return w.step(Input{Kind: Ended})
	}
	w.now = w.p.Alarm()
	return w.step(Input{Kind: Elapsed})
}

func (w *world) epochAt(rev int8) int8 {
	if rev == 0 {
		return 0
	}
	return w.log[rev-1].epoch
}

// apply writes the event to the store.
func (w *world) apply() error {
	if w.epoch == 0 && w.event.rev < w.synced.rev {
		return fmt.Errorf("the store goes back from %d to %d", w.synced.rev, w.event.rev)
	}
	w.synced = w.event.version
	if w.event.key >= 0 { // otherwise it is a bookmark
		w.last = w.event
		w.store[w.event.key] = w.event.version
		if w.event.deleted {
			w.store[w.event.key] = version{}
		}
	}
	return w.step(Input{Kind: Stored})
}

// replace writes the staged list to the store.
func (w *world) replace(rev int8) error {
	if w.epoch == 0 && rev < w.synced.rev {
		return fmt.Errorf("the store goes back from %d to %d", w.synced.rev, rev)
	}
	w.store, w.synced, w.undetected = w.staged, w.listed, false
	w.staged, w.listed, w.last = [2]version{}, version{}, change{}
	for key, v := range w.store {
		if v.rev > w.last.rev {
			w.last = change{version: v, key: int8(key)}
		}
	}
	return w.step(Input{Kind: Stored})
}

// step gives an input to the protocol, carries out the actions that have no outcome, and checks the
// store.
func (w *world) step(in Input) error {
	in.At, in.Dice = w.now, 1
	var todo []Action
	w.p, todo = w.p.Step(in)
	w.pending = Action{}
	for _, a := range todo {
		switch a.Do {
		case Discard:
			w.staged = [2]version{}
		case Stage:
			w.staged[w.event.key] = w.event.version
		case StopWatch:
			w.watch = watch{}
		}
		if a.Do <= Delay {
			w.pending = a
		}
	}
	if w.epoch == 0 && w.store != w.at(w.synced.rev) {
		return fmt.Errorf("the store has %v at %d, the server had %v", w.store, w.synced.rev, w.at(w.synced.rev))
	}
	return nil
}

// settled reports whether the reflector waits for the server on an open watch.
func (w *world) settled() bool {
	return w.p.phase == following && w.pending.Do == Receive && !w.watch.broken && w.watch.cursor == w.rev && !w.watch.bookmark
}

func number(version string) (n int8) {
	_, _ = fmt.Sscan(version, &n)
	return n
}

func (w *world) describe() string {
	return fmt.Sprintf("> %s (server at %d, store %v at %d)", describe(w.p, w.pending, w.now), w.rev, w.store, w.synced.rev)
}

// key returns a number that is equal for states with equal futures. Times count relative to now, and
// only as far as the protocol compares them. Fields that the phase does not use do not count.
func (w *world) key() [2]uint64 {
	r := *w
	r.left, r.now, r.pending.Err = 0, time.Time{}, nil
	p := &r.p
	p.now = time.Time{}
	if p.phase != paging && p.phase != replacing && p.phase != streaming && p.phase != replaced {
		p.listing = listing{paged: p.listing.paged}
	}
	if !r.watch.open {
		p.watching, r.watch = watching{}, watch{}
	}
	if p.phase != applying {
		r.event = change{}
	}
	for _, b := range []*backoff{&p.failures, &p.relists, &p.rejections} {
		if !b.healthySince.IsZero() && w.now.Sub(b.healthySince) >= HealthAfter {
			b.failures = 0
		}
	}
	relative := func(at *time.Time, counts time.Duration) {
		if !at.IsZero() {
			*at = time.Time{}.Add(24*time.Hour + max(at.Sub(w.now), -counts))
		}
	}
	relative(&p.watchListsAt, 0)
	relative(&p.relistAt, 0)
	relative(&p.listing.began, 0)
	relative(&p.listed, expiryAfter)
	relative(&p.heard, Silence)
	relative(&p.watching.opened, overdue)
	relative(&p.probedAt, briefWatch)
	relative(&p.markedAt, settleTime)
	if p.fruitless == 0 {
		p.fruitlessAt = time.Time{}
	}
	relative(&p.fruitlessAt, fruitlessTime)
	relative(&p.failures.healthySince, HealthAfter)
	relative(&p.relists.healthySince, HealthAfter)
	relative(&p.rejections.healthySince, HealthAfter)
	return [2]uint64{maphash.Comparable(seeds[0], r), maphash.Comparable(seeds[1], r)}
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
