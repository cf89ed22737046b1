package reflector

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// protocol is what a reflector knows of its conversation with the API server. It
// is a value and has no goroutine, clock or I/O in it: step takes what happened
// and says what to do next. The scripts in testdata show whole conversations.
type protocol struct {
	// limit is the size of pages. Unless alwaysPage is set, it is left out where
	// it would keep the server from answering from its watch cache.
	limit      int64
	alwaysPage bool
	// streams is true if the client can ask for watch-lists.
	streams bool
	// streamsAt is when to ask for a watch-list again; zero unless they failed.
	streamsAt time.Time

	phase phase
	now   time.Time // of the input
	dice  float64   // of the input

	// position is the version to watch from; empty before the first list. It may
	// be ahead of the store's if an object was rejected: going back there would
	// play old events into newer objects.
	position string
	// unavailable is true if the server cannot list at position: it expired, or
	// the server is behind it.
	unavailable bool
	// relist is true if position is no place to watch from.
	relist bool
	// listed is when the store last had a whole list.
	listed time.Time
	// heard is when the server last said anything about position or beyond.
	heard time.Time
	// replayed is true if the client is a Replay: how long a watch lasts means nothing then,
	// and a probe costs nothing.
	replayed bool
	// shared is true if the client is a SharedClient. Its members end their watches, to
	// begin another one together: a pause or a probe before the next one would part them.
	shared bool
	// suspect is true if a watch broke, and no probe has been answered since.
	suspect bool
	// failedProbes counts the probes in a row that failed.
	failedProbes int
	// brief counts the watches in a row that ended within briefWatch.
	brief int

	listing  listing
	watching watching

	// brokenStreams counts the watch-lists in a row that did not come to an end.
	brokenStreams int

	failures   backoff // of requests
	rejections backoff // of objects
	// relistAt is when to list once more because the store lacks an object; zero
	// if it lacks none.
	relistAt time.Time
}

// phase is where the conversation stands: what the next input is about.
type phase uint8

const (
	idle      phase = iota
	paging          // a page of a list was asked for
	probing         // the server was asked for its newest version, and the last object
	opening         // a watch was asked for
	following       // a watch brings changes
	asking          // a watch-list was asked for
	streaming       // a watch-list brings the first objects
	replacing       // the store was given a list, and there is no watch
	replaced        // the store was given what a watch-list brought
	applying        // the store was given a change
	waiting
)

// listing is the list that is being asked for.
type listing struct {
	version string // that was asked for
	first   string // of the first page: the list's
	next    string // the token of the page that was asked for
	limit   int64
	whole   bool // pages expired, so there are none
	cycle   cycle
	began   time.Time
	pages   int64 // that came
	// paged is true once the server cut a list at version "0" into pages: it has
	// no watch cache that pages would bypass.
	paged bool
}

// watching is the watch that is open.
type watching struct {
	opened time.Time
	asked  time.Duration // how long the server was asked to let it last
	from   string        // the version
	news   bool          // it brought another version than the one that it began with
}

const (
	// expiryAfter is how old a list must be for its resource version to have
	// expired in the ordinary way. A server that forgets faster is not asked for
	// another list at once.
	expiryAfter = time.Minute

	// bookmarkDeadline is how long a watch-list may be silent before it has ended.
	// A server that does not know watch-lists answers with a plain watch, and
	// would be silent for ever (kubernetes/kubernetes#140890).
	bookmarkDeadline = 30 * time.Second

	// silence is how long nothing may be heard before the reflector asks whether
	// the server has come as far as position at all. Bookmarks come every minute;
	// but a server that was restored from a backup accepts a watch from a version
	// that it has not reached yet, and says nothing until it has.
	silence = 2 * time.Minute

	// overdue is when a watch should have ended by itself, since the server was asked to
	// end it within maxWatch. Something may sit between here and there that keeps the
	// connection open and lets nothing through.
	overdue = maxWatch + time.Minute

	// maxRetryAfter limits what a server may ask for: a mistake there must not
	// blind a program for a day.
	maxRetryAfter = 10 * time.Minute

	// maxBrokenStreams is the number of watch-lists in a row that may end without
	// coming to an end before the reflector asks for lists instead, for streamsRest.
	maxBrokenStreams = 3
	streamsRest      = time.Hour

	// maxListTime and maxListed bound a list whose continue tokens never end. etcd
	// holds less than ten million objects; 2,000 pages of 500 take a minute or two.
	maxListTime = 30 * time.Minute
	maxListed   = 10_000_000
)

