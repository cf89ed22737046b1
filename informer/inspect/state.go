package inspect

import (
	"time"

	"github.com/kubereflector/kubereflector/reflector"
)

// State holds everything that the overview shows.
type State struct {
	// At is the time of this view.
	At        time.Time  `json:"at"`
	Informers []Informer `json:"informers"`
	Runnables []Runnable `json:"runnables,omitempty"`
}

// Runnable is what [Page.AddRunnable] shows: a part of the program that is no informer.
type Runnable struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Reason is why the runnable is not ready.
	Reason string `json:"reason,omitempty"`
	// StatusItems are the facts of a [StatusReporter].
	StatusItems []StatusItem `json:"facts,omitempty"`
}

// StatusItem is a detail that a runnable shows about itself, for people to read.
type StatusItem struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// StatusReporter is a runnable that shows more about itself than its readiness, such as its shards.
// StatusItems returns names and values. It may be called from any goroutine, and must be quick.
type StatusReporter interface {
	StatusItems() [][2]string
}

// Informer is the state of one informer.
type Informer struct {
	// ID is the informer's name, or a different one if there are several of that name.
	ID string `json:"id"`
	// Type is the Go type of the objects.
	Type string `json:"type"`
	// Synced is true once the cache has been filled. Ready is true while a program can rely on the
	// cache. Reason says why it is not ready.
	Synced bool   `json:"synced"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// StaleSeconds is the time since which a synced informer has no watch. The cache may lack the
	// changes of that time. It is 0 while there is a watch.
	StaleSeconds float64 `json:"staleSeconds,omitempty"`

	// Objects is the number of objects in the cache, and ResourceVersion its version.
	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Bytes estimates the size of all objects as JSON, from the mean of some objects.
	Bytes int64 `json:"bytes"`

	// Changes is the number of changes since the informer was added to the page. Rate is the number
	// of changes in a second, averaged over the last ten seconds.
	Changes uint64  `json:"changes"`
	Rate    float64 `json:"rate"`
	// Last are the last changes, the newest first.
	Last []Change `json:"last"`
	// Flowing is true while a reflector has a watch and the last change is less than three seconds
	// old.
	Flowing bool `json:"flowing"`

	// Reflectors fill the cache: one, or one for each scope.
	Reflectors  []Reflector  `json:"reflectors"`
	Subscribers []Subscriber `json:"subscribers"`
}

// Change is a change of an object in a cache.
type Change struct {
	At time.Time `json:"at"`
	// Type is Addition, Modification or Deletion. Origin is the source of the event.
	Type   string `json:"type"`
	Origin string `json:"origin"`
	Key    string `json:"key"`
	// ResourceVersion and UID belong to the object after the change.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	UID             string `json:"uid,omitempty"`
	// Initial is true for objects that existed at the start. FinalStateKnown is true for deletions
	// with the last state.
	Initial         bool `json:"initial,omitempty"`
	FinalStateKnown bool `json:"finalStateKnown,omitempty"`

	// Compared is true if the page still has the object before and after the change, and this is
	// the change of an [ObjectState]. Fields are then the fields that differ.
	Compared bool          `json:"compared,omitempty"`
	Fields   []FieldChange `json:"fields,omitempty"`

	where key
}

// FieldChange is a field that differs between two versions of an object.
type FieldChange struct {
	// Path is the path of the field, such as spec.containers[0].image.
	Path string `json:"path"`
	// Before and After are the values as JSON with masked secrets. A missing value is empty.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Reflector is the state of one reflector.
type Reflector struct {
	// Scope is the scope that the reflector fills; empty unless the informer has several.
	Scope string `json:"scope,omitempty"`
	// Sharding says which side filters out objects of other shards; empty without shards.
	Sharding string `json:"sharding,omitempty"`
	// Phase is the current phase of the reflector, and Since its start.
	Phase string    `json:"phase"`
	Since time.Time `json:"since"`
	// Synced is true once it has filled its scope.
	Synced bool `json:"synced"`
	// LastContact is the time of the last contact with the server.
	LastContact time.Time `json:"contact,omitzero"`
	// Broken is the time since which there is no watch.
	Broken time.Time `json:"broken,omitzero"`
	// Error is the failure that the reflector has not overcome yet, Attempt the number of failures
	// in a row, and NextRetry the time of the next attempt.
	Error     string    `json:"error,omitempty"`
	Attempt   int       `json:"attempt,omitempty"`
	NextRetry time.Time `json:"retryAt,omitzero"`
	// LastError is the last failure, and LastErrorAt its time. They stay after a recovery.
	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
}

// Subscriber is the state of the event queues of one subscriber. The numbers come from
// eventqueue.Stats.
type Subscriber struct {
	Name   string `json:"name"`
	Synced bool   `json:"synced"`

	Keys     int `json:"keys"`
	Waiting  int `json:"waiting"`
	Delayed  int `json:"delayed"`
	InFlight int `json:"inFlight"`
	Events   int `json:"events"`
	// OldestSeconds is the age of the oldest event.
	OldestSeconds float64 `json:"oldestSeconds"`

	Merged  uint64 `json:"merged"`
	Dropped uint64 `json:"dropped"`
	Retries uint64 `json:"retries"`
	Panics  uint64 `json:"panics"`
	GivenUp uint64 `json:"givenUp"`

	// Queues are the oldest of the queues that wait or are being handled.
	Queues []Queue `json:"queues,omitempty"`
}

// Queue is the event queue of one object.
type Queue struct {
	// Subscriber is the name of the queue's subscriber; empty if the context shows it.
	Subscriber string  `json:"subscriber,omitempty"`
	Key        string  `json:"key"`
	Events     int     `json:"events"`
	AgeSeconds float64 `json:"ageSeconds"`
	// InFlight is true while a handler has the queue.
	InFlight bool `json:"inFlight,omitempty"`
	// Failures counts the failed attempts, Error is the last failure, and RetryInSeconds is the
	// rest of the back-off.
	Failures       int     `json:"failures,omitempty"`
	Error          string  `json:"error,omitempty"`
	RetryInSeconds float64 `json:"retryInSeconds,omitempty"`

	where key
}

// ObjectState has all information about one object.
type ObjectState struct {
	Informer string `json:"informer"`
	Key      string `json:"key"`
	// YAML is the object with masked secrets; empty if the cache does not hold it. Error says why
	// it cannot be shown.
	YAML  string `json:"yaml,omitempty"`
	Error string `json:"error,omitempty"`
	// Queues are the object's queues at the subscribers, if they are among the thousand oldest.
	Queues []Queue `json:"queues"`
	// Changes are the object's remembered changes, the newest first.
	Changes []Change `json:"changes"`
}

// pipeline is the picture of an informer: API server, reflector, cache, and a lane for each
// subscriber.
type pipeline struct {
	Informer
	// Phase is the phase of the reflector in the worst state.
	Phase string
	// Broken is true if a reflector that had filled its scope has no watch, or waits or stopped.
	Broken bool
	Lanes  []lane
	More   int // subscribers without a lane
}

// lane is the way from the cache to one subscriber.
type lane struct {
	Subscriber
	Fill    int // width of the bar that shows the number of queued keys
	Stalled bool
}

const (
	maxLanes = 8
	barWidth = 150
	// stalledAfter is the age of the oldest event of a stalled subscriber, in seconds.
	stalledAfter = 5
)

// newPipeline returns the picture of an informer.
func newPipeline(i Informer) pipeline {
	p := pipeline{Informer: i}
	shown := min(len(i.Subscribers), maxLanes)
	p.More = len(i.Subscribers) - shown
	for _, s := range i.Subscribers[:shown] {
		p.Lanes = append(p.Lanes, lane{Subscriber: s, Fill: fill(s.Keys, i.Objects), Stalled: s.OldestSeconds > stalledAfter})
	}
	for _, r := range i.Reflectors {
		broken := r.Phase == string(reflector.BackingOff) || r.Phase == string(reflector.Stopped) || r.Synced && !r.Broken.IsZero()
		if p.Phase == "" || broken && !p.Broken {
			p.Phase, p.Broken = r.Phase, broken
		}
	}
	return p
}

// fill returns the width of the bar: full if every object waits, and at least visible if one waits.
func fill(keys, objects int) int {
	if keys == 0 {
		return 0
	}
	return max(min(barWidth*keys/max(objects, 1), barWidth), 4)
}

// badge is the state of an informer or a runnable in a few words.
type badge struct{ Class, Text string }

// informerBadge returns the badge of an informer, such as "ready, stale for 6 s".
func informerBadge(i Informer) badge {
	b := runnableBadge(i.Ready)
	if i.StaleSeconds >= 1 {
		b.Text += ", stale for " + age(i.StaleSeconds)
		if i.Ready {
			b.Class = "stale"
		}
	}
	return b
}

func runnableBadge(ready bool) badge {
	if ready {
		return badge{"ready", "ready"}
	}
	return badge{"not", "not ready"}
}
