package record

import (
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// DifferenceError means that a reflector sent a request to a [Replay] that differs from the next
// request of the recording.
type DifferenceError struct {
	// Line is the line of the request in the recording, from 1. It is 0 after the end of the
	// recording.
	Line int
	// Asked describes the reflector's request, and Recorded the recorded one.
	Asked, Recorded string
	// Err is [ErrReplayEnded], or nil.
	Err error
}

// Error names both requests and the line.
func (e *DifferenceError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("replay: %s was asked for: %v", e.Asked, e.Err)
	}
	return fmt.Sprintf("replay differs from line %d of the recording: %s was asked for, and then it was %s", e.Line, e.Asked, e.Recorded)
}

// Unwrap returns Err.
func (e *DifferenceError) Unwrap() error { return e.Err }

// request is a reflector's request.
type request struct {
	verb  frameKind
	opts  metav1.ListOptions
	probe bool
}

// compare returns nil if the recorded answer fits the request, and a [*DifferenceError] otherwise.
func (r request) compare(recorded, answer *line) error {
	then := recorded.Options
	// If the recorded response has all objects, the reflector may use a part of them.
	part := then.ShardSelector == "" || r.probe || r.opts.ShardSelector == then.ShardSelector
	same := r.verb == recorded.Kind && part &&
		r.opts.LabelSelector == then.LabelSelector && (r.probe || r.opts.FieldSelector == then.FieldSelector) &&
		initial(&r.opts) == initial(then) && r.opts.Continue == then.Continue &&
		(r.probe || r.opts.ResourceVersion == then.ResourceVersion || r.served(then, answer))
	if same {
		return nil
	}
	return &DifferenceError{Line: recorded.number, Asked: inWords(r.verb, &r.opts), Recorded: inWords(recorded.Kind, then)}
}

// served reports whether the answer to a request at another version fits. A plain watch fits only
// at the same version.
func (r request) served(then *metav1.ListOptions, answer *line) bool {
	if answer == nil || answer.refused() || r.verb == frameWatch && !initial(&r.opts) {
		return false
	}
	oldest := then.ResourceVersion // the oldest version of a watch-list's objects
	if answer.Kind == framePage {
		oldest = answer.ResourceVersion
	}
	if version := r.opts.ResourceVersion; version != "" && version != "0" && answer.Kind != frameFailed {
		order, err := resourceversion.CompareResourceVersion(version, oldest)
		return err == nil && order <= 0
	}
	return true
}

// refused reports whether the server rejected the request's resource version.
func (l *line) refused() bool {
	if l.Kind != frameFailed {
		return false
	}
	switch protocol.Classify(l.Failure.err()) {
	case protocol.Expired, protocol.Ahead, protocol.Invalid:
		return true
	}
	return false
}

func initial(opts *metav1.ListOptions) bool {
	return opts.SendInitialEvents != nil && *opts.SendInitialEvents
}

// inWords describes a request.
func inWords(verb frameKind, opts *metav1.ListOptions) string {
	text := "a list"
	switch {
	case verb == frameWatch && initial(opts):
		text = "a watch-list"
	case verb == frameWatch:
		text = "a watch"
	case opts.Continue != "":
		text = fmt.Sprintf("the page %q of a list", opts.Continue)
	}
	var details []string
	if opts.ResourceVersion != "" {
		details = append(details, fmt.Sprintf("at resource version %q", opts.ResourceVersion))
	}
	if opts.LabelSelector != "" {
		details = append(details, fmt.Sprintf("with labels %q", opts.LabelSelector))
	}
	if opts.FieldSelector != "" {
		details = append(details, fmt.Sprintf("with fields %q", opts.FieldSelector))
	}
	if opts.ShardSelector != "" {
		details = append(details, fmt.Sprintf("of shards %q", opts.ShardSelector))
	}
	return strings.Join(append([]string{text}, details...), " ")
}
