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