// newProtocol returns a conversation that has not begun.
func newProtocol(limit int64, alwaysPage, streams bool) protocol {
	return protocol{
		limit: limit, alwaysPage: alwaysPage, streams: streams,
		failures:   backoff{limit: maxBackoff},
		rejections: backoff{limit: maxRejectionBackoff},
	}
}

// step says what an input leads to: the next state, and what to do. The last
// action is the one whose outcome is the next input.
func step(p protocol, in input) (protocol, []action) {
	p.now, p.dice = in.at, in.dice
	switch in.kind {
	case started:
		p.heard = p.now
		if !p.relist && p.relistAt.IsZero() {
			p.position = in.version
		}
		return p.begin()
	case answered:
		return p.page(in)
	case accepted:
		return p.accept(in)
	case changed, marked:
		return p.event(in)
	case stored:
		return p.store(in)
	case failed:
		return p.fail(in.err)
	case ended:
		return p.end(in.err)
	case elapsed:
		return p.elapse()
	}
	return p, nil
}

// begin asks for what is needed now: a list, or a watch.
func (p protocol) begin() (protocol, []action) {
	if p.position == "" || p.relist || p.relistDue() {
		p.relist = true // until it is done
		return p.obtain()
	}
	if p.suspect || p.now.Sub(p.heard) >= silence {
		return p.probe()
	}
	return p.watch()
}

func (p protocol) watch() (protocol, []action) {
	p.phase = opening
	return p, []action{{do: askWatch, version: p.position}}
}

// obtain asks for all objects.
func (p protocol) obtain() (protocol, []action) {
	if !p.streams || p.now.Before(p.streamsAt) {
		return p.list()
	}
	p.phase = asking
	return p, []action{{do: discard}, {do: askStream, version: p.known()}}
}

// known is the oldest version that a list may be of, so that the store never goes
// back in time; empty if anything but the newest could be too old or unknown.
func (p protocol) known() string {
	if p.unavailable {
		return ""
	}
	return p.position
}

// list asks for the first page of a list. "0" is whatever the server has in its
// watch cache: cheap, and good enough for somebody who knows nothing.
func (p protocol) list() (protocol, []action) {
	version := p.known()
	if version == "" && !p.unavailable {
		version = "0"
	}
	// A watch cache answers a list at a version only as a whole; a limit would
	// send it to etcd. At "0" it ignores the limit, which serves servers without
	// a watch cache.
	limit := p.limit
	if version != "" && version != "0" && !p.alwaysPage && !p.listing.paged {
		limit = 0
	}
	return p.ask(listing{version: version, limit: limit, paged: p.listing.paged})
}

func (p protocol) ask(l listing) (protocol, []action) {
	l.began = p.now
	p.phase, p.listing = paging, l
	return p, []action{{do: discard}, {do: askPage, version: l.version, limit: l.limit}}
}

// page takes a page of a list.
func (p protocol) page(in input) (protocol, []action) {
	switch {
	case p.phase == probing:
		return p.probed(in)
	case in.version == "":
		return p.trouble(ErrNoResourceVersion)
	case in.next != "" && p.listing.cycle.closes(in.next):
		return p.trouble(ErrRepeatedPage)
	case in.next != "" && p.listing.endless(p.now):
		return p.trouble(ErrEndlessList)
	}
	p.listing.pages++
	if p.listing.first == "" {
		// Later pages may be newer, if the server could not keep the first state
		// that long: the watch then repeats what they know already.
		p.listing.first = in.version
	}
	if in.next == "" {
		p.phase = replacing
		return p, []action{{do: keep}, {do: replace, version: p.listing.first}}
	}
	p.listing.next = in.next
	p.listing.paged = p.listing.paged || p.listing.version == "0"
	return p, []action{{do: keep}, {do: askPage, next: in.next, limit: p.listing.limit}}
}

