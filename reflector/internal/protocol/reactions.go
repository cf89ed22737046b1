package protocol

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// reaction is what the reflector does about a failure.
type reaction uint8

// The package documentation describes the reactions.
const (
	retry reaction = iota
	askForLess
	skipProbe
	probeAgain
	relist
	relistNow
	relistNewest
	probeFirst
	resume
	newestStream
	listInstead
	listForAnHour
	breakOff
)

// reactions says what the reflector does about a failure of a class in a phase.
var reactions = [classes][phases]reaction{
	//            paging, probing, opening, following, asking, streaming
	Other:       {retry, probeAgain, probeFirst, relist, listInstead, breakOff},
	Expired:     {askForLess, skipProbe, relistNow, relistNow, newestStream, newestStream},
	Ahead:       {askForLess, probeAgain, relistNewest, relistNewest, newestStream, newestStream},
	Invalid:     {askForLess, skipProbe, relistNewest, relistNewest, newestStream, newestStream},
	Busy:        {retry, retry, retry, retry, retry, retry},
	Unreachable: {retry, retry, probeFirst, relist, retry, retry},
	NotServed:   {retry, skipProbe, relist, relist, retry, breakOff},
	Forbidden:   {retry, skipProbe, relist, relist, listInstead, breakOff},
	Unsupported: {retry, skipProbe, relist, relist, listForAnHour, breakOff},
	Refused:     {retry, skipProbe, probeFirst, relist, listInstead, breakOff},
	Unreadable:  {retry, probeAgain, probeFirst, resume, listInstead, breakOff},
	OverBudget:  {retry, probeAgain, probeFirst, relist, retry, retry},
}

// fail handles a failed request, an ERROR event, or an invalid event.
func (p State) fail(err error) (State, []Action) {
	if p.phase >= phases {
		return p.trouble(err)
	}
	class := Classify(err)
	switch reactions[class][p.phase] {
	case askForLess:
		return p.askForLess(err)
	case skipProbe:
		return p.skipProbe()
	case probeAgain:
		if p.failedProbes++; p.suspect && p.failedProbes < maxFailedProbes {
			return p.trouble(err)
		}
		return p.skipProbe()
	case relist:
		p.relist = true
	case relistNow:
		return p.relistNow(err)
	case relistNewest:
		return p.relistNewest(err)
	case probeFirst:
		p.suspect = !p.Shared
	case resume:
		return p.cutOff(err)
	case newestStream:
		return p.newestStream(class, err)
	case listInstead:
		return p.listInstead(err)
	case listForAnHour:
		return p.listForAnHour(err)
	case breakOff:
		return p.breakOff(err)
	}
	return p.trouble(err)
}

// askForLess handles the refusal of a page.
func (p State) askForLess(err error) (State, []Action) {
	switch l := p.listing; {
	case l.next != "" && !l.whole:
		// The list took longer than the server keeps its continue tokens.
		return p.ask(listing{version: l.version, whole: true, paged: l.paged})
	case l.version != "" && l.version != "0":
		p.unavailable = true
		return p.ask(listing{limit: l.limit, paged: l.paged})
	}
	return p.trouble(err)
}

// skipProbe watches without the answer to a probe, since the server may forbid lists. The answer to
// the watch will show the state.
func (p State) skipProbe() (State, []Action) {
	p.heard, p.suspect, p.failedProbes = p.now, false, 0
	return p.watch()
}

// relistNow handles the expiry of the position.
func (p State) relistNow(err error) (State, []Action) {
	if p.now.Sub(p.listed) < expiryAfter {
		// The last list did not help. It may have come from an API server that lags behind the one
		// that refused the watch.
		return p.relistNewest(err)
	}
	stop := p.stop()
	p.relist = true
	p, next := p.begin()
	return p, append(stop, next...)
}

func (p State) relistNewest(err error) (State, []Action) {
	p.relist, p.unavailable = true, true
	return p.trouble(err)
}

// newestStream handles the refusal of a watch-list at a version. If the watch-list was for the
// newest version already, the server does not support watch-lists.
func (p State) newestStream(class Class, err error) (State, []Action) {
	switch {
	case p.known() != "":
		stop := p.stop()
		p.unavailable = true
		p, next := p.obtain()
		return p, append(stop, next...)
	case p.phase == streaming:
		return p.breakOff(err)
	case class == Invalid:
		return p.listForAnHour(err)
	}
	return p.listInstead(err)
}

func (p State) listInstead(err error) (State, []Action) {
	stop := append(p.stop(), Action{Do: Report, Err: err, Op: OpWatch})
	p, next := p.list()
	return p, append(stop, next...)
}

// listForAnHour handles a server that does not support watch-lists. Its refusal says nothing about
// the version.
func (p State) listForAnHour(err error) (State, []Action) {
	p.unavailable = false
	rest := p.restStreams(err)
	p, next := p.list()
	return p, append([]Action{rest}, next...)
}

// breakOff handles a watch-list that ended before it was complete.
func (p State) breakOff(err error) (State, []Action) {
	stop := p.stop()
	if p.brokenStreams++; p.brokenStreams >= maxBrokenStreams || errors.Is(err, NoInitialEventsEnd) {
		stop = append(stop, Action{Do: Report, Err: err, Op: OpWatch}, p.restStreams(err))
		p, next := p.list()
		return p, append(stop, next...)
	}
	return p.trouble(err)
}

// restStreams makes the reflector use lists instead of watch-lists for StreamsRest. After that the
// server may have been upgraded, or a proxy removed. If not, one failure is enough to rest again.
func (p *State) restStreams(err error) Action {
	p.streamsAt, p.brokenStreams = p.now.Add(StreamsRest), maxBrokenStreams-1
	return Action{Do: StreamsOff, Err: err, Op: OpWatch}
}

// stop ends the watch, if there is one.
func (p State) stop() []Action {
	switch p.phase {
	case following, applying, streaming, replaced:
		return []Action{{Do: StopWatch}}
	}
	return nil
}

// trouble ends the watch, if there is one, reports the failure, and waits before the next attempt.
func (p State) trouble(err error) (State, []Action) {
	stop, op := p.stop(), p.op()
	p.phase = waiting
	pause := p.failures.next(p.now, p.dice)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		// Limit the seconds before the conversion: 10^10 seconds overflow a Duration.
		pause = max(pause, time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second)
	}
	return p, append(stop, Action{Do: Wait, Err: err, Op: op, Pause: pause, Attempt: p.failures.failures})
}

// op returns the operation of the current phase.
func (p State) op() Op {
	switch p.phase {
	case paging, probing:
		return OpList
	case replacing, replaced, applying:
		return OpStore
	}
	return OpWatch
}
