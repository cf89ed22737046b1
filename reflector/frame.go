package reflector

import (
	"encoding/json"
	"time"

	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	recordingFormat  = "kubereflector recording"
	recordingVersion = 1
)

// heading is the first line of a recording.
type heading struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Reflector is the reflector's name, and Resource that of the resource, if the client
	// says it.
	Reflector string `json:"reflector"`
	Resource  string `json:"resource,omitempty"`
	// Type is the Go type of the objects, with its package's path.
	Type  string    `json:"type"`
	Began time.Time `json:"began"`
	// WatchList is true if the reflector asks for watch-lists.
	WatchList bool `json:"watchList"`
	Masked    bool `json:"masked"`
}

// frame is any other line.
type frame struct {
	At   offset    `json:"at"`
	Kind frameKind `json:"frame"`
	// Options are those of a request.
	Options *metav1.ListOptions `json:"options,omitempty"`
	// Probe is true for a list that only asks how far the server is.
	Probe bool `json:"probe,omitempty"`
	// Type is that of an event; empty if what the watch brought cannot be read, or it broke.
	Type string `json:"type,omitempty"`
	// ResourceVersion is that of a list, a bookmark, or a store.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
	// InitialEventsEnd is true for the bookmark behind the first objects of a watch-list.
	InitialEventsEnd bool `json:"initialEventsEnd,omitempty"`
	// More is true for an event that came together with the next one.
	More    bool              `json:"more,omitempty"`
	Object  json.RawMessage   `json:"object,omitempty"`
	Items   []json.RawMessage `json:"items,omitempty"`
	Lacking []lackingFrame    `json:"lacking,omitempty"`
	Failure *failureFrame     `json:"failure,omitempty"`
	// Cut is true if the failure is only why the watch ended.
	Cut bool `json:"cut,omitempty"`
	// Sharded is true for a page of which the server says that it is of some shards alone.
	Sharded bool `json:"sharded,omitempty"`
	// Conflict is true for the page of a probe that contradicts what came before.
	Conflict bool `json:"conflict,omitempty"`
	// Foreign is how many objects of other shards were left out of a page, or an event stands
	// for, and Departed the one that may have been in the reflector's.
	Foreign  int            `json:"foreign,omitempty"`
	Departed *departedFrame `json:"departed,omitempty"`
}

// departedFrame is an object that is not in the reflector's shards any more.
type departedFrame struct {
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Gone            bool   `json:"gone,omitempty"`
}

func departedFrameOf(d *departure) *departedFrame {
	if d == nil {
		return nil
	}
	return &departedFrame{
		Namespace: d.key.Namespace, Name: d.key.Name,
		UID: string(d.version.UID), ResourceVersion: d.version.ResourceVersion, Gone: d.gone,
	}
}

func (f *departedFrame) departure() *departure {
	if f == nil {
		return nil
	}
	return &departure{
		key:     store.Key{Namespace: f.Namespace, Name: f.Name},
		version: store.Version{UID: types.UID(f.UID), ResourceVersion: f.ResourceVersion}, gone: f.Gone,
	}
}

// lackingFrame is an object that could not be decoded.
type lackingFrame struct {
	Namespace       string       `json:"namespace,omitempty"`
	Name            string       `json:"name,omitempty"`
	UID             string       `json:"uid,omitempty"`
	ResourceVersion string       `json:"resourceVersion,omitempty"`
	Failure         failureFrame `json:"failure"`
}

type frameKind string

const (
	frameRun     frameKind = "run"     // Run was called, over a store at a version
	frameList    frameKind = "list"    // a page of a list was asked for
	framePage    frameKind = "page"    // it came
	frameWatch   frameKind = "watch"   // a watch was asked for
	frameOpened  frameKind = "opened"  // it was accepted
	frameFailed  frameKind = "failed"  // either failed
	frameEvent   frameKind = "event"   // the watch brought something
	frameEnded   frameKind = "ended"   // the server closed it
	frameClosed  frameKind = "closed"  // the reflector did, or a broken one was left
	frameStopped frameKind = "stopped" // Run returned
	frameLost    frameKind = "lost"    // nothing more was recorded
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

// passes reports whether a frame is something that a client gives.
func (k frameKind) passes() bool { return k.answers() || k == frameEvent || k == frameEnded }

// offset is the time since a recording began, written as in "1.5s".
type offset time.Duration

func (o offset) MarshalText() ([]byte, error) { return []byte(time.Duration(o).String()), nil }

func (o *offset) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*o = offset(d)
	return err
}
