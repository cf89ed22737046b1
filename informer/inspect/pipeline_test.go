package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBadgeNamesReadinessAndStaleness(t *testing.T) {
	for want, i := range map[string]Informer{
		"ready":                      {Ready: true, StaleSeconds: 0.9},
		"ready, stale for 6 s":       {Ready: true, StaleSeconds: 6.9},
		"not ready, stale for 3 min": {StaleSeconds: 200},
		"not ready, stale for 2 h":   {StaleSeconds: 7200},
		"not ready":                  {},
	} {
		assert.Equal(t, want, informerBadge(i).Text)
	}
}

func TestArrowFromTheServerIsBrokenWithoutAWatch(t *testing.T) {
	broken := time.Now()
	for name, test := range map[string]struct {
		reflectors []Reflector
		broken     bool
		phase      string
	}{
		"no reflector":   {nil, false, ""},
		"first list":     {[]Reflector{{Phase: "Listing", Broken: broken}}, false, "Listing"},
		"watch":          {[]Reflector{{Phase: "Watching", Synced: true}}, false, "Watching"},
		"new watch":      {[]Reflector{{Phase: "Opening", Synced: true, Broken: broken}}, true, "Opening"},
		"back-off":       {[]Reflector{{Phase: "BackingOff", Broken: broken}}, true, "BackingOff"},
		"one of several": {[]Reflector{{Phase: "Watching", Synced: true}, {Phase: "BackingOff", Synced: true, Broken: broken}}, true, "BackingOff"},
		"stopped":        {[]Reflector{{Phase: "Stopped", Synced: true, Broken: broken}}, true, "Stopped"},
	} {
		p := newPipeline(Informer{Reflectors: test.reflectors})
		assert.Equal(t, test.broken, p.Broken, name)
		assert.Equal(t, test.phase, p.Phase, name)
	}
}

func TestLanesAreBounded(t *testing.T) {
	p := newPipeline(Informer{Objects: 10, Subscribers: append(make([]Subscriber, maxLanes), Subscriber{Keys: 1})})
	assert.Len(t, p.Lanes, maxLanes)
	assert.Equal(t, 1, p.More)
	for keys, want := range map[int]int{0: 0, 1: 15, 10: barWidth, 30: barWidth} {
		assert.Equal(t, want, fill(keys, 10))
	}
	assert.Equal(t, 4, fill(1, 1000))
}
