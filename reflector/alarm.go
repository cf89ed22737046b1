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
