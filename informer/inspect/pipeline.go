package inspect

import "fmt"

// pipeline is the picture of an informer: boxes from left to right, and a lane for each
// subscriber. Lengths are in units of the picture.
type pipeline struct {
	Informer
	Height int
	Lanes  []lane
	// Middle is the vertical position of the boxes that all lanes share.
	Middle int
	// Phase is the phase of the reflector in the worst state.
	Phase   string
	Broken  bool
	Flowing bool
	More    int // subscribers without a lane
}

// lane is the way from the cache to one subscriber.
type lane struct {
	Subscriber
	Y       int
	Path    string // of the arrow from the cache
	Fill    int    // width of the bar that shows the number of queued keys
	Flowing bool
	Stalled bool
}

const (
	laneHeight = 72
	maxLanes   = 8
	barWidth   = 150
	// stalledAfter is when the oldest event is old, in seconds.
	stalledAfter = 5
)

// newPipeline returns the picture of an informer.
func newPipeline(i Informer) pipeline {
	p := pipeline{Informer: i, Flowing: i.Rate > 0}
	shown := min(len(i.Subscribers), maxLanes)
	p.More = len(i.Subscribers) - shown
	p.Height = max(shown, 1)*laneHeight + 24
	p.Middle = p.Height / 2
	for n, s := range i.Subscribers[:shown] {
		y := 12 + n*laneHeight + laneHeight/2
		p.Lanes = append(p.Lanes, lane{
			Subscriber: s, Y: y, Path: fmt.Sprintf("M 520 %d C 560 %d, 560 %d, 600 %d", p.Middle, p.Middle, y, y),
			Fill: fill(s.Keys, i.Objects), Flowing: s.Keys > 0 || p.Flowing, Stalled: s.OldestSeconds > stalledAfter,
		})
	}
	for _, r := range i.Reflectors {
		if p.Phase == "" || !r.Broken.IsZero() && !p.Broken {
			p.Phase, p.Broken = r.Phase, !r.Broken.IsZero()
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
