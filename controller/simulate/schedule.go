package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A schedule is what disturbs a run. Its text, the line, plays it again.
type schedule []clause

// A clause is one disturbance. Most happen at a write of the operator, which at names by its content
// and count, for example "update sites/status default/a#2": a step number would name another write
// in the next run.
type clause struct {
	verb  string
	at    string
	what  string        // the resource of a hold or an expiry, the answer of a failure
	n     int           // writes until a hold ends; the first of two steps
	since time.Duration // how long a failure or a hold lasts instead
}

const (
	crashBefore   = "crash before"
	crashAfter    = "crash after"
	fail          = "fail"
	lose          = "lose"
	holdEvents    = "hold"
	expire        = "expire"
	restartBehind = "restart behind"
	stepBefore    = "step before"
	stepAfter     = "step after"
	together      = "steps"
	annotateAfter = "annotate after"
	slow          = "slow"
	stopAfter     = "stop after"
	standbyBehind = "standby behind"
	leaseLost     = "lease lost at"
	compact       = "compact"
	restoreBefore = "restore before"
)

// atOnly are the verbs that a write follows.
var atOnly = []string{crashBefore, crashAfter, stopAfter, lose, restartBehind, standbyBehind, leaseLost, restoreBefore, stepBefore, stepAfter, annotateAfter}

func (c clause) String() string {
	switch c.verb {
	case fail:
		text := fmt.Sprintf("fail %s with %s", c.at, c.what)
		if c.since > 0 {
			text += " for " + shortDuration(c.since)
		}
		return text
	case holdEvents:
		if c.since > 0 {
			return fmt.Sprintf("hold %s from %s for %s", c.what, c.at, shortDuration(c.since))
		}
		return fmt.Sprintf("hold %s from %s for %d writes", c.what, c.at, c.n)
	case expire:
		return fmt.Sprintf("expire %s at %s", c.what, c.at)
	case together:
		return fmt.Sprintf("steps %d and %d together", c.n, c.n+1)
	case slow, compact:
		return c.verb
	default:
		return c.verb + " " + c.at
	}
}

// shortDuration is d without the zeros of its String: 10m instead of 10m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (s schedule) String() string {
	var parts []string
	for _, c := range s {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "; ")
}

// parse reads a line.
func parse(line string) (schedule, error) {
	var s schedule
	for part := range strings.SplitSeq(line, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		c, err := parseClause(part)
		if err != nil {
			return nil, err
		}
		s = append(s, c)
	}
	return s, nil
}

func parseClause(text string) (clause, error) {
	for _, verb := range atOnly {
		if at, ok := strings.CutPrefix(text, verb+" "); ok {
			return clause{verb: verb, at: at}, checkWrite(text, at)
		}
	}
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case slow, compact:
		if rest == "" {
			return clause{verb: verb}, nil
		}
	case together:
		c := clause{verb: together}
		var second int
		if _, err := fmt.Sscanf(text, "steps %d and %d together", &c.n, &second); err != nil || second != c.n+1 {
			return c, fmt.Errorf("simulate: %.200q: want \"steps N and N+1 together\"", text)
		}
		return c, nil
	case fail:
		c := clause{verb: fail}
		var ok bool
		if c.at, c.what, ok = strings.Cut(rest, " with "); !ok {
			return c, fmt.Errorf("simulate: %.200q: want \"fail WRITE with 409, 429, 500 or denied\", and \"for 10m\" after it if it lasts", text)
		}
		what, lasts, ok := strings.Cut(c.what, " for ")
		if c.what = what; ok {
			var err error
			if c.since, err = time.ParseDuration(lasts); err != nil || c.since <= 0 {
				return c, fmt.Errorf("simulate: %.200q: %q is no duration such as 10m", text, lasts)
			}
		}
		if !slices.Contains(answers, c.what) {
			return c, fmt.Errorf("simulate: %.200q: a write fails with %s, not with %q", text, strings.Join(answers, ", "), c.what)
		}
		if strings.HasPrefix(c.at, "get ") {
			return c, checkRequest(text, c.at, "read such as \"get sites default/a#1\"", func(verb string) bool { return verb == "get" })
		}
		return c, checkWrite(text, c.at)
	case holdEvents:
		c := clause{verb: holdEvents}
		what, rest, ok := strings.Cut(rest, " from ")
		at, lasts, ok2 := strings.Cut(rest, " for ")
		c.what, c.at = what, at
		var err error
		if count, writes := strings.CutSuffix(lasts, " writes"); writes {
			c.n, err = strconv.Atoi(count)
		} else {
			c.since, err = time.ParseDuration(lasts)
		}
		if !ok || !ok2 || err != nil || c.n <= 0 && c.since <= 0 {
			return c, fmt.Errorf("simulate: %.200q: want \"hold RESOURCE from WRITE for N writes\", or a duration instead of N writes", text)
		}
		return c, checkWrite(text, c.at)
	case expire:
		c := clause{verb: expire}
		var ok bool
		if c.what, c.at, ok = strings.Cut(rest, " at "); !ok {
			return c, fmt.Errorf("simulate: %.200q: want \"expire RESOURCE at WRITE\"", text)
		}
		return c, checkWrite(text, c.at)
	}
	return clause{}, fmt.Errorf("simulate: %.200q is no clause: one begins with %s, hold, expire, fail, slow, compact or steps", text, strings.Join(atOnly, ", "))
}

