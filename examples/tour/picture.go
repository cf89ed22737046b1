package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/reflector"
)

// picture is what the page shows of a world at rest.
type picture struct {
	Server, Cache []token
	Silent        bool   // the server answers nothing
	Reflector     string // what the reflector does
	Lanes         []lane
	calls         [][]call // of each lane
	cached        versions
}

// token is a pod at a place. Times is how many changes one event stands for.
type token struct {
	Pod, Version string
	Times        int
	Note         string
}

// lane is a handler and what waits for it.
type lane struct {
	Name, Holds string
	Waiting     []token
	More        int // tokens that are too many to show
	Hand        *token
	Calls       int
	Last        string
}

// shownTokens is how many tokens a lane shows.
const shownTokens = 8

// draw returns the picture of a world with some handlers.
func (w *world) draw(names []string) picture {
	p := picture{Server: tokens(w.serverVersions()), Silent: w.release != nil, cached: w.seen.versions()}
	p.Cache = tokens(p.cached)
	switch state := w.pods.State(); {
	case state.Phase == reflector.Stopped:
		p.Reflector = "does not run"
	case p.Silent:
		p.Reflector = "asks, and gets no answer"
	default:
		p.Reflector = "watches from v" + state.ResourceVersion
	}
	handlers := map[string]*handler{"quick": w.quick, "slow": w.slow, "picky": &w.picky.handler, clientGo: w.theirsSlow}
	slowWaits := w.waitsForSlow()
	for _, name := range names {
		l := lane{Name: name, Holds: "Event queue"}
		var calls []call
		if h := handlers[name]; h != nil {
			calls, _ = h.state()
			if l.Calls = len(calls); l.Calls > 0 {
				last := calls[l.Calls-1]
				l.Last = last.String()
				if h.busy() {
					l.Hand = &token{Pod: last.pod, Version: last.version}
				}
			}
		}
		switch name {
		case "slow":
			l.Waiting = slowWaits
		case "picky":
			for _, q := range w.subs[name].Pending(100) {
				l.Waiting = append(l.Waiting, token{Pod: q.Key.Name, Version: p.cached[q.Key.Name], Note: "back-off"})
			}
		case clientGo:
			l.Holds = "client-go’s buffer"
			for _, c := range w.theirsWaiting() {
				l.Waiting = append(l.Waiting, token{Pod: c.pod, Version: c.version})
			}
		}
		if l.More = max(len(l.Waiting)-shownTokens, 0); l.More > 0 {
			l.Waiting = l.Waiting[:shownTokens]
		}
		p.Lanes, p.calls = append(p.Lanes, l), append(p.calls, calls)
	}
	return p
}

// waitsForSlow returns what waits in the queue of slow. An event that is alone stands for all changes since
// the queue had no event of the pod.
func (w *world) waitsForSlow() (all []token) {
	if w.slow == nil {
		return nil
	}
	cached, waiting := w.seen.versions(), map[string]bool{}
	for _, q := range w.subs["slow"].Pending(100) {
		pod, took, passed := q.Key.Name, 0, 0
		if q.InFlight {
			took, passed = w.slow.lastQueue()
		}
		for range q.Events - passed {
			t := token{Pod: pod, Version: cached[pod]}
			if passed == took && q.Events-took == 1 {
				t.Times = w.seen.changesOf(pod) - w.taken[pod]
			}
			all, waiting[pod] = append(all, t), true
		}
	}
	for _, pod := range names {
		if !waiting[pod] {
			w.taken[pod] = w.seen.changesOf(pod)
		}
	}
	return all
}

func tokens(pods versions) (all []token) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		all = append(all, token{Pod: name, Version: pods[name]})
	}
	return all
}

// frame is the picture after an act, and what moved.
type frame struct {
	Text    string
	Flights [][]flight // the flights of a row begin at the same time
	Picture picture
}

// flight is the way of a pod between two places of the page.
type flight struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	To   string `json:"to"`
}

// newFrame compares the pictures before and after an act.
func newFrame(a act, before, after picture) frame {
	f := frame{Picture: after}
	text := []string{a.text}
	changed := differences(before.cached, after.cached)
	var toReflector, toCache, toQueues, toHands []flight
	for _, pod := range changed {
		toReflector = append(toReflector, flight{pod, "server", "reflector"})
		toCache = append(toCache, flight{pod, "reflector", "cache"})
	}
	if len(changed) > 0 {
		text = append(text, join(changed)+" moved through the reflector into the cache.")
	}
	if after.Silent && !slices.Equal(before.Server, after.Server) {
		text = append(text, "The informer does not notice it.")
	}
	for i, l := range after.Lanes {
		was, queue := before.Lanes[i], "queue-"+l.Name
		news := after.calls[i][was.Calls:]
		arrived, grew := changed, l.Calls+len(l.Waiting) > was.Calls+len(was.Waiting)
		who := l.Name
		if who == clientGo {
			who = "client-go’s slow handler"
		}
		from := "cache"
		switch {
		case l.Name == clientGo:
			from = "server" // by a cache of its own
			if !grew {
				arrived = nil
			}
		case len(changed) == 0 && grew && was.Calls == 0: // it has just joined
			arrived = slices.Sorted(maps.Keys(after.cached))
		}
		for _, pod := range arrived {
			toQueues = append(toQueues, flight{pod, from, queue})
		}
		for _, c := range news {
			toHands = append(toHands, flight{c.pod, queue, "hand-" + l.Name})
			text = append(text, fmt.Sprintf("%s got %v.", who, c))
		}
		if was.Hand != nil && l.Hand == nil {
			text = append(text, who+" has nothing more to do.")
		}
		if len(changed)+len(news) > 0 || len(was.Waiting) != len(l.Waiting) {
			text = append(text, waits(l, was))
		}
	}
	for _, row := range [][]flight{toReflector, toCache, toQueues, toHands} {
		if len(row) > 0 {
			f.Flights = append(f.Flights, row)
		}
	}
	f.Text = strings.Join(slices.DeleteFunc(text, func(s string) bool { return s == "" }), " ")
	return f
}

// waits says what waits in a lane that had other contents.
func waits(l, was lane) string {
	n := len(l.Waiting) + l.More
	switch {
	case n == 0 && len(was.Waiting) > 0 && l.Calls == was.Calls:
		return "In " + l.Name + "’s queue the events cancelled each other, and nothing waits."
	case n == 0:
		return ""
	case l.Name == clientGo:
		return fmt.Sprintf("client-go’s buffer holds %d.", n)
	}
	var all []string
	for _, t := range l.Waiting {
		text := t.Pod
		if t.Times > 1 {
			text += fmt.Sprintf(" (%d changes in one event)", t.Times)
		}
		all = append(all, text)
	}
	return l.Name + "’s queue holds " + join(all) + "."
}

// differences returns the names of the pods that differ.
func differences(a, b versions) (names []string) {
	for name := range b {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for name := range a {
		if _, has := b[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func join(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
