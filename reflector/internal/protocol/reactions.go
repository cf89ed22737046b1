package protocol

import (
	"errors"
	"time"
)

// reaction carries out what the reflector does about a failure. The package documentation describes
// the reactions.
type reaction func(p *step, err error)

// reactions says what the reflector does about a failure of a class in a phase.
var reactions = [numClasses][reactingPhases]reaction{
	//            paging, probing, opening, following, asking, streaming
	Other:       {retry, probeAgain, probeFirst, relist, listInstead, breakOff},
	Expired:     {askForLess, skipProbe, relistExpired, relistExpired, askNewest, askNewest},
	Ahead:       {askForLess, probeAgain, relistNewest, relistNewest, askNewest, askNewest},
	Invalid:     {askForLess, skipProbe, relistNewest, relistNewest, askNewest, askNewest},
	Busy:        {retry, retry, retry, retry, retry, retry},
	Unreachable: {retry, probeLater, probeFirst, relist, retry, retry},
	Unanswered:  {retry, probeLater, probeFirst, relist, listInstead, retry},
	NotServed:   {retry, probeAgain, relist, relist, retry, breakOff},
	Forbidden:   {retry, probeAgain, relist, relist, listInstead, breakOff},
	Unsupported: {retry, skipProbe, relist, relist, listForAnHour, breakOff},
	Refused:     {retry, probeAgain, probeFirst, relist, listInstead, breakOff},
	Unreadable:  {retry, probeAgain, probeFirst, (*step).end, listInstead, breakOff},
	OverBudget:  {retry, probeAgain, probeFirst, relist, retry, retry},
}

// retry ends the watch, if there is one, reports the failure, and waits before the next attempt.
func retry(p *step, err error) { p.backOff(err, &p.failures) }

// backOff is retry with one of the back-offs. The first answers with a Retry-After do not let the
// pause grow: the server says itself when it wants the next request.
func (p *step) backOff(err error, b *backoff) {
	op := p.Op()
	p.stop(err)
	p.phase = waiting
	if b.healed(p.now) {
		b.obeyed = 0
	}
	pause := retryAfter(err, p.dice)
	if pause > 0 && b.obeyed < maxObeyed {
		b.obey() // the server answers, so an outage is over
	} else {
		growing := b.next(p.now, p.dice)
		if p.listed.IsZero() && Classify(err) == NotServed {
			// A definition is often installed seconds after the program has started. So the reflector
			// waits no longer than it has waited already.
			most := max(2*MinBackoff, p.now.Sub(p.started))
			growing = min(growing, MinBackoff+time.Duration(p.dice*float64(most-MinBackoff)))
		}
		pause = max(pause, growing)
	}
	p.do(Action{Do: Wait, Err: err, Op: op, Pause: pause, Attempt: b.failures + b.obeyed})
}

// askForLess handles the refusal of a page.
func askForLess(p *step, err error) {
	switch l := p.listing; {
	case l.next != "" && !l.whole:
		// The list took longer than the server keeps its continue tokens.
		p.ask(listing{version: l.version, whole: true, paged: l.paged})
	case l.version != "" && l.version != "0":
		p.unavailable = true
		p.ask(listing{limit: l.limit, paged: l.paged})
	default:
		retry(p, err)
	}
}

// skipProbe watches without the answer to a probe. The answer to the watch will show the state.
func skipProbe(p *step, _ error) {
	p.heard, p.suspect, p.failedProbes, p.lastProbe, p.fruitless = p.now, false, 0, false, 0
	p.watch()
}

// probeAgain retries a probe, but only after a broken watch, and not for ever, since the server may be
// unable to list, or forbid it. The failures may also be those of a server that is away, behind a proxy,
// or that starts: kube-apiserver answers 401 and 403 until it has read who may do what. So if it accepts
// the watch, it is probed once more: a restored server accepts a version that it has lost. A server that
// fails this probe, too, cannot list.
func probeAgain(p *step, err error) {
	p.failedProbes++
	switch {
	case p.suspect && p.lastProbe:
		p.unlistable = p.now.Add(unlistableFor)
		skipProbe(p, err)
	case p.suspect && p.failedProbes < maxFailedProbes:
		retry(p, err)
		p.todo[len(p.todo)-1].Passing = true
	case p.suspect:
		p.watch()
	default:
		skipProbe(p, err)
	}
}

