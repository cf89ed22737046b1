package shard

import "time"

// clock is by what a member counts time. Tests have clocks that go wrong.
type clock interface {
	now() time.Time
	// after has a function called, in a goroutine of its own, unless stop comes first.
	after(d time.Duration, f func()) (stop func())
}

// monotonic is the clock of the machine, which nobody sets.
type monotonic struct{}

func (monotonic) now() time.Time { return time.Now() }

func (monotonic) after(d time.Duration, f func()) func() {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}
