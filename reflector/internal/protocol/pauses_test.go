package protocol

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patient is a reflector, and a server that answers as a test says.
type patient struct {
	State
	now      time.Time
	pending  Action
	version  int
	requests int
	lists    int // that were answered, without probes
	// path has what the server did, for a failure of the test.
	path []string

	obeyable int       // answers with a Retry-After since the last news
	relisted time.Time // of the last failure that costs a list
	reason   string    // why the next pause must be short
}

func newPatient(o Options) *patient {
	p := &patient{State: New(o), now: time.Unix(1_000_000, 0), version: 10}
	p.take(Input{Kind: Started}, 1)
	p.answer("ok", 1)
	return p
}

func (p *patient) take(in Input, dice float64) {
	in.At, in.Dice = p.now, dice
	next, todo := p.Step(in)
	p.State = next
	for _, a := range todo {
		if a.Do <= Delay {
			p.pending = a
		}
	}
	switch p.pending.Do {
	case AskPage, AskWatch, AskWatchList:
		p.requests++
	}
}

// The ways in which the server may treat a request, and a watch.
var (
	answers = []string{"ok", "busy-1s", "busy", "unavailable-1s", "internal", "refused", "cut-off", "expired"}
	ends    = []string{"news, end", "news, cut-off", "end", "cut-off", "3s, end", "3s, cut-off", "3s, news, end",
		"news, expired", "news, busy-1s", "1h"}
)

// answer treats the pending request as an answer says.
func (p *patient) answer(as string, dice float64) {
	p.reason = ""
	if as != "ok" {
		switch {
		case strings.HasSuffix(as, "-1s"):
			if p.obeyable++; p.obeyable <= maxObeyed {
				p.reason = "a Retry-After of a second"
			}
		case as == "expired" && p.pending.Do == AskWatch:
			p.first410()
		}
		p.take(Input{Kind: Failed, Err: scriptErrors[as]}, dice)
		return
	}
	version := fmt.Sprint(p.version)
	switch {
	case p.pending.Do == AskWatch:
		p.take(Input{Kind: Accepted, Lasts: MaxWatch}, dice)
	case p.pending.Do == AskWatchList:
		p.take(Input{Kind: Accepted, Lasts: MaxWatch}, dice)
		p.take(Input{Kind: Marked, Version: version, Closing: true}, dice)
		p.take(Input{Kind: Stored}, dice)
		p.obeyable = 0
		p.lists++
	case p.Probing():
		p.take(Input{Kind: Answered, Version: version}, dice)
	default:
		p.take(Input{Kind: Answered, Version: version}, dice)
		p.take(Input{Kind: Stored}, dice)
		p.obeyable = 0
		p.lists++
	}
}

// first410 notes that the version expired. The pause must be short, unless another list did not help.
func (p *patient) first410() {
	if p.now.Sub(p.relisted) > HealthAfter+expiryAfter {
		p.reason = "a first 410"
	}
	p.relisted = p.now
}

// end treats the open watch as an end says.
func (p *patient) end(as string, dice float64) {
	p.reason = ""
	for _, event := range strings.Split(as, ", ") {
		switch event {
		case "3s":
			p.now = p.now.Add(3 * time.Second)
		case "1h":
			p.now = p.Alarm()
			p.take(Input{Kind: Elapsed}, dice)
		case "news":
			p.version++
			p.take(Input{Kind: Changed, Version: fmt.Sprint(p.version)}, dice)
			p.take(Input{Kind: Stored}, dice)
			p.obeyable, p.reason = 0, "news"
		case "end":
			p.take(Input{Kind: Ended}, dice)
		case "cut-off":
			p.take(Input{Kind: Ended, Err: scriptErrors[event]}, dice)
		case "expired":
			p.reason = ""
			p.first410()
			p.take(Input{Kind: Failed, Err: scriptErrors[event]}, dice)
		default:
			if p.obeyable++; p.obeyable <= maxObeyed {
				p.reason = "a Retry-After of a second"
			}
			p.take(Input{Kind: Failed, Err: scriptErrors[event]}, dice)
		}
	}
}

