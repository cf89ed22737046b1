package reflector

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// protocol is the state of a reflector's conversation with the API server. It is a value and
// contains no goroutine, clock or I/O: step takes an input and returns the next actions. The
// scripts in testdata show whole conversations.
type protocol struct {
	// limit is the size of pages. Unless alwaysPage is set, the reflector omits the limit where it
	// would keep the server from answering from its watch cache.
	limit      int64
	alwaysPage bool
	// streams is true if the client can ask for watch-lists.
	streams bool
	// streamsAt is the time of the next attempt at a watch-list; zero unless watch-lists failed.
	streamsAt time.Time

	phase phase
	now   time.Time // time of the input
	dice  float64   // random number of the input

	// position is the version to watch from; empty before the first list. If the store rejected an
	// object, position may be ahead of the store's version. A watch from the store's version would
	// apply old events to newer objects.
	position string
	// unavailable is true if the server cannot list at position: the version expired, or the server
	// is behind it.
	unavailable bool
	// relist is true if the next request must be a list: the reflector cannot watch from position.
	relist bool
	// listed is the time of the last complete list.
	listed time.Time
	// heard is the time of the last response or event at or after position.
	heard time.Time
	// replayed is true if the client is a Replay. The duration of a watch is then meaningless, and
	// a probe is free.
	replayed bool
	// shared is true if the client is a SharedClient. Its members end their watches in order to
	// begin a new one together. A pause or a probe before the new watch would separate them.
	shared bool
	// suspect is true if a watch broke and the server has not answered a probe since.
	suspect bool
	// failedProbes counts consecutive failed probes.
	failedProbes int
	// brief counts consecutive watches that ended within briefWatch.
	brief int

	listing  listing
	watching watching

	// brokenStreams counts consecutive watch-lists that ended before they were complete.
	brokenStreams int

	failures   backoff // of requests
	rejections backoff // of objects
	// relistAt is the time of the next list to fetch an object that the store lacks; zero if it
	// lacks none.
	relistAt time.Time
}

// phase is the current step of the conversation. It determines the meaning of the next input.
type phase uint8

const (
	idle      phase = iota
	paging          // waiting for a page of a list
	probing         // waiting for the server's newest version and the last changed object
	opening         // waiting for the server to accept a watch
	following       // receiving changes from a watch
	asking          // waiting for the server to accept a watch-list
	streaming       // receiving the first objects from a watch-list
	replacing       // the store commits a list; no watch is open
	replaced        // the store commits the objects of a watch-list
	applying        // the store commits a change
	waiting
)

// listing is the current list.
type listing struct {
	version string // the requested version
	first   string // version of the first page, which is the version of the list
	next    string // token of the requested page
	limit   int64
	whole   bool // an expired page token made the reflector list without pages
	cycle   cycle
	began   time.Time
	pages   int64 // received pages
	// paged is true once the server has split a list at version "0" into pages. It then has no
	// watch cache that pages would bypass.
	paged bool
}

// watching is the open watch.
type watching struct {
	opened time.Time
	asked  time.Duration // requested duration of the watch
	from   string        // version at which the watch began
	news   bool          // the watch delivered a change with a version other than position
}

const (
	// expiryAfter is the age at which the resource version of a list may expire in the ordinary
	// way. If a server forgets faster, the reflector backs off before the next list.
	expiryAfter = time.Minute

	// bookmarkDeadline is the longest silence of a watch-list before the reflector ends it. A
	// server without watch-lists opens a plain watch instead, which would stay silent for ever
	// (kubernetes/kubernetes#140890).
	bookmarkDeadline = 30 * time.Second

	// silence is the time without events after which the reflector checks whether the server has
	// reached position. Bookmarks come every minute. A server that was restored from a backup may
	// accept a watch from a version that it has not reached. It then sends nothing until it reaches
	// that version.
	silence = 2 * time.Minute

	// overdue is the time after which the reflector ends a watch. The server should have ended it
	// within maxWatch. A proxy may keep a dead connection open.
	overdue = maxWatch + time.Minute

	// maxRetryAfter bounds the server's Retry-After. A wrong value must not stop the reflector for
	// a day.
	maxRetryAfter = 10 * time.Minute

	// maxBrokenStreams is the number of consecutive incomplete watch-lists after which the
	// reflector lists instead, for streamsRest.
	maxBrokenStreams = 3
	streamsRest      = time.Hour

	// maxListTime and maxListed bound a list whose continue tokens never end. etcd
	// holds less than ten million objects; 2,000 pages of 500 take a minute or two.
	maxListTime = 30 * time.Minute
	maxListed   = 10_000_000
)

