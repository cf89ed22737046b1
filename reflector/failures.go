package reflector

import (
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What the protocol does when something fails.

// fail takes the failure of a request, an ERROR event, or an event that makes no
// sense.
func (p protocol) fail(err error) (protocol, []action) {
	switch p.phase {
	case paging:
		return p.failPage(err)
	case probing:
		return p.failProbe(err)
	case opening, following:
		return p.failWatch(err)
	case asking, streaming:
		return p.failStream(err)
	}
	return p.trouble(err)
}

// failProbe takes that the server did not say how far it is.
func (p protocol) failProbe(err error) (protocol, []action) {
	if apierrors.IsTooManyRequests(err) || unreachable(err) {
		return p.trouble(err)
	}
	// A restored server may fail a request while it starts, and accept a watch after that.
	if p.failedProbes++; p.suspect && !isRefusal(err) && p.failedProbes < maxFailedProbes {
		return p.trouble(err)
	}
	// It may not allow lists. The watch will tell.
	p.heard, p.suspect, p.failedProbes = p.now, false, 0
	return p.watch()
}

func (p protocol) failPage(err error) (protocol, []action) {
	l := p.listing
	switch {
	case !refused(err):
	case l.next != "" && !l.whole:
		// The list took longer than the server keeps its pages.
		return p.ask(listing{version: l.version, whole: true, paged: l.paged})
	case l.version != "" && l.version != "0":
		p.unavailable = true
		return p.ask(listing{limit: l.limit, paged: l.paged})
	}
	return p.trouble(err)
}

// failWatch takes the failure of a watch from position.
func (p protocol) failWatch(err error) (protocol, []action) {
	stop := p.stop()
	switch {
	case expired(err):
		p.relist = true
		if p.now.Sub(p.listed) >= expiryAfter {
			p, next := p.begin()
			return p, append(stop, next...)
		}
		// The last list was of no use: it may have come from a server that lags
		// behind the one that was asked for the watch.
		p.unavailable = true
	case refused(err) || errors.Is(err, ErrServerBehind):
		p.relist, p.unavailable = true, true
	case p.phase == following && undecoded(err):
		return p.cutOff(err)
	case p.phase == following && !apierrors.IsTooManyRequests(err):
		// Whatever it is, the server could not tell what happened next: an object
		// that was deleted because it cannot be read any more, say.
		p.relist = true
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		// There may be no watch to be had, but lists.
		p.relist = true
	case !apierrors.IsTooManyRequests(err):
		p.suspect = !p.shared // the server was not there
	}
	return p.trouble(err)
}

// failStream takes the failure of a watch-list.
func (p protocol) failStream(err error) (protocol, []action) {
	stop := p.stop()
	switch {
	case refused(err) && p.known() != "":
		p.unavailable = true
		p, next := p.obtain()
		return p, append(stop, next...)
	case apierrors.IsTooManyRequests(err) || unreachable(err):
		return p.trouble(err)
	case errors.Is(err, store.ErrOverBudget):
		return p.trouble(err) // the watch-list works, and a list would be as long
	case p.phase == streaming:
		return p.breakOff(err)
	case errors.Is(err, ErrNotServed):
		return p.trouble(err) // nor is there a list to be had
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err):
		p.unavailable = false // the server does not know what is asked for
		stop = append(stop, p.restStreams(err))
	default:
		stop = append(stop, action{do: report, err: err, op: OpWatch})
	}
	p, next := p.list()
	return p, append(stop, next...)
}

// breakOff takes a watch-list that ended before it was complete.
func (p protocol) breakOff(err error) (protocol, []action) {
	stop := p.stop()
	if p.brokenStreams++; p.brokenStreams >= maxBrokenStreams || errors.Is(err, ErrNoInitialEventsEnd) {
		stop = append(stop, action{do: report, err: err, op: OpWatch}, p.restStreams(err))
		p, next := p.list()
		return p, append(stop, next...)
	}
	return p.trouble(err)
}

// restStreams has lists asked for instead of watch-lists for a while. The server may be
// upgraded, or the proxy removed; then the first failure is enough to rest once more.
func (p *protocol) restStreams(err error) action {
	p.streamsAt, p.brokenStreams = p.now.Add(streamsRest), maxBrokenStreams-1
	return action{do: streamsOff, err: err, op: OpWatch}
}

// stop ends the watch, if there is one.
func (p protocol) stop() []action {
	switch p.phase {
	case following, applying, streaming, replaced:
		return []action{{do: stopWatch}}
	}
	return nil
}

// trouble ends the watch, if there is one, reports a failure and waits before the
// next attempt.
func (p protocol) trouble(err error) (protocol, []action) {
	stop, op := p.stop(), p.op()
	p.phase = waiting
	pause := p.failures.next(p.now, p.dice)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		// Before it is a Duration: 10^10 seconds are none.
		pause = max(pause, time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second)
	}
	return p, append(stop, action{do: wait, err: err, op: op, pause: pause, attempt: p.failures.failures})
}

// op returns what the conversation is about.
func (p protocol) op() Op {
	switch p.phase {
	case paging, probing:
		return OpList
	case replacing, replaced, applying:
		return OpStore
	}
	return OpWatch
}