// endless reports whether a list that goes on has gone on for too long. A page without
// a limit counts as one of the default size.
func (l *listing) endless(now time.Time) bool {
	size := l.limit
	if size == 0 {
		size = DefaultPageSize
	}
	return now.Sub(l.began) > maxListTime || l.pages >= maxListed/size
}

// accept notes that the server opened a watch.
func (p protocol) accept(in input) (protocol, []action) {
	p.watching = watching{opened: p.now, asked: in.lasts, from: p.position}
	p.failures.healthy(p.now)
	if p.phase == asking {
		p.phase, p.heard = streaming, p.now
		return p, receiveOnly
	}
	p.phase = following
	return p, []action{{do: latch}, {do: receive}}
}

// What nearly every input leads to, without an allocation.
var (
	receiveOnly     = []action{{do: receive}}
	applyOnly       = []action{{do: apply}}
	stageAndReceive = []action{{do: stage}, {do: receive}}
)

// event takes a change or a bookmark.
func (p protocol) event(in input) (protocol, []action) {
	if p.phase == following || in.added || in.kind == marked {
		// A plain watch, which a server that does not know watch-lists opens
		// instead, may bring changes for ever; but all objects have come when no
		// more are added.
		p.heard = p.now
	}
	switch {
	case p.phase == following && in.kind == marked && behind(in.version, p.position):
		return p.failWatch(ErrServerBehind)
	case p.phase == following:
		if in.version != "" && in.version != p.position {
			// Objects of client-go's fake clientset have no version: the place
			// then stays, and the next watch repeats them.
			p.position = in.version
			p.watching.news = p.watching.news || in.kind == changed
		}
		p.phase = applying
		return p, applyOnly
	case in.kind == changed:
		return p, stageAndReceive
	case !in.closing:
		return p, receiveOnly
	case in.version == "":
		return p.breakOff(ErrNoResourceVersion)
	}
	p.phase = replaced
	p.listing.first = in.version
	return p, []action{{do: replace, version: in.version}}
}

// store takes what the store said to a change or to a list.
func (p protocol) store(in input) (protocol, []action) {
	verdict := judge(in.err)
	if err := in.err; err != nil && verdict == took {
		in.err = nil
		p, next := p.store(in)
		return p, append([]action{{do: report, err: err, op: OpStore}}, next...)
	}
	if verdict == broken {
		// The store failed as a whole. To go on would move its version past what
		// it did not take.
		p.relist = true
		return p.trouble(in.err)
	}
	if p.phase == applying {
		p.phase = following
		if in.err == nil {
			return p, receiveOnly
		}
		return p, []action{p.lack(in.err), {do: receive}}
	}
	open := p.phase == replaced
	actions := []action{{do: latch}}
	p.relistAt = time.Time{}
	if in.err != nil {
		actions = append(actions, p.lack(in.err))
	} else {
		p.rejections.healthy(p.now)
	}
	p.position, p.relist, p.unavailable, p.suspect = p.listing.first, false, false, false
	p.listed, p.heard = p.now, p.now
	if open {
		p.phase, p.brokenStreams = following, 0
		p.watching.news, p.watching.from = true, "" // what it brought is news
		if !p.streamsAt.IsZero() {
			p.streamsAt = time.Time{}
			actions = append(actions, action{do: streamsBack})
		}
		return p, append(actions, action{do: receive})
	}
	p, next := p.begin()
	return p, append(actions, next...)
}

// lack notes that the store has not got all that it was given. The object is
// fetched once more by a list, after a back-off.
func (p *protocol) lack(err error) action {
	if p.relistAt.IsZero() {
		p.relistAt = p.now.Add(p.rejections.next(p.now, p.dice))
	}
	return action{do: reportLack, err: err, op: OpStore}
}

func (p protocol) relistDue() bool { return !p.relistAt.IsZero() && !p.now.Before(p.relistAt) }

// behind reports whether a version is known to be older than another one.
func behind(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}
