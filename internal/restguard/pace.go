package restguard

import "time"

// LongestPause is the longest time between two questions of a [Pace].
const LongestPause = 10 * time.Second

// Pace says when a question may be repeated whose last answer was that there is nothing. The first
// repetition may follow at once, because the answer may come from a cache. The next ones follow
// after a second, and later after a quarter of the time since the first one, at most [LongestPause].
// So a definition that is installed seconds after the start of a program is found within seconds, and
// one that is never installed costs six questions a minute. The zero Pace is ready to use.
type Pace struct{ began, last time.Time }

// Due reports whether it is time for the question. If so, it records that it is asked now. After
// twice [LongestPause] without a question, the pace begins anew.
func (p *Pace) Due(now time.Time) bool {
	switch since := now.Sub(p.last); {
	case p.Idle(now):
		p.began = now
	case since < min(max(now.Sub(p.began)/4, time.Second), LongestPause):
		return false
	}
	p.last = now
	return true
}

// Idle reports whether there was no question for twice [LongestPause].
func (p *Pace) Idle(now time.Time) bool { return p.last.IsZero() || now.Sub(p.last) >= 2*LongestPause }
