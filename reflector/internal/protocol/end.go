package protocol

import (
	"cmp"
	"time"

	"github.com/kubereflector/kubereflector/internal/versions"
)

// Handling of the end of a watch.

const (
	// ShortWatchTime is the duration below which a watch without news counts as a failure.
	ShortWatchTime = time.Second

	// briefWatch is the duration that one of two consecutive watches must reach. Otherwise the
	// reflector reports it once, and keeps minPace and maxPace: a server that ends each watch after
	// one event would get hundreds of requests a second.
	briefWatch = 10 * time.Second

	// busyWatch is the number of changes with which a watch is not brief, however long it lasted. A
	// server ends the watches that its changes overrun, mostly several in a row, until the client has
	// caught up. With pauses in between, the cache would be seconds late when most happens, and the next
	// watch would begin with even more changes. Requests stay rare beside the changes.
	busyWatch = 100

	// maxFruitless is how many consecutive watches may be refused, or end at once, before a list follows each
	// further one. The server may have forgotten the version without saying so (kubernetes/kubernetes#137089),
	// or may be unable to send the next event, or the client to decode it; or something between lets lists
	// through, and no watches. Without a list, the reflector would ask for the same watch for ever.
	maxFruitless = 3

	// fruitlessTime is how long that must have lasted, unless client-go could not read the watch: longer than the
	// trouble of a server that starts or ends, to which a list of each of its clients would add.
	fruitlessTime = time.Minute

	// probeSpread is the longest pause before the probe after a broken watch that brought nothing. It
	// spreads the probes, because all watches of a server break at once when the server ends. A watch
	// with news is resumed at once, because its objects change and the cache would be late; and so are
	// brief watches one after the other, because those of other reflectors end at other times.
	probeSpread = 500 * time.Millisecond

	// After maxFailedProbes consecutive failures the reflector asks for a watch, because the server may
	// be unable to list.
	maxFailedProbes = 3

	// unlistableFor is how long a server that serves watches but no probe is asked for the watch first.
	unlistableFor = time.Hour

	// settleTime is how old a bookmark must be for a watch that ended early to be resumed from its version.
	// A server whose definition of the kind changed (a default, a conversion webhook) shows each object
	// differently without a new version. It refuses a watch from before that with a 410, and the list that
	// follows shows the objects anew. But the server ends the old watches a second or so after the change,
	// and a bookmark in between has the version of the change, from which the watch would be accepted. A
	// change of an object in that second has such a version, too, and counts nevertheless: before it, the
	// server would send it a second time. Then objects are shown as before until they change.
	settleTime = 10 * time.Second

	// clockSlack is how much earlier than asked a server may end a watch, and how late an alarm may ring.
	clockSlack = time.Second
)

// end handles the end of a watch. err is nil if the server closed the watch, and otherwise the
// error that broke it.
func (p *step) end(err error) {
	lasted := p.now.Sub(p.watching.opened)
	if p.phase == polling {
		p.triggerEnded(err, lasted)
		return
	}
	if p.phase == streaming {
		if err == nil {
			err = StreamEnded
			if lasted > bookmarkDeadline {
				err = NoInitialEventsEnd // as of a server that takes it for a plain watch
			}
		}
		breakOff(p, err)
		return
	}
	p.early = false // if no event came, it is still that of the watch before
	if err != nil || lasted < p.watching.asked-clockSlack {
		p.distrust()
	}
	busy := p.watching.changes >= busyWatch
	if lasted < briefWatch && !busy {
		p.brief++
	} else {
		p.brief = 0
	}
	// A server that closes one brief or busy watch after the other is probed once in a while: it cannot be
	// restored in between without refusing a connection.
	early := lasted < max(ShortWatchTime, p.watching.asked-clockSlack) && (p.brief < 2 && !busy || p.now.Sub(p.probedAt) >= briefWatch)
	p.suspect = p.suspect || err != nil || early
	enough := ShortWatchTime // for a watch without news to have worked
	if Classify(err) == Unreadable {
		enough = briefWatch
	}
	switch {
	case p.moved() || lasted >= enough:
		p.fruitless = 0
	case p.relistDue():
	case p.countFruitless(err):
		relist(p, cmp.Or(err, error(ShortWatch)))
		return
	case lasted < ShortWatchTime:
		retry(p, cmp.Or(err, error(ShortWatch)))
		return
	}
	p.stop(err)
	if err == nil && p.brief == 2 && !p.relistDue() {
		err = ShortWatch
	}
	if err != nil && p.brief <= 2 { // once, because a proxy may end watches like this for days
		p.do(Action{Do: Report, Err: err, Op: OpWatch})
	}
	p.resumeAfter(lasted)
}

