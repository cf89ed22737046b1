package protocol

import (
	"time"

	"github.com/kubereflector/kubereflector/internal/versions"
)

// State is the state of a reflector's conversation with the API server. It is a value. Make one
// with [New].
type State struct {
	Options

	// watchListsAt is the time of the next attempt at a watch-list; zero unless watch-lists failed.
	watchListsAt time.Time

	phase phase
	now   time.Time // time of the input
	dice  float64   // random number of the input

	// position is the version to watch from; empty before the first list. An event moves it before the store
	// has the event, because a list follows if the store does not take it. If the store rejected an object,
	// position may stay ahead of the store's version. A watch from the store's version would apply old events
	// to newer objects.
	position string
	// settled is where the watch after one that ended early begins: settleTime has the reason. marked is the
	// version that becomes settled next, and markedAt the time of the bookmark that had it. A list or a change
	// sets all three versions to its own. A bookmark moves position; if markedAt is at least settleTime ago,
	// settled also moves to marked, and marked to the bookmark's version. An early end at such a time moves
	// settled, too. For example, of bookmarks after 0, 5 and 12 seconds, the first moves marked, the second
	// does not, and the third moves settled to the first, and marked to itself.
	settled, marked string
	markedAt        time.Time
	// early is true if the last watch, or Run, ended early, until a list or an event moves position.
	early bool
	// unavailable is true if the next list must be at the newest version, because a list not older than
	// position was refused or did not help, or the server is behind position. The first 410 of a watch does not
	// set it: the server can still list from its watch cache.
	unavailable bool
	// versionless is true if the last list had no resource version: see poll.go. position is then
	// empty.
	versionless bool
	// lostVersions are the lists without a version since the last one with a version.
	lostVersions loss
	// pollAt is the time of the next list while versionless.
	pollAt time.Time
	// triggered is true while a watch is open whose events only trigger lists. triggersAt is the
	// time of the next attempt to open one; zero unless the server does not serve it.
	triggered  bool
	triggersAt time.Time

	// versionAsked is true while the reflector asks for the server's Kubernetes version, and after that
	// unless it must ask again, because a first list failed while the server did not answer. list does not
	// ask then. consistent is true if that server answers consistent lists in pages from its watch cache.
	versionAsked, consistent bool

	// lost is true once the reflector has reported that the server is behind position, until a list.
	lost bool
	// mustList is true if the next request must be a list: the reflector cannot watch from position.
	mustList bool
	// started is the time of the start.
	started time.Time
	// listed is the time of the last complete list.
	listed time.Time
	// heard is the time of the last response or event at or after position.
	heard time.Time
	// suspect is true if a watch broke and the server has not answered a probe since. If it stays true
	// while a watch is asked for, the server is probed once more when it has accepted that watch.
	suspect bool
	// probedAt is the time of the last answer to a probe.
	probedAt time.Time
	// failedProbes counts consecutive failed probes.
	failedProbes int
	// lastProbe is true if the server accepted a watch after failed probes, and is now probed once more.
	lastProbe bool
	// unlistable is until when the server counts as unable to list, because it failed a last probe.
	unlistable time.Time
	// brief counts consecutive watches that ended within briefWatch, without busyWatch changes.
	brief int
	// fruitless counts consecutive watches that were refused although a probe was answered, or ended at
	// once without news, up to maxFruitless. fruitlessAt is the time of the first of them.
	fruitless   int
	fruitlessAt time.Time

	listing  listing
	watching watching

	// brokenWatchLists counts consecutive watch-lists that ended before they were complete.
	brokenWatchLists int

	failures   backoff // of requests
	relists    backoff // of versions: lists after which a watch failed again
	rejections backoff // of objects
	// relistAt is the time of the next list to fetch an object that the store lacks; zero if it
	// lacks none.
	relistAt time.Time
}

