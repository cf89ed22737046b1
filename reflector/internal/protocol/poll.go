package protocol

import (
	"errors"
	"time"
)

// Handling of lists without a resource version. Some extension servers compute their objects on
// request, and their lists have no version (antrea-io/antrea#8123). No watch can resume from such a
// list, and a watch without a version shows no deletion that happened before it began. So the
// reflector polls: it stores each list, and lists again at the latest after PollInterval. If the
// server serves a watch without a version, the watch stays open between and during the lists, and
// each of its events only brings the next list forward.
//
// A list without a version that follows one with a version is refused, and the store keeps its
// content: it is more likely the answer of something in front of the server. But an extension server may
// have been replaced by one without versions. So after lossAfter of such lists, the store takes the next one.

// PollInterval is the longest pause between two lists without a resource version. client-go lists
// every 30 to 60 seconds where the server does not serve the watch.
const PollInterval = 30 * time.Second

// loss is how long lists have had no version, although an earlier one had.
type loss struct {
	last  time.Time // of such a list; zero if there was none
	lasts time.Duration
}

const (
	// lossAfter is how long lists have had no version before the reflector believes that the server has none.
	lossAfter = 15 * time.Minute
	// lossStep is the most that counts of the time between two such lists, because that time says nothing
	// of the server: it may have been away, or Run may have returned meanwhile.
	lossStep = time.Minute
)

// losesVersions records a list without a version, and reports whether to believe it.
func (p *step) losesVersions() bool {
	l := &p.lostVersions
	if !l.last.IsZero() {
		l.lasts += min(p.now.Sub(l.last), lossStep)
	}
	l.last = p.now
	return l.lasts >= lossAfter
}

// Polling reports whether the last list had no resource version, so that the reflector polls.
func (p State) Polling() bool { return p.versionless }

// poll waits for the next list, after a list without a resource version.
func (p *step) poll() {
	p.pollAt = p.now.Add(between(PollInterval*4/5, PollInterval, p.dice))
	switch {
	case p.triggered:
		p.phase = polling
		p.do(Action{Do: Receive})
	case p.now.Before(p.triggersAt):
		p.awaitPoll()
	default:
		p.phase = triggering
		p.do(Action{Do: AskWatch})
	}
}

// awaitPoll waits for the next list, without a watch.
func (p *step) awaitPoll() {
	p.phase = waiting
	p.do(Action{Do: Delay, Pause: max(p.pollAt.Sub(p.now), 0)})
}

// trigger handles an event of the watch. A list takes its time, so the next one begins no earlier
// than after the same time: the server spends at most half of its time on this reflector's lists.
func (p *step) trigger(in Input) {
	if in.Kind == Changed {
		took := p.listed.Sub(p.listing.began)
		next := p.now.Add(max(between(minPace, maxPace, p.dice), min(took, PollInterval)))
		if next.Before(p.pollAt) {
			p.pollAt = next
		}
	}
	p.todo = receiveOnly
}

// untriggered handles the failure of the watch, or of the request for it.
func (p *step) untriggered(err error) {
	if double := (interface{ TestDouble() })(nil); errors.As(err, &double) {
		p.list() // the client is now known as a test double, whose lists count as having a version
		return
	}
	switch Classify(err) {
	case Invalid, NotServed, Forbidden, Unsupported, Refused, Unanswered:
		p.triggersAt = p.now.Add(RestTime)
		p.endTrigger(err)
		p.do(Action{Do: Report, Err: err, Op: OpWatch})
		p.awaitPoll()
	default:
		p.endTrigger(err)
		p.backOff(err, &p.relists)
	}
}

// triggerEnded handles the end of the watch. The next list shows what the watch may have missed.
func (p *step) triggerEnded(err error, lasted time.Duration) {
	p.endTrigger(err)
	if lasted >= briefWatch {
		p.list()
		return
	}
	if err == nil {
		err = ShortWatch
	}
	p.backOff(err, &p.relists)
}

// endTrigger ends the watch, if it is open.
func (p *step) endTrigger(err error) {
	if p.triggered {
		p.triggered = false
		p.do(Action{Do: StopWatch, Err: err, Op: OpWatch})
	}
}
