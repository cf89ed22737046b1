package protocol

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var update = flag.Bool("update", false, "write what the protocol does into the scripts; read the difference before you keep it")

// TestScripts plays the scripts of testdata/scripts: see the README there.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			played, err := play(string(text))
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o600))
				return
			}
			assert.Equal(t, string(text), played)
		})
	}
}

// play returns a script with the actions that its inputs lead to.
func play(script string) (string, error) {
	p := New(Options{PageSize: 500})
	began := time.Unix(1_000_000, 0)
	now := began
	var out []string
	for n, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, ">"):
			continue // comes anew from the protocol
		case len(words) == 0 || words[0] == "#":
		case words[0] == "with":
			for _, word := range words[1:] {
				switch name, value, _ := strings.Cut(word, "="); name {
				case "watch-lists":
					p.WatchLists = true
				case "version":
					p.AsksVersion = true
				case "pagesize":
					p.PageSize, _ = strconv.ParseInt(value, 10, 64)
					p.AlwaysPage = true
				default:
					return "", fmt.Errorf("line %d: unknown setting %q", n+1, word)
				}
			}
		default:
			if after, ok := strings.CutPrefix(words[0], "+"); ok {
				d, err := time.ParseDuration(after)
				if err != nil {
					return "", fmt.Errorf("line %d: %w", n+1, err)
				}
				now, words = now.Add(d), words[1:]
			}
			in, err := parseInput(words)
			if err != nil {
				return "", fmt.Errorf("line %d: %w", n+1, err)
			}
			in.At, in.Dice = now, 1
			var todo []Action
			p, todo = p.Step(in)
			out = append(out, line)
			for _, a := range todo {
				out = append(out, ">  "+describe(p, a, now))
			}
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n", nil
}

func parseInput(words []string) (Input, error) {
	var in Input
	argument := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	version := argument(1)
	if version == "-" {
		version = ""
	}
	switch words[0] {
	case "start":
		in = Input{Kind: Started, Version: version}
	case "page":
		in = Input{Kind: Answered, Version: version, Next: strings.TrimPrefix(argument(2), "next=")}
		if argument(2) == "conflict" {
			in.Next, in.Conflict = "", true
		}
	case "opened":
		in = Input{Kind: Accepted}
		in.Lasts, _ = time.ParseDuration(argument(1))
	case "event":
		in = Input{Kind: Changed, Version: version, Added: argument(2) != "update", Changes: 1}
		if many, err := strconv.Atoi(argument(2)); err == nil {
			in.Changes = many
		}
	case "bookmark":
		in = Input{Kind: Marked, Version: version, Closing: argument(2) == "closing"}
	case "stored":
		in = Input{Kind: Stored}
		if argument(1) != "" {
			in.Err = scriptErrors[argument(1)]
		}
	case "fail":
		in = Input{Kind: Failed, Err: scriptErrors[argument(1)]}
		if in.Err == nil {
			return in, fmt.Errorf("unknown error %q", argument(1))
		}
	case "version":
		in = Input{Kind: VersionKnown, Consistent: argument(1) == "consistent", Unanswered: argument(1) == "nothing"}
	case "end":
		in = Input{Kind: Ended, Err: scriptErrors[argument(1)]}
	case "elapsed":
		in = Input{Kind: Elapsed}
	default:
		return in, fmt.Errorf("unknown input %q", words[0])
	}
	return in, nil
}