// resumeAfter resumes after a watch that worked.
func (p *step) resumeAfter(lasted time.Duration) {
	var pause time.Duration
	if p.brief > 1 {
		pause = between(minPace, maxPace, p.dice) - lasted
	}
	if p.suspect && !p.moved() && p.brief < 2 { // begin will probe
		pause = between(0, probeSpread, p.dice)
	}
	if pause <= 0 || p.relistDue() {
		p.begin()
		return
	}
	p.phase = waiting
	p.do(Action{Do: Delay, Pause: pause})
}

// distrust lets the next watch begin at a settled version.
func (p *step) distrust() {
	p.early = true
	if p.now.Sub(p.markedAt) >= settleTime {
		p.settled = p.marked
	}
}

// mark records that a bookmark moved position. One that follows the last marked one within settleTime is
// not marked: with a bookmark each second, none would ever settle.
func (p *step) mark() {
	p.early = false
	if p.now.Sub(p.markedAt) >= settleTime {
		p.settled, p.marked, p.markedAt = p.marked, p.position, p.now
	}
}

// moved reports whether the watch advanced the resource version. Replayed events with
// older versions do not count.
func (p State) moved() bool {
	return p.watching.news && p.position != p.watching.from && !versions.Later(p.watching.from, p.position)
}

// elapse handles the end of a pause, or of the time until the alarm.
func (p *step) elapse() {
	switch p.phase {
	case streaming:
		if p.now.Sub(p.Alarm()) > clockSlack && p.now.Sub(p.watching.opened) <= maxListTime {
			// The process stood still, and what came meanwhile is not read yet.
			p.heard, p.todo = p.now, receiveOnly
			return
		}
		breakOff(p, NoInitialEventsEnd)
		return
	case polling:
		p.list()
		return
	case following:
		if p.relistDue() {
			p.stop(nil)
			break
		}
		p.stop(SilentWatch)
		p.do(Action{Do: Report, Err: SilentWatch, Op: OpWatch})
	}
	p.begin()
}

// probed handles the answer to a probe.
func (p *step) probed(in Input) {
	p.heard, p.suspect, p.failedProbes, p.lastProbe, p.unlistable, p.probedAt = p.now, false, 0, false, time.Time{}, p.now
	if in.Conflict || versions.Later(p.position, in.Version) {
		relistNewest(p, ServerBehind)
		return
	}
	p.watch()
}

// Alarm returns the time at which the reflector must stop waiting for events: a list is due, or the
// watch was silent for too long.
func (p State) Alarm() time.Time {
	switch p.phase {
	case streaming:
		return p.heard.Add(bookmarkDeadline)
	case polling:
		return p.pollAt
	}
	late := p.late()
	if !p.relistAt.IsZero() && p.relistAt.Before(late) {
		return p.relistAt
	}
	return late
}

// late returns when the reflector gives up a watch that sends nothing and does not end.
func (p State) late() time.Time {
	late, silent := p.watching.opened.Add(overdue), p.heard.Add(Silence)
	if late.Before(silent) {
		return silent
	}
	return late
}