// newProtocol returns the state before the first input.
func newProtocol(limit int64, alwaysPage, streams bool) protocol {
	return protocol{
		limit: limit, alwaysPage: alwaysPage, streams: streams,
		failures:   backoff{limit: maxBackoff},
		rejections: backoff{limit: maxRejectionBackoff},
	}
}

// step returns the next state and the actions for an input. The outcome of the last action is the
// next input.
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

// begin starts the next request: a list, a probe or a watch.
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

// obtain starts a watch-list or a list.
func (p protocol) obtain() (protocol, []action) {
	if !p.streams || p.now.Before(p.streamsAt) {
		return p.list()
	}
	p.phase = asking
	return p, []action{{do: discard}, {do: askStream, version: p.known()}}
}

// known returns the oldest acceptable version of a list, so that the store never goes back in time.
// It returns an empty string if only the newest version is certain to be available and new enough.
func (p protocol) known() string {
	if p.unavailable {
		return ""
	}
	return p.position
}

// list requests the first page of a list. Version "0" means the current content of the server's
// watch cache. It is cheap, and sufficient for a reflector without a version.
func (p protocol) list() (protocol, []action) {
	version := p.known()
	if version == "" && !p.unavailable {
		version = "0"
	}
	// A watch cache answers a list at a version only as a whole; the server sends a list with a
	// limit to etcd. At "0" a watch cache ignores the limit, so the limit only affects servers
	// without one.
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

// page handles a page of a list.
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
		// Later pages may be newer, if the server could not keep the first state that long. The
		// watch then repeats changes that those pages already contain.
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

// endless reports whether an unfinished list exceeds maxListTime or maxListed. A page without a
// limit counts as one of the default size.
func (l *listing) endless(now time.Time) bool {
	size := l.limit
	if size == 0 {
		size = DefaultPageSize
	}
	return now.Sub(l.began) > maxListTime || l.pages >= maxListed/size
}

// accept handles the server's acceptance of a watch.
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

// The actions for most inputs, allocated once.
var (
	receiveOnly     = []action{{do: receive}}
	applyOnly       = []action{{do: apply}}
	stageAndReceive = []action{{do: stage}, {do: receive}}
)

// event handles a change or a bookmark.
func (p protocol) event(in input) (protocol, []action) {
	if p.phase == following || in.added || in.kind == marked {
		// A server without watch-lists opens a plain watch, which may deliver changes for ever. The
		// first objects are complete when no more additions come.
		p.heard = p.now
	}
	switch {
	case p.phase == following && in.kind == marked && behind(in.version, p.position):
		return p.failWatch(ErrServerBehind)
	case p.phase == following:
		if in.version != "" && in.version != p.position {
			// Objects of client-go's fake clientset have no version. position then stays, and the
			// next watch repeats the events.
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

// store handles the store's result for a change or a list.
func (p protocol) store(in input) (protocol, []action) {
	verdict := judge(in.err)
	if err := in.err; err != nil && verdict == took {
		in.err = nil
		p, next := p.store(in)
		return p, append([]action{{do: report, err: err, op: OpStore}}, next...)
	}
	if verdict == broken {
		// The store failed as a whole. Continuing would move its version past changes that it
		// lacks.
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
		p.watching.news, p.watching.from = true, "" // the objects of a watch-list count as news
		if !p.streamsAt.IsZero() {
			p.streamsAt = time.Time{}
			actions = append(actions, action{do: streamsBack})
		}
		return p, append(actions, action{do: receive})
	}
	p, next := p.begin()
	return p, append(actions, next...)
}

// lack records that the store rejected an object. The reflector fetches the object again with a
// list, after a back-off.
func (p *protocol) lack(err error) action {
	if p.relistAt.IsZero() {
		p.relistAt = p.now.Add(p.rejections.next(p.now, p.dice))
	}
	return action{do: reportLack, err: err, op: OpStore}
}

func (p protocol) relistDue() bool { return !p.relistAt.IsZero() && !p.now.Before(p.relistAt) }

// behind reports whether version is certainly older than other.
func behind(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}
