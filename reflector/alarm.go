package reflector

import "time"

// alarm is a timer that is cheap to put off: it rings at the earliest time that it
// was set to, and whoever hears it looks whether that is still right.
type alarm struct {
	timer *time.Timer
	due   time.Time // zero if it is not set
}

// at returns a channel on which something comes at or before a time, nil for the zero
// time.
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

// rang notes that something came.
func (a *alarm) rang() { a.due = time.Time{} }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.due = time.Time{}
	}
}

// alarm returns when the reflector has to stop listening: because a list is due, or
// because the watch has been silent for too long.
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

// late returns when to give up a watch that says nothing, and does not end either.
func (p protocol) late() time.Time {
	late, silent := p.watching.opened.Add(overdue), p.heard.Add(silence)
	if late.Before(silent) {
		return silent
	}
	return late
}
