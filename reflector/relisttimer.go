package reflector

import "time"

// relistTimer fires when it is time to list once more.
type relistTimer struct {
	timer *time.Timer
	due   time.Time
}

// at returns a channel on which something comes at the given time; nil for the
// zero time.
func (t *relistTimer) at(due time.Time) <-chan time.Time {
	if due.IsZero() {
		return nil
	}
	if t.timer == nil || !t.due.Equal(due) {
		t.stop()
		t.timer, t.due = time.NewTimer(time.Until(due)), due
	}
	return t.timer.C
}

func (t *relistTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