// Options do not change during a conversation.
type Options struct {
	// PageSize is the size of pages; 0 means no pages. Unless AlwaysPage is true, a request has no
	// limit where the limit would keep the server from answering from its watch cache.
	PageSize   int64
	AlwaysPage bool
	// WatchLists is true if the client can ask for watch-lists.
	WatchLists bool
	// AsksVersion is true if the client can tell the server's Kubernetes version.
	AsksVersion bool
	// ListsFirst is true if each start lists, although the store has a version.
	ListsFirst bool
}

// phase is the current step of the conversation. It determines the meaning of the next input.
type phase uint8

const (
	paging    phase = iota // waiting for a page of a list
	probing                // waiting for the server's newest version and the last changed object
	opening                // waiting for the server to accept a watch
	following              // receiving changes from a watch
	asking                 // waiting for the server to accept a watch-list
	streaming              // receiving the first objects from a watch-list

	// reactingPhases is the number of the phases above, which have a column of reactions to failures. Of
	// those below, only triggering and polling can fail: see untriggered.
	reactingPhases = iota

	replacing  phase = iota // the store commits a list; no watch is open
	replaced                // the store commits the objects of a watch-list
	applying                // the store commits a change
	inquiring               // waiting for the server's Kubernetes version
	triggering              // waiting for the server to accept a watch that only triggers lists
	polling                 // waiting for an event of that watch, or for the next list
	waiting
	idle // before the first input
)

// watching is the open watch.
type watching struct {
	opened time.Time
	asked  time.Duration // requested duration of the watch
	from   string        // version at which the watch began
	news   bool          // the watch delivered a change with a version other than position

	changes int // that the watch delivered with such versions
}

const (
	// expiryAfter is the age at which the resource version of a list may expire in the ordinary
	// way. If a server forgets faster, the reflector backs off before the next list.
	expiryAfter = time.Minute

	// MaxWatch is the longest timeout of a watch request.
	MaxWatch = 10 * time.Minute

	// bookmarkDeadline is the longest silence of a watch-list before the reflector ends it. A
	// server without watch-lists opens a plain watch instead, which would stay silent for ever
	// (kubernetes/kubernetes#140890).
	bookmarkDeadline = 30 * time.Second

	// Silence is the time without events after which the reflector checks whether the server has
	// reached position. Bookmarks come every minute. A server that was restored from a backup may
	// accept a watch from a version that it has not reached. It then sends nothing until it reaches
	// that version.
	Silence = 2 * time.Minute

	// overdue is the time after which the reflector ends a watch. The server should have ended it
	// within MaxWatch. A proxy may keep a dead connection open.
	overdue = MaxWatch + time.Minute

	// maxBrokenWatchLists is the number of consecutive incomplete watch-lists after which the
	// reflector lists instead, for RestTime.
	maxBrokenWatchLists = 3

	// RestTime is how long the reflector does without what failed, a watch-list or the watch beside polling,
	// before it tries it again.
	RestTime = time.Hour
)

// New returns the state before the first input.
func New(o Options) State {
	return State{
		Options:    o,
		phase:      idle,
		failures:   backoff{limit: MaxBackoff},
		relists:    backoff{limit: MaxBackoff},
		rejections: backoff{limit: maxRejectionBackoff},
	}
}

// Position returns the resource version from which the next watch continues. It is empty before
// the first list.
func (p State) Position() string { return p.position }

// Probing reports whether the requested page is a probe: a list of the one object that changed
// last. It shows whether the server was restored from a backup.
func (p State) Probing() bool { return p.phase == probing }

// Doubtful reports whether the reflector will probe the server that accepts the watch before it uses
// the watch.
func (p State) Doubtful() bool { return p.phase == opening && p.suspect }

// step is one step of a conversation: the next state, and the actions so far.
type step struct {
	State
	todo []Action
}

// Step returns the next state and the actions for an input. The outcome of the last action is the
// next input.
func (p State) Step(in Input) (State, []Action) {
	p.now, p.dice = in.At, in.Dice
	if in.Kind == Failed && p.phase < reactingPhases { // apart, because a call through a table moves the step to the heap
		s := &step{State: p}
		reactions[Classify(in.Err)][p.phase](s, in.Err)
		return s.State, s.todo
	}
	s := step{State: p}
	s.take(in)
	return s.State, s.todo
}