func statusError(code int32, reason metav1.StatusReason, message string, cause ...metav1.StatusCause) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	if len(cause) > 0 {
		status.Details = &metav1.StatusDetails{Causes: cause}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// retryable adds a Retry-After to an error.
func retryable(err *apierrors.StatusError, seconds int32) error {
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
	return err
}

// scriptErrors are the errors by the names that scripts give them. The three "ahead"
// are the ways in which servers have said that a version is too large.
var scriptErrors = map[string]error{
	"expired":        apierrors.NewResourceExpired("expired"),
	"gone":           statusError(http.StatusGone, metav1.StatusReasonGone, "gone"),
	"ahead":          statusError(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Timeout: Too large resource version: 2, current: 1", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge}),
	"ahead-cause":    statusError(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Timeout", metav1.StatusCause{Message: "Too large resource version"}),
	"ahead-message":  statusError(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Timeout: Too large resource version: 2, current: 1"),
	"busy":           apierrors.NewTooManyRequests("busy", 0),
	"busy-1s":        apierrors.NewTooManyRequests("busy", 1),
	"busy-20s":       apierrors.NewTooManyRequests("busy", 20),
	"busy-1d":        apierrors.NewTooManyRequests("busy", 86400),
	"unavailable-1s": retryable(apierrors.NewServiceUnavailable("unavailable"), 1),
	"refused":        syscall.ECONNREFUSED,
	"internal":       apierrors.NewInternalError(errors.New("internal")),
	"unreadable":     statusError(http.StatusInternalServerError, metav1.StatusReasonStoreReadError, "unreadable"),
	"invalid":        apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil),
	"bad":            apierrors.NewBadRequest("bad"),
	"forbidden":      apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil),
	"absent":         statusError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"),
	"unsupported":    apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, "watch"),
	"type":           errors.New("event carries a *v1.Service, want a *v1.Pod"),
	"rejected":       &store.RejectedError{Rejections: []store.Rejection{{Err: store.ErrBadKey}}},
	"broken":         errors.New("broken"),
	"undecoded":      statusError(http.StatusInternalServerError, metav1.StatusReasonInternalError, "unable to decode", metav1.StatusCause{Type: "ClientWatchDecoding"}),
	"busy-for-ever":  apierrors.NewTooManyRequests("busy", 1_000_000_000),
	"cut-off":        errors.New("response ended early"),
	"over-budget":    store.ErrOverBudget,

	"no-version":    NoResourceVersion,
	"behind":        ServerBehind,
	"repeated-page": RepeatedPage,
	"endless-list":  EndlessList,
	"short-watch":   ShortWatch,
	"stream-ended":  StreamEnded,
	"stream-silent": NoInitialEventsEnd,
	"silent":        SilentWatch,
	"no-answer":     NoAnswer,
}

func errorName(err error) string {
	for name, e := range scriptErrors {
		if errors.Is(err, e) && fmt.Sprintf("%p", err) == fmt.Sprintf("%p", e) {
			return name
		}
	}
	return fmt.Sprintf("%q", err)
}

func describe(p State, a Action, now time.Time) string {
	version := a.Version
	if version == "" {
		version = "newest"
	}
	switch a.Do {
	case AskPage:
		text := "list"
		if a.Next == "" {
			text += " " + version
		}
		if a.Limit != 0 {
			text += fmt.Sprintf(" limit=%d", a.Limit)
		}
		if a.Next != "" {
			text += " continue=" + a.Next
		}
		return text
	case AskWatch:
		return "watch " + version
	case AskWatchList:
		return "watch-list " + version
	case AskVersion:
		return "version?"
	case Receive:
		if at := p.Alarm(); at != p.late() {
			return fmt.Sprintf("receive, alarm in %v", at.Sub(now))
		}
		return "receive"
	case Replace:
		return "replace " + version
	case Wait:
		return fmt.Sprintf("report %s of %s, attempt %d, wait %v", errorName(a.Err), a.Op, a.Attempt, a.Pause)
	case Delay:
		return fmt.Sprintf("pause %v", a.Pause)
	case WatchListsOff:
		return "watch-lists off: " + errorName(a.Err)
	case Report:
		return fmt.Sprintf("report %s of %s", errorName(a.Err), a.Op)
	case ReportRejected:
		return "rejection: " + errorName(a.Err)
	}
	return map[ActionKind]string{
		Apply: "apply", Discard: "discard", Stage: "stage",
		StopWatch: "stop", MarkSynced: "synced", WatchListsBack: "watch-lists on",
	}[a.Do]
}

func TestBackoffGrowsThroughALongOutage(t *testing.T) {
	// client-go's falls back to its shortest wait every few minutes.
	b := backoff{limit: MaxBackoff}
	now := time.Unix(0, 0)
	b.healthy(now)
	for i := range 200 {
		d := b.next(now, rand.Float64())
		assert.GreaterOrEqual(t, d, MinBackoff)
		assert.LessOrEqual(t, d, min(MinBackoff<<min(i+1, 10), MaxBackoff))
		now = now.Add(d)
		if i%10 == 0 {
			b.healthy(now) // for a moment
		}
	}
	assert.Equal(t, 200, b.failures)
	b.healthy(now)
	b.next(now.Add(HealthAfter), 0)
	assert.Equal(t, 1, b.failures, "two minutes of health")
}

func TestClassOfNoErrorCostsNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if Classify(nil) != Other {
			t.Error("it is not Other")
		}
	}))
}

func TestRejectedUnlessTheStoreFailed(t *testing.T) {
	rejected := &store.RejectedError{Rejections: []store.Rejection{{Err: store.ErrBadKey}}}
	failure := errors.New("disk full")
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"a rejection":                 {rejected, true},
		"a rejection, wrapped":        {fmt.Errorf("list: %w", fmt.Errorf("mine: %w", rejected)), true},
		"two rejections":              {errors.Join(rejected, fmt.Errorf("mine: %w", rejected)), true},
		"a failure":                   {failure, false},
		"a failure, wrapped":          {fmt.Errorf("list: %w", failure), false},
		"a rejection and a failure":   {errors.Join(rejected, failure), false},
		"a failure in a join of join": {errors.Join(rejected, errors.Join(rejected, fmt.Errorf("mine: %w", failure))), false},
		"a wrapper of nothing":        {emptyWrapper{}, false},
		"a join of nothing":           {emptyJoin{}, false},
	} {
		assert.Equal(t, tt.want, Rejected(tt.err), name)
	}
}

// emptyWrapper wraps no error.
type emptyWrapper struct{}

func (emptyWrapper) Error() string { return "empty" }
func (emptyWrapper) Unwrap() error { return nil }

// emptyJoin joins no errors.
type emptyJoin struct{}

func (emptyJoin) Error() string   { return "empty" }
func (emptyJoin) Unwrap() []error { return nil }
