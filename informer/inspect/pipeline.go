package inspect

import "github.com/kubereflector/kubereflector/reflector"

// pipeline is the picture of an informer: API server, reflector, cache, and a lane for each
// subscriber.
type pipeline struct {
	Informer
	// Phase is the phase of the reflector in the worst state.
	Phase string
	// Broken is true if a reflector that had filled its scope has no watch, or waits or stopped.
	Broken bool
	Lanes  []lane
	More   int // subscribers without a lane
}

// lane is the way from the cache to one subscriber.
type lane struct {
	Subscriber
	Fill    int // width of the bar that shows the number of queued keys
	Stalled bool
}

const (
	maxLanes = 8
	barWidth = 150
	// stalledAfter is the age of the oldest event of a stalled subscriber, in seconds.
	stalledAfter = 5
)

// newPipeline returns the picture of an informer.
func newPipeline(i Informer) pipeline {
	p := pipeline{Informer: i}
	shown := min(len(i.Subscribers), maxLanes)
	p.More = len(i.Subscribers) - shown
	for _, s := range i.Subscribers[:shown] {
		p.Lanes = append(p.Lanes, lane{Subscriber: s, Fill: fill(s.Keys, i.Objects), Stalled: s.OldestSeconds > stalledAfter})
	}
	for _, r := range i.Reflectors {
		broken := r.Phase == string(reflector.BackingOff) || r.Phase == string(reflector.Stopped) || r.Synced && !r.Broken.IsZero()
		if p.Phase == "" || broken && !p.Broken {
			p.Phase, p.Broken = r.Phase, broken
		}
	}
	return p
}

// fill returns the width of the bar: full if every object waits, and at least visible if one waits.
func fill(keys, objects int) int {
	if keys == 0 {
		return 0
	}
	return max(min(barWidth*keys/max(objects, 1), barWidth), 4)
}

// badge is the state of an informer or a runnable in a few words.
type badge struct{ Class, Text string }

// informerBadge returns the badge of an informer, such as "ready, stale for 6 s".
func informerBadge(i Informer) badge {
	b := runnableBadge(i.Ready)
	if i.StaleSeconds >= 1 {
		b.Text += ", stale for " + age(i.StaleSeconds)
		if i.Ready {
			b.Class = "stale"
		}
	}
	return b
}

func runnableBadge(ready bool) badge {
	if ready {
		return badge{"ready", "ready"}
	}
	return badge{"not", "not ready"}
}
