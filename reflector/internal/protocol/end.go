package protocol

import "time"

// Handling of the end of a watch.

const (
	// ShortWatchTime is the duration below which a watch without news counts as a failure.
	ShortWatchTime = time.Second

	// briefWatch is the duration that one of two consecutive watches must reach, with or without
	// news. Otherwise a server that ends each watch after one event would get hundreds of requests
	// a second.
	briefWatch = 10 * time.Second

	// briefWatches consecutive watches that end at one version cause a list: the client may be
	// unable to decode the next event.
	briefWatches = 3

	// probeSpread is the longest pause before the probe after a broken watch. It spreads the
	// probes, because all watches of a server break at once when the server ends.
	probeSpread = 500 * time.Millisecond

	// After maxFailedProbes consecutive failures the reflector watches without a probe, because the
	// server may be unable to list.
	maxFailedProbes = 3

	// clockSlack is how much earlier than asked a server may end a watch.
	clockSlack = time.Second
)

// end handles the end of a watch. err is nil if the server closed the watch, and otherwise the
// error that broke it.
func (p State) end(err error) (State, []Action) {
	lasted := p.now.Sub(p.watching.opened)
	if p.phase == streaming {
		if lasted > bookmarkDeadline {
			return p.breakOff(NoInitialEventsEnd)
		}
		if err == nil {
			err = StreamEnded
		}
		return p.breakOff(err)
	}
	p.suspect = !p.Shared && (p.suspect || p.Replayed || err != nil || lasted < max(ShortWatchTime, p.watching.asked-clockSlack))
	if lasted < briefWatch && !p.Replayed && !p.Shared {
		p.brief++
	} else {
		p.brief = 0
	}
	if !p.relistDue() && (p.brief > 1 || !p.moved() && lasted < ShortWatchTime) {
		if err == nil {
			err = ShortWatch
		}
		return p.trouble(err)
	}
	stop := p.stop()
	if err != nil {
		stop = append(stop, Action{Do: Report, Err: err, Op: OpWatch})
	}
	return p.resume(stop)
}

// resume goes on after a watch. After a broken one it pauses first: begin will probe.
func (p State) resume(after []Action) (State, []Action) {
	if p.suspect && !p.Replayed && !p.relistDue() {
		p.phase = waiting
		return p, append(after, Action{Do: Delay, Pause: time.Duration(p.dice * float64(probeSpread))})
	}
	p, next := p.begin()
	return p, append(after, next...)
}

// moved reports whether the watch advanced the resource version. Replayed events with
// older versions do not count.
func (p State) moved() bool {
	return p.watching.news && p.position != p.watching.from && !behind(p.position, p.watching.from)
}

// cutOff handles a stream that client-go could not read. It resumes the watch. The third
// failure in a row at one version causes a relist, in case one object cannot be decoded.
func (p State) cutOff(err error) (State, []Action) {
	if p.brief+1 < briefWatches || p.moved() || p.now.Sub(p.watching.opened) >= briefWatch {
		return p.end(err)
	}
	p.brief, p.relist = 0, true
	return p.trouble(err)
}

// elapse handles the end of a pause, or of the time until the alarm.
func (p State) elapse() (State, []Action) {
	switch p.phase {
	case streaming:
		return p.breakOff(NoInitialEventsEnd)
	case following:
		stop := p.stop()
		if !p.relistDue() {
			stop = append(stop, Action{Do: Report, Err: SilentWatch, Op: OpWatch})
		}
		p, next := p.begin()
		return p, append(stop, next...)
	}
	return p.begin()
}

// probe requests the newest version of the server, and the object that changed last, before the
// reflector resumes a watch. The server may have been restored from a snapshot during the silence.
func (p State) probe() (State, []Action) {
	p.phase = probing
	return p, []Action{{Do: AskPage, Limit: 1}}
}

// probed handles the answer to a probe.
func (p State) probed(in Input) (State, []Action) {
	p.heard, p.suspect, p.failedProbes = p.now, false, 0
	if in.Conflict || behind(in.Version, p.position) {
		p.relist, p.unavailable = true, true
		return p.trouble(ServerBehind)
	}
	return p.watch()
}

// Alarm returns the time at which the reflector must stop waiting for events: a list is due, or the
// watch was silent for too long.
func (p State) Alarm() time.Time {
	if p.phase == streaming {
		return p.heard.Add(bookmarkDeadline)
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