// probeLater retries a probe that reached no server. Whatever failed before says nothing of the server
// that answers next.
func probeLater(p *step, err error) {
	p.failedProbes, p.lastProbe = 0, false
	retry(p, err)
}

// relist lists after a pause. The pause grows each time that the watch after such a list fails within two
// minutes, and not with failed requests: after an outage, the first expired watch is followed by a list
// within 1.6 seconds.
func relist(p *step, err error) {
	p.mustList = true
	p.backOff(err, &p.relists)
}

// relistExpired handles the expiry of the position. It lists at once, unless the last list is young.
func relistExpired(p *step, err error) {
	if p.now.Sub(p.listed) < expiryAfter {
		// The last list did not help. It may have come from an API server that lags behind the one
		// that refused the watch.
		relistNewest(p, err)
		return
	}
	p.stop(err)
	p.mustList = true
	p.begin()
}

func relistNewest(p *step, err error) {
	p.unavailable, p.lost = true, p.lost || err == ServerBehind
	relist(p, err)
}

// probeFirst handles a watch that did not begin. Before an answer to a probe, that says nothing of the
// watch: the server is away.
func probeFirst(p *step, err error) {
	if !p.suspect && p.countFruitless(err) {
		relist(p, err)
		return
	}
	p.suspect = true
	retry(p, err)
}

// countFruitless counts a watch that brought nothing, and reports whether a list must follow.
func (p *step) countFruitless(err error) (list bool) {
	if p.fruitless == 0 {
		p.fruitlessAt = p.now
	}
	p.fruitless = min(p.fruitless+1, maxFruitless)
	lasts := p.now.Sub(p.fruitlessAt) >= fruitlessTime || Classify(err) == Unreadable
	return p.fruitless == maxFruitless && lasts && !p.now.Before(p.unlistable)
}

// askNewest handles the refusal of a watch-list at a version. If the watch-list was for the
// newest version already, the server does not support watch-lists.
func askNewest(p *step, err error) {
	switch {
	case p.known() != "":
		p.stop(err)
		p.unavailable = true
		p.obtain()
	case p.phase == streaming:
		breakOff(p, err)
	case Classify(err) == Invalid:
		listForAnHour(p, err)
	default:
		listInstead(p, err)
	}
}

func listInstead(p *step, err error) {
	p.stop(err)
	p.do(Action{Do: Report, Err: err, Op: OpWatchList})
	p.list()
}

// listForAnHour handles a server that does not support watch-lists. Its refusal says nothing about
// the version.
func listForAnHour(p *step, err error) {
	p.unavailable = false
	p.restWatchLists(err)
}

// breakOff handles a watch-list that ended before it was complete.
func breakOff(p *step, err error) {
	if p.brokenWatchLists++; p.brokenWatchLists < maxBrokenWatchLists && !errors.Is(err, NoInitialEventsEnd) {
		retry(p, err)
		return
	}
	p.stop(err)
	p.do(Action{Do: Report, Err: err, Op: OpWatchList})
	p.restWatchLists(err)
}

// restWatchLists lists, and makes the reflector use lists instead of watch-lists for RestTime. After
// that the server may have been upgraded, or a proxy removed. If not, one failure is enough to rest
// again.
func (p *step) restWatchLists(err error) {
	p.watchListsAt, p.brokenWatchLists = p.now.Add(RestTime), maxBrokenWatchLists-1
	p.do(Action{Do: WatchListsOff, Err: err, Op: OpWatchList})
	p.list()
}

// stop ends the watch, if there is one. err is the reason, or nil.
func (p *step) stop(err error) {
	switch p.phase {
	case streaming:
		p.do(Action{Do: StopWatch, Err: err, Op: OpWatchList})
	case following, applying, replaced:
		if p.moved() {
			p.recovered()
			p.fruitless = 0
		}
		p.do(Action{Do: StopWatch, Err: err, Op: OpWatch})
	}
}

// recovered records that the server sent something new, a list or an event, so that the next failure
// of a request is the first one. It does not reset relists: a server that sends one event and then
// refuses the version, even with a Retry-After, would get lists without end.
func (p *step) recovered() { p.failures.reset() }

// Op returns the operation of the current phase.
func (p State) Op() Op {
	switch p.phase {
	case asking, streaming:
		return OpWatchList
	case paging, probing:
		return OpList
	case replacing, replaced, applying:
		return OpStore
	}
	return OpWatch
}
