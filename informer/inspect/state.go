package inspect

import (
	"time"

	"github.com/kubereflector/kubereflector/informer"
)

// State is all that the overview shows.
type State struct {
	// At is when it was looked at.
	At        time.Time  `json:"at"`
	Informers []Informer `json:"informers"`
	Members   []Member   `json:"members,omitempty"`
}

// Member is what was shown with [Page.AddMember].
type Member struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Reason is why it is not ready.
	Reason string `json:"reason,omitempty"`
	// Facts are what else it tells of itself: see [informer.Describer].
	Facts []informer.Fact `json:"facts,omitempty"`
}

// Informer is the state of one informer.
type Informer struct {
	// ID is the informer's name, or a different one if there are several of that name.
	ID string `json:"id"`
	// Type is the Go type of the objects.
	Type string `json:"type"`
	// Synced is true once the cache has been filled. Ready is true while it can be relied
	// on, and Reason is why not.
	Synced bool   `json:"synced"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`

	// Objects is the number of objects in the cache, and ResourceVersion its version.
	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Bytes is about how long the objects are as JSON: the mean of some, times all.
	Bytes int64 `json:"bytes"`

	// Changes is the number of changes since the informer was shown, and Rate that of a
	// second, as the mean of the last ten.
	Changes uint64  `json:"changes"`
	Rate    float64 `json:"rate"`
	// Last are the last changes, the newest first.
	Last []Change `json:"last"`

	// Reflectors are what fills the cache: one, or one for each scope.
	Reflectors  []Reflector  `json:"reflectors"`
	Subscribers []Subscriber `json:"subscribers"`
}

// Change is something that happened to an object of a cache.
type Change struct {
	At time.Time `json:"at"`
	// Type is Addition, Modification or Deletion, and Origin where the news is from.
	Type   string `json:"type"`
	Origin string `json:"origin"`
	Key    string `json:"key"`
	// ResourceVersion and UID are those of the object after the change.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	UID             string `json:"uid,omitempty"`
	// Initial is true for what existed before anybody looked, and FinalStateKnown for
	// deletions that were reported with the last state.
	Initial         bool `json:"initial,omitempty"`
	FinalStateKnown bool `json:"finalStateKnown,omitempty"`

	where key
}

// Reflector is the state of one reflector.
type Reflector struct {
	// Scope is what the reflector fills; empty unless the informer has scopes.
	Scope string `json:"scope,omitempty"`
	// Sharding is who leaves out what is in other shards; empty unless it has shards.
	Sharding string `json:"sharding,omitempty"`
	// Phase is what it does, and Since when it began.
	Phase string    `json:"phase"`
	Since time.Time `json:"since"`
	// Synced is true once it has filled its scope.
	Synced bool `json:"synced"`
	// Contact is when the server was last heard of.
	Contact time.Time `json:"contact,omitzero"`
	// Broken is since when there has been no watch.
	Broken time.Time `json:"broken,omitzero"`
	// Error is what failed last, Attempt how often in a row, and RetryAt when it is tried
	// again.
	Error   string    `json:"error,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	RetryAt time.Time `json:"retryAt,omitzero"`
}

// Subscriber is the state of the event queues of one subscriber. The numbers are those
// of eventqueue.Stats.
type Subscriber struct {
	Name   string `json:"name"`
	Synced bool   `json:"synced"`

	Keys    int `json:"keys"`
	Waiting int `json:"waiting"`
	Delayed int `json:"delayed"`
	Out     int `json:"out"`
	Events  int `json:"events"`
	// OldestSeconds is the age of the oldest event.
	OldestSeconds float64 `json:"oldestSeconds"`

	Merged  uint64 `json:"merged"`
	Dropped uint64 `json:"dropped"`
	Retries uint64 `json:"retries"`
	Panics  uint64 `json:"panics"`
	GivenUp uint64 `json:"givenUp"`

	// Queues are the oldest of the queues that wait or are out.
	Queues []Queue `json:"queues,omitempty"`
}

// Queue is the event queue of one object.
type Queue struct {
	// Subscriber is whose it is; empty where that is clear.
	Subscriber string  `json:"subscriber,omitempty"`
	Key        string  `json:"key"`
	Events     int     `json:"events"`
	AgeSeconds float64 `json:"ageSeconds"`
	// Out is true while it is being handled.
	Out bool `json:"out,omitempty"`
	// Failures counts how often it was handled in vain, Error is what came of it last, and
	// RetryInSeconds what is left of the back-off.
	Failures       int     `json:"failures,omitempty"`
	Error          string  `json:"error,omitempty"`
	RetryInSeconds float64 `json:"retryInSeconds,omitempty"`

	where key
}

// ObjectState is all that is known of one object.
type ObjectState struct {
	Informer string `json:"informer"`
	Key      string `json:"key"`
	// YAML is the object with what is secret masked; empty if the cache does not hold
	// it. Error is why it cannot be shown.
	YAML  string `json:"yaml,omitempty"`
	Error string `json:"error,omitempty"`
	// Queues are what waits for it or is out at the subscribers, as far as it is among
	// the thousand oldest.
	Queues []Queue `json:"queues"`
	// Changes are its last changes, the newest first, as far as they are remembered.
	Changes []Change `json:"changes"`
}