func (p *step) take(in Input) {
	switch in.Kind {
	case Started:
		p.started, p.heard, p.triggered = p.now, p.now, false
		if !p.mustList && p.relistAt.IsZero() {
			if p.position == in.Version {
				p.distrust() // Run is called again
			} else {
				p.position = in.Version
				p.settle()
			}
		}
		p.mustList = p.mustList || p.ListsFirst
		p.begin()
	case Answered:
		p.page(in)
	case Accepted:
		p.accept(in)
	case Changed, Marked:
		p.event(in)
	case Stored:
		p.committed(in)
	case VersionKnown:
		p.consistent = in.Consistent
		p.list() // versionAsked is still true here, so this list does not ask again
		// A program may start while its server starts, too. If that list fails, the next one asks again:
		// the server that then answers may lag behind.
		p.versionAsked = !in.Unanswered || !p.listed.IsZero()
	case Failed: // while triggering or polling; Step looks up all other phases in reactions
		p.untriggered(in.Err)
	case Ended:
		p.end(in.Err)
	case Elapsed:
		p.elapse()
	}
}

// do adds actions.
func (p *step) do(actions ...Action) { p.todo = append(p.todo, actions...) }

// begin starts the next request: a list, a probe or a watch. The probe requests the newest version
// of the server and the object that changed last, because the server may have been restored from a
// snapshot during the silence.
func (p *step) begin() {
	switch {
	case p.position == "" || p.mustList || p.relistDue():
		p.mustList = true // until it is done
		p.obtain()
	case p.suspect && !p.lastProbe && p.now.Before(p.unlistable):
		p.watch() // and then a probe, if the server accepts it
	case p.suspect || p.now.Sub(p.heard) >= Silence:
		p.probe()
	default:
		p.watch()
	}
}

func (p *step) probe() {
	p.phase = probing
	p.do(Action{Do: AskPage, Limit: 1})
}

func (p *step) watch() {
	p.phase = opening
	p.do(Action{Do: AskWatch, Version: p.from()})
}

// from returns the version to watch from.
func (p State) from() string {
	if p.early {
		return p.settled
	}
	return p.position
}

// settle records that position is the version of a list or a change.
func (p *step) settle() {
	p.settled, p.marked, p.early = p.position, p.position, false
}

// obtain starts a watch-list or a list.
func (p *step) obtain() {
	if !p.WatchLists || p.versionless || p.now.Before(p.watchListsAt) {
		p.list()
		return
	}
	p.phase = asking
	p.do(Action{Do: Discard}, Action{Do: AskWatchList, Version: p.known()})
}

// known returns the oldest acceptable version of a list, so that the store never goes back in time.
// It returns an empty string if only the newest version is certain to be available and new enough.
func (p State) known() string {
	if p.unavailable {
		return ""
	}
	return p.position
}

// accept handles the server's acceptance of a watch.
func (p *step) accept(in Input) {
	p.watching = watching{opened: p.now, asked: in.Lasts, from: p.from()}
	p.failures.healthy(p.now)
	p.relists.healthy(p.now)
	switch p.phase {
	case asking:
		p.phase, p.heard = streaming, p.now
	case triggering:
		p.phase, p.triggered = polling, true
	case opening:
		p.phase = following // before stop, which closes nothing in the phase opening
		if p.suspect {
			p.stop(nil)
			p.lastProbe = true
			p.probe()
			return
		}
		p.do(Action{Do: MarkSynced})
	default:
		p.phase = following
		p.do(Action{Do: MarkSynced})
	}
	p.do(Action{Do: Receive})
}

// The actions for most inputs, allocated once.
var (
	receiveOnly     = []Action{{Do: Receive}}
	applyOnly       = []Action{{Do: Apply}}
	stageAndReceive = []Action{{Do: Stage}, {Do: Receive}}
)