// checkWrite requires a write as the trace shows it: VERB RESOURCE NAMESPACE/NAME#COUNT.
func checkWrite(text, at string) error {
	return checkRequest(text, at, "write such as \"update sites/status default/a#1\"", isWrite)
}

func checkRequest(text, at, what string, isVerb func(string) bool) error {
	words := strings.Fields(at)
	_, count, counted := strings.Cut(at, "#")
	if n, err := strconv.Atoi(count); len(words) != 3 || !isVerb(words[0]) || !counted || err != nil || n < 1 {
		return fmt.Errorf("simulate: %.200q: %q is no %s", text, at, what)
	}
	return nil
}

// answers are what a write can fail with.
var answers = []string{"409", "429", "500", "denied"}

// disturbances are the schedules of one disturbance each, and with OldServers those of a crash and a
// restart behind.
func (s *Scenario) disturbances(undisturbed *result) []schedule {
	var all []schedule
	add := func(clauses ...clause) { all = append(all, clauses) }
	add(clause{verb: slow})
	add(clause{verb: compact})
	for n := 1; n < len(s.Steps); n++ {
		add(clause{verb: together, n: n})
	}
	for _, at := range undisturbed.writes {
		if strings.HasPrefix(at, call+" ") {
			for _, c := range callClauses {
				c.at = at
				add(c)
			}
			continue
		}
		for _, verb := range []string{crashBefore, crashAfter, stopAfter, lose, stepBefore, stepAfter, annotateAfter, restoreBefore} {
			add(clause{verb: verb, at: at})
		}
		add(clause{verb: stepBefore, at: at}, clause{verb: stepBefore, at: at}) // for example a deletion, and a creation under the same name
		for _, answer := range answers {
			add(clause{verb: fail, at: at, what: answer})
		}
		for _, answer := range []string{"500", "denied"} {
			add(clause{verb: fail, at: at, what: answer, since: 10 * time.Minute})
		}
		for _, resource := range undisturbed.watched {
			add(clause{verb: expire, at: at, what: resource})
			for _, n := range []int{1, 2, 5} {
				add(clause{verb: holdEvents, at: at, what: resource, n: n})
			}
			// What happens during the hold is never observed.
			add(clause{verb: holdEvents, at: at, what: resource, n: 3}, clause{verb: expire, at: at, what: resource})
		}
		add(clause{verb: holdEvents, at: at, what: everything, n: 3})
	}
	if undisturbed.elects {
		all = append(all, s.takeovers(undisturbed)...)
	}
	if s.OldServers {
		for i, at := range undisturbed.writes {
			for _, earlier := range undisturbed.writes[:i+1] {
				add(clause{verb: crashAfter, at: at}, clause{verb: restartBehind, at: earlier})
			}
		}
	}
	return all
}

// takeovers are the schedules in which a second process takes over. Its caches are behind the last write
// of the first process, or behind everything that it wrote since a step. Behind an earlier step, a correct
// operator does again what the user has changed since, so that is for OldServers only.
func (s *Scenario) takeovers(undisturbed *result) []schedule {
	var all []schedule
	var begins []string // the first write after a step
	for i, at := range undisturbed.writes {
		if undisturbed.steps[i] == 0 {
			continue // there is no second process before the first step
		}
		if i == 0 || undisturbed.steps[i] != undisturbed.steps[i-1] {
			if !s.OldServers {
				begins = nil
			}
			begins = append(begins, at)
		}
		for _, behind := range slices.Compact(append(slices.Clone(begins), at)) {
			for _, end := range []string{crashAfter, stopAfter} {
				all = append(all, schedule{{verb: end, at: at}, {verb: standbyBehind, at: behind}})
			}
		}
		all = append(all, schedule{{verb: leaseLost, at: at}})
	}
	return all
}

// standby reports whether a second process runs beside the first.
func (s schedule) standby() bool {
	return slices.ContainsFunc(s, func(c clause) bool { return c.verb == standbyBehind || c.verb == leaseLost })
}

func (s schedule) has(verb string) bool {
	return slices.ContainsFunc(s, func(c clause) bool { return c.verb == verb })
}

// rank is 0 for what hurts most: the end of the process, a lost answer or a failure at one write, and what
// concerns all writes. It is 2 for delays, of which a write has some for each kind that the operator watches.
func (s schedule) rank() int {
	switch {
	case s.has(holdEvents) || s.has(expire):
		return 2
	case len(s) == 1 && slices.Contains([]string{crashBefore, crashAfter, lose, fail, slow, compact, together}, s[0].verb) && s[0].since == 0:
		return 0
	}
	return 1
}

// everything is a hold's resource for all of them.
const everything = "*"
