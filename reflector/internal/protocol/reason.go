package protocol

import (
	"cmp"
	"errors"
)

// ErrNotServed means that the server does not serve the resource (404).
var ErrNotServed = errors.New("server does not serve the resource: its CustomResourceDefinition or aggregated API may not be installed yet")

// Reason is a failure that the reflector detects itself: the server answered, but not as the
// protocol of list and watch requires, or it did not answer in time.
type Reason string

// The reasons: reflector.ProtocolError explains them.
const (
	NoResourceVersion  Reason = "NoResourceVersion"
	RepeatedPage       Reason = "RepeatedPage"
	EndlessList        Reason = "EndlessList"
	ShortWatch         Reason = "ShortWatch"
	StreamEnded        Reason = "StreamEnded"
	NoInitialEventsEnd Reason = "NoInitialEventsEnd"
	SilentWatch        Reason = "SilentWatch"
	NoAnswer           Reason = "NoAnswer"
	ServerBehind       Reason = "ServerBehind"
)

var sentences = map[Reason]string{
	NoResourceVersion:  "list has no resource version, although it must have one: something else than the server may have answered",
	RepeatedPage:       "list repeats its continue token and would never end",
	EndlessList:        "list does not end: its continue tokens may go on for ever",
	ShortWatch:         "watch ended too soon: a proxy, or the Timeout of the config, may end watches",
	StreamEnded:        "watch-list ended before all objects had come",
	NoInitialEventsEnd: "watch-list sent no closing bookmark in time: the server may not know watch-lists",
	SilentWatch:        "watch is overdue and silent: something may keep a dead connection open",
	NoAnswer:           "server did not answer in time",
	ServerBehind:       "server does not know what it sent before: it may have been restored from a backup",
}

// Error returns the reason as a sentence, with a likely cause. A Reason that this package does not
// have is its own text.
func (r Reason) Error() string { return cmp.Or(sentences[r], string(r)) }
