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

// The reasons.
const (
	// NoResourceVersion means that a list has no resource version although one had some minutes ago, that
	// a watch-list has none, or that the answer is no list.
	NoResourceVersion Reason = "NoResourceVersion"
	// RepeatedPage means that a continue token repeats.
	RepeatedPage Reason = "RepeatedPage"
	// EndlessList means that a list has more pages than any server has objects, or that its pages
	// arrived for half an hour.
	EndlessList Reason = "EndlessList"
	// ShortWatch means that the server ended a watch within a second without a new event, or two
	// watches in a row within ten seconds each, with few changes.
	ShortWatch Reason = "ShortWatch"
	// StreamEnded means that a watch-list ended before the server had sent all objects.
	StreamEnded Reason = "StreamEnded"
	// NoInitialEventsEnd means that a watch-list sent no closing bookmark.
	NoInitialEventsEnd Reason = "NoInitialEventsEnd"
	// SilentWatch means that a watch lasted longer than the reflector requested, and was silent for
	// two minutes.
	SilentWatch Reason = "SilentWatch"
	// NoAnswer means that the server did not answer in time.
	NoAnswer Reason = "NoAnswer"
	// ServerBehind means that the server is at an older resource version than before, or that an
	// object differs although it is no newer.
	ServerBehind Reason = "ServerBehind"
)

var sentences = map[Reason]string{
	NoResourceVersion:  "list has no resource version, although it must have one: something else than the server may have answered",
	RepeatedPage:       "list repeats its continue token and would never end",
	EndlessList:        "list does not end: its continue tokens may go on for ever",
	ShortWatch:         "watch ended too soon: a proxy, or the Timeout of the config, may end watches",
	StreamEnded:        "watch-list ended before all objects had come",
	NoInitialEventsEnd: "watch-list fell silent before its closing bookmark",
	SilentWatch:        "watch is overdue and silent: something may keep a dead connection open",
	NoAnswer:           "server did not answer in time",
	ServerBehind:       "server does not know what it sent before: it may have been restored from a backup",
}

// Error returns the reason as a sentence, with a likely cause. A Reason that this package does not
// have is its own text.
func (r Reason) Error() string { return cmp.Or(sentences[r], string(r)) }
