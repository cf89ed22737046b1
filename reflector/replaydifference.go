package reflector

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// DifferenceError means that a reflector asked a [Replay] for something that the recording does
// not have next.
type DifferenceError struct {
	// Line is that of the request in the recording, from 1; 0 if there is none any more.
	Line int
	// Asked and Recorded are the two requests, in words.
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

// request is what a reflector asks for.
type request struct {
	verb  frameKind
	opts  metav1.ListOptions
	probe bool
}

// compare says whether an answer is one to a request: nil if it is.
func (r request) compare(recorded, answer *line) error {
	then := recorded.Options
	// Who was sent everything, may take a part of it.
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

// served reports whether what was answered to a request at another version will do. A plain
// watch says what happened since the very version.
func (r request) served(then *metav1.ListOptions, answer *line) bool {
	if answer == nil || answer.refused() || r.verb == frameWatch && !initial(&r.opts) {
		return false
	}
	oldest := then.ResourceVersion // of what a watch-list brings
	if answer.Kind == framePage {
		oldest = answer.ResourceVersion
	}
	if version := r.opts.ResourceVersion; version != "" && version != "0" && answer.Kind != frameFailed {
		order, err := resourceversion.CompareResourceVersion(version, oldest)
		return err == nil && order <= 0
	}
	return true
}

// refused reports whether a request failed over its version.
func (l *line) refused() bool { return l.Kind == frameFailed && refused(l.Failure.err()) }

func initial(opts *metav1.ListOptions) bool {
	return opts.SendInitialEvents != nil && *opts.SendInitialEvents
}

// inWords names a request.
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
