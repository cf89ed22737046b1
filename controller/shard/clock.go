package shard

import "time"

// clock is a member's source of time. Tests use clocks with errors.
type clock interface {
	now() time.Time
	// after calls a function on its own goroutine after d, unless stop is called first.
	after(d time.Duration, f func()) (stop func())
}

// monotonic is the clock of the machine, which no time adjustment changes.
type monotonic struct{}

func (monotonic) now() time.Time { return time.Now() }

func (monotonic) after(d time.Duration, f func()) func() {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}
