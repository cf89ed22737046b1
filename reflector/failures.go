package reflector

import (
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// This file contains the protocol's reactions to failures.

// fail handles a failed request, an ERROR event, or an invalid event.
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

// failProbe handles a failed probe.
func (p protocol) failProbe(err error) (protocol, []action) {
	if apierrors.IsTooManyRequests(err) || unreachable(err) {
		return p.trouble(err)
	}
	// A restored server may fail requests while it starts, and then accept a watch.
	if p.failedProbes++; p.suspect && !isRefusal(err) && p.failedProbes < maxFailedProbes {
		return p.trouble(err)
	}
	// The server may forbid lists. The answer to the watch will show the state.
	p.heard, p.suspect, p.failedProbes = p.now, false, 0
	return p.watch()
}

func (p protocol) failPage(err error) (protocol, []action) {
	l := p.listing
	switch {
	case !refused(err):
	case l.next != "" && !l.whole:
		// The list took longer than the server keeps its continue tokens.
		return p.ask(listing{version: l.version, whole: true, paged: l.paged})
	case l.version != "" && l.version != "0":
		p.unavailable = true
		return p.ask(listing{limit: l.limit, paged: l.paged})
	}
	return p.trouble(err)
}

// failWatch handles the failure of a watch from position.
func (p protocol) failWatch(err error) (protocol, []action) {
	stop := p.stop()
	switch {
	case expired(err):
		p.relist = true
		if p.now.Sub(p.listed) >= expiryAfter {
			p, next := p.begin()
			return p, append(stop, next...)
		}
		// The last list did not help. It may have come from an API server that lags behind the one
		// that refused the watch.
		p.unavailable = true
	case refused(err) || errors.Is(err, ErrServerBehind):
		p.relist, p.unavailable = true, true
	case p.phase == following && undecoded(err):
		return p.cutOff(err)
	case p.phase == following && !apierrors.IsTooManyRequests(err):
		// The server could not report the next change. For example, an object was deleted because
		// the server cannot read it any more.
		p.relist = true
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		// The server may refuse watches but allow lists.
		p.relist = true
	case !apierrors.IsTooManyRequests(err):
		p.suspect = !p.shared // the server failed or did not answer
	}
	return p.trouble(err)
}

// failStream handles the failure of a watch-list.
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
		return p.trouble(err) // the watch-list works, and a list would be as large
	case p.phase == streaming:
		return p.breakOff(err)
	case errors.Is(err, ErrNotServed):
		return p.trouble(err) // a list would fail as well
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err):
		p.unavailable = false // the server does not support watch-lists
		stop = append(stop, p.restStreams(err))
	default:
		stop = append(stop, action{do: report, err: err, op: OpWatch})
	}
	p, next := p.list()
	return p, append(stop, next...)
}

// breakOff handles a watch-list that ended before it was complete.
func (p protocol) breakOff(err error) (protocol, []action) {
	stop := p.stop()
	if p.brokenStreams++; p.brokenStreams >= maxBrokenStreams || errors.Is(err, ErrNoInitialEventsEnd) {
		stop = append(stop, action{do: report, err: err, op: OpWatch}, p.restStreams(err))
		p, next := p.list()
		return p, append(stop, next...)
	}
	return p.trouble(err)
}

// restStreams makes the reflector use lists instead of watch-lists for streamsRest. After that the
// server may have been upgraded, or a proxy removed. If not, one failure is enough to rest again.
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

// trouble ends the watch, if there is one, reports the failure, and waits before the next attempt.
func (p protocol) trouble(err error) (protocol, []action) {
	stop, op := p.stop(), p.op()
	p.phase = waiting
	pause := p.failures.next(p.now, p.dice)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		// Limit the seconds before the conversion: 10^10 seconds overflow a Duration.
		pause = max(pause, time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second)
	}
	return p, append(stop, action{do: wait, err: err, op: op, pause: pause, attempt: p.failures.failures})
}

// op returns the operation of the current phase.
func (p protocol) op() Op {
	switch p.phase {
	case paging, probing:
		return OpList
	case replacing, replaced, applying:
		return OpStore
	}
	return OpWatch
}