// event handles a change or a bookmark.
func (p *step) event(in Input) {
	if p.phase == following || in.Added {
		// Before the closing bookmark, only additions count. A server without watch-lists opens a plain
		// watch, whose modifications, deletions and bookmarks may come for ever: if they counted,
		// bookmarkDeadline would never end it. kube-apiserver sends no other bookmark before the closing one.
		p.heard = p.now
	}
	switch {
	case p.phase == polling:
		p.trigger(in)
	case p.phase == following && in.Kind == Marked && versions.Later(p.position, in.Version):
		if p.early && !versions.Later(p.watching.from, in.Version) { // a server that lags by a few seconds
			p.todo = receiveOnly
			break
		}
		relistNewest(p, ServerBehind)
	case p.phase == following:
		if in.Version != "" && in.Version != p.position {
			// Objects of client-go's fake clientset have no version. position then stays, and the
			// next watch repeats the events.
			p.position = in.Version
			if in.Kind == Changed {
				p.settle()
				p.watching.news = true
			} else {
				p.mark()
			}
			p.watching.changes += in.Changes
		}
		p.phase = applying
		p.todo = applyOnly
	// From here on, a watch-list begins.
	case !in.Closing && p.now.Sub(p.watching.opened) > maxListTime:
		// Live additions look like initial ones, so on a plain watch to which objects are added all the time,
		// only the time tells. It ends no watch-list that would end: kube-apiserver ends each one when its
		// timeoutSeconds are over, MaxWatch at most, and another server has as long as for a list. client-go
		// waits for ever.
		breakOff(p, NoInitialEventsEnd)
	case in.Kind == Changed:
		p.todo = stageAndReceive
	case !in.Closing:
		p.todo = receiveOnly
	case in.Version == "":
		p.stop(NoResourceVersion)
		p.do(Action{Do: Report, Err: NoResourceVersion, Op: OpWatchList})
		p.restWatchLists(NoResourceVersion)
	default:
		p.beginsAt(in.Version)
		p.compare(OpWatchList)
		p.phase = replaced
		p.do(Action{Do: Replace, Version: in.Version})
	}
}

// committed handles the store's result for a change or a list.
func (p *step) committed(in Input) {
	switch {
	case in.Err != nil && !Rejected(in.Err):
		// The store failed as a whole. Continuing would move its version past changes that it
		// lacks.
		relist(p, in.Err)
	case p.phase != applying:
		p.listStored(in.Err)
	case in.Err == nil:
		p.phase, p.todo = following, receiveOnly
	default:
		p.phase = following
		p.reject(in.Err)
		p.do(Action{Do: Receive})
	}
}

// listStored handles a list that the store has, except for the objects that err names.
func (p *step) listStored(err error) {
	open := p.phase == replaced
	p.do(Action{Do: MarkSynced})
	p.recovered()
	p.relistAt = time.Time{}
	if err != nil {
		p.reject(err)
	} else {
		p.rejections.healthy(p.now)
	}
	p.position, p.mustList, p.unavailable, p.lost = p.listing.first, false, false, false
	p.settle()
	p.suspect, p.failedProbes, p.lastProbe, p.unlistable = false, 0, false, time.Time{}
	p.listed, p.heard = p.now, p.now
	p.versionless = p.position == ""
	if p.versionless {
		p.poll()
		return
	}
	p.endTrigger(nil)
	if !open {
		p.begin()
		return
	}
	p.phase, p.brokenWatchLists = following, 0
	p.watching.news, p.watching.from = true, "" // the objects of a watch-list count as news
	if !p.watchListsAt.IsZero() {
		p.watchListsAt = time.Time{}
		p.do(Action{Do: WatchListsBack})
	}
	p.do(Action{Do: Receive})
}

// reject records that the store rejected an object. The reflector fetches the object again with a
// list, after a back-off.
func (p *step) reject(err error) {
	if p.relistAt.IsZero() {
		p.relistAt = p.now.Add(p.rejections.next(p.now, p.dice))
	}
	p.do(Action{Do: ReportRejected, Err: err, Op: OpStore})
}

func (p State) relistDue() bool { return !p.relistAt.IsZero() && !p.now.Before(p.relistAt) }
