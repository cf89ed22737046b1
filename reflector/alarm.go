package reflector

import "time"

// alarm is a timer that is cheap to postpone. It fires at the earliest time that was set, and its
// receiver checks whether that time is still right.
type alarm struct {
	timer *time.Timer
	due   time.Time // zero if it is not set
}

// at returns a channel that delivers a value at or before due. It returns nil for the zero time.
func (a *alarm) at(due time.Time) <-chan time.Time {
	if due.IsZero() {
		return nil
	}
	if a.timer == nil {
		a.timer = time.NewTimer(time.Until(due))
		a.due = due
	} else if a.due.IsZero() || due.Before(a.due) {
		a.timer.Reset(time.Until(due))
		a.due = due
	}
	return a.timer.C
}

// rang records that the channel delivered a value.
func (a *alarm) rang() { a.due = time.Time{} }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.due = time.Time{}
	}
}

// alarm returns the time at which the reflector must stop waiting for events: a list is due, or the
// watch was silent for too long.
func (p protocol) alarm() time.Time {
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
func (p protocol) late() time.Time {
	late, silent := p.watching.opened.Add(overdue), p.heard.Add(silence)
	if late.Before(silent) {
		return silent
	}
	return late
}
