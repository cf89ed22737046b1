package record

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	recordingFormat  = "kubereflector recording"
	recordingVersion = 1
)

// heading is the first line of a recording.
type heading struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Reflector is the reflector's name. Resource is the name of the resource, if the client knows
	// it.
	Reflector string `json:"reflector"`
	Resource  string `json:"resource,omitempty"`
	// Type is the Go type of the objects, with its package's path.
	Type  string    `json:"type"`
	Began time.Time `json:"began"`
	// WatchList is true if the reflector asks for watch-lists.
	WatchList bool `json:"watchList"`
	Masked    bool `json:"masked"`
}

// frame is any line after the heading.
type frame struct {
	At   offset    `json:"at"`
	Kind frameKind `json:"frame"`
	// Options are the options of a request.
	Options *metav1.ListOptions `json:"options,omitempty"`
	// Probe is true for a list that is a probe of the server's version.
	Probe bool `json:"probe,omitempty"`
	// Type is the type of an event. It is empty if the event cannot be read, or if the watch broke.
	Type string `json:"type,omitempty"`
	// ResourceVersion is the version of a list, a bookmark, an event of other shards, or a store.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
	// InitialEventsEnd is true for the bookmark after the initial events of a watch-list.
	InitialEventsEnd bool `json:"initialEventsEnd,omitempty"`
	// More is true for an event that arrived together with the next one.
	More     bool              `json:"more,omitempty"`
	Object   json.RawMessage   `json:"object,omitempty"`
	Items    []json.RawMessage `json:"items,omitempty"`
	Rejected []rejectedFrame   `json:"lacking,omitempty"`
	Failure  *failureFrame     `json:"failure,omitempty"`
	// Cut is true if the failure only explains the end of the watch.
	Cut bool `json:"cut,omitempty"`
	// Sharded is true for a page that the server reports as limited to some shards.
	Sharded bool `json:"sharded,omitempty"`
	// Conflict is true for the page of a probe that contradicts earlier answers.
	Conflict bool `json:"conflict,omitempty"`
	// OutOfShard counts the objects of other shards that a page omits or an event replaces.
	OutOfShard int `json:"foreign,omitempty"`
}

// rejectedFrame is an object that could not be decoded.
type rejectedFrame struct {
	Namespace       string       `json:"namespace,omitempty"`
	Name            string       `json:"name,omitempty"`
	UID             string       `json:"uid,omitempty"`
	ResourceVersion string       `json:"resourceVersion,omitempty"`
	Failure         failureFrame `json:"failure"`
}

type frameKind string

const (
	frameRun     frameKind = "run"     // Run was called, over a store at a version
	frameList    frameKind = "list"    // the reflector requested a page of a list
	framePage    frameKind = "page"    // the server sent the page
	frameWatch   frameKind = "watch"   // the reflector requested a watch
	frameOpened  frameKind = "opened"  // the server accepted the watch
	frameFailed  frameKind = "failed"  // either request failed
	frameEvent   frameKind = "event"   // the watch delivered an event
	frameEnded   frameKind = "ended"   // the server closed the watch
	frameClosed  frameKind = "closed"  // the reflector closed the watch, or left a broken one
	frameStopped frameKind = "stopped" // Run returned
	frameLost    frameKind = "lost"    // the recording ended early
)

func (k frameKind) known() bool {
	switch k {
	case frameRun, frameList, framePage, frameWatch, frameOpened, frameFailed, frameEvent, frameEnded, frameClosed, frameStopped, frameLost:
		return true
	}
	return false
}

func (k frameKind) asks() bool { return k == frameList || k == frameWatch }

func (k frameKind) answers() bool { return k == framePage || k == frameOpened || k == frameFailed }

// passes reports whether the client produces a frame of this kind.
func (k frameKind) passes() bool { return k.answers() || k == frameEvent || k == frameEnded }

// offset is the time since the start of the recording, as text such as "1.5s".
type offset time.Duration

func (o offset) MarshalText() ([]byte, error) { return []byte(time.Duration(o).String()), nil }

func (o *offset) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*o = offset(d)
	return err
}