// TestLongestPause searches all conversations of up to five answers for the longest pause before
// the next request, for a reflector that draws the longest pause each time.
func TestLongestPause(t *testing.T) {
	const short = 1600 * time.Millisecond
	longest := map[string]time.Duration{}
	var visit func(p patient, left int)
	visit = func(p patient, left int) {
		for p.pending.Do == Wait || p.pending.Do == Delay {
			pause := p.pending.Pause
			longest[p.reason] = max(longest[p.reason], pause)
			if pause > MaxBackoff || p.reason != "" && pause > short {
				t.Fatalf("a pause of %v after %s:\n%s", pause, p.reason, strings.Join(p.path, "\n"))
			}
			p.now = p.now.Add(pause)
			p.take(Input{Kind: Elapsed}, 1)
		}
		if left == 0 {
			return
		}
		all, does := answers, (*patient).answer
		if p.pending.Do == Receive {
			all, does = ends, (*patient).end
		}
		for _, as := range all {
			next := p
			next.path = append(slices.Clip(p.path), as)
			does(&next, as, 1)
			visit(next, left-1)
		}
	}
	for _, o := range []Options{{}, {WatchLists: true}} {
		visit(*newPatient(o), 5)
		p := newPatient(o)
		p.path = []string{"a long outage"}
		if p.pending.Do == Receive {
			p.end("cut-off", 1)
		}
		for p.now.Before(time.Unix(1_000_300, 0)) {
			if p.pending.Do == Wait || p.pending.Do == Delay {
				p.now = p.now.Add(p.pending.Pause)
				p.take(Input{Kind: Elapsed}, 1)
				continue
			}
			p.answer("refused", 1)
		}
		visit(*p, 4)
	}
	t.Log(longest)
	assert.Equal(t, map[string]time.Duration{
		"": MaxBackoff, "news": short, "a first 410": short, "a Retry-After of a second": short,
	}, longest)
}

// TestAnObeyedRetryAfterBoundsLists refuses every watch after a list with a Retry-After of a second,
// as a server does whose watch cache stays behind the other servers.
func TestAnObeyedRetryAfterBoundsLists(t *testing.T) {
	for name, refusal := range map[string]error{
		"behind":     apierrors.NewTimeoutError("Too large resource version: 2, current: 1", 1),
		"not served": statusError(http.StatusNotFound, metav1.StatusReasonNotFound, "not found"),
	} {
		var status *apierrors.StatusError
		require.ErrorAs(t, refusal, &status)
		status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		p := newPatient(Options{})
		began := p.now
		for p.now.Sub(began) < 10*time.Minute {
			switch p.pending.Do {
			case Wait, Delay:
				p.now = p.now.Add(p.pending.Pause)
				p.take(Input{Kind: Elapsed}, 0.5)
			case AskWatch:
				p.take(Input{Kind: Failed, Err: refusal}, 0.5)
			default:
				p.answer("ok", 0.5)
			}
		}
		assert.LessOrEqual(t, p.lists, 70, name)
	}
}

// TestNoServerGetsRequestsWithoutEnd lets servers repeat what they do for ten minutes. A list
// may be large, so it must not be repeated like a watch.
func TestNoServerGetsRequestsWithoutEnd(t *testing.T) {
	const span, lists = 10 * time.Minute, 70
	random := rand.New(rand.NewPCG(1, 2))
	run := func(answers, ends []string) *patient {
		p := newPatient(Options{})
		began, asked, ended := p.now, 0, 0
		for p.now.Sub(began) < span {
			switch p.pending.Do {
			case Wait, Delay:
				p.now = p.now.Add(p.pending.Pause)
				p.take(Input{Kind: Elapsed}, random.Float64())
			case Receive:
				p.end(ends[ended%len(ends)], random.Float64())
				ended++
			default:
				p.answer(answers[asked%len(answers)], random.Float64())
				asked++
			}
			require.Less(t, p.requests, 10_000, "%v, %v", answers, ends)
		}
		return p
	}
	check := func(answers, ends []string, aSecond float64) {
		p := run(answers, ends)
		assert.LessOrEqual(t, float64(p.requests), aSecond*span.Seconds(), "%v, %v", answers, ends)
		assert.LessOrEqual(t, p.lists, lists, "%v, %v", answers, ends)
	}
	check([]string{"ok"}, []string{"news, end"}, 1)
	for i, a := range ends {
		for _, b := range ends[i:] {
			check([]string{"ok"}, []string{a, b}, 2)
		}
		for i, b := range answers {
			for _, c := range answers[i:] {
				check([]string{b, c}, []string{a}, 2)
			}
		}
	}
}

// A server that takes a watch-list for a plain watch may send additions for ever.
func TestWatchListWithoutEndIsGivenUp(t *testing.T) {
	p := &patient{State: New(Options{WatchLists: true}), now: time.Unix(1_000_000, 0), version: 10}
	p.take(Input{Kind: Started}, 1)
	began := p.now
	p.take(Input{Kind: Accepted, Lasts: MaxWatch}, 1)
	for p.pending.Do == Receive && p.now.Sub(began) < time.Hour {
		p.now = p.now.Add(bookmarkDeadline - time.Second)
		p.version++
		p.take(Input{Kind: Changed, Version: fmt.Sprint(p.version), Added: true}, 1)
	}
	assert.Equal(t, AskPage, p.pending.Do)
	assert.WithinRange(t, p.now, began.Add(maxListTime), began.Add(maxListTime+bookmarkDeadline))
}
