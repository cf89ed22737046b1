package otel

import (
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxNamed is the largest number of cached subscribers. A program that names each subscription
// differently rebuilds the cache.
const maxNamed = 256

// calls caches the common parts of the spans of an informer's subscribers. It may be used from any
// goroutine.
type calls struct {
	informer string

	// mu protects known, which has the names of subscribers as keys.
	mu    sync.RWMutex
	known map[string]*named
}

// named has the common parts of the spans of one subscriber. It is immutable.
type named struct {
	since         time.Time // of the last subscription of that name; zero if it is unknown
	handle, queue string    // the names of the spans
	attributes    trace.SpanStartEventOption
	options       []trace.SpanStartOption // for spans of calls
}

// of returns the common parts of the spans of a subscriber.
func (c *calls) of(subscriber string) *named {
	c.mu.RLock()
	n := c.known[subscriber]
	c.mu.RUnlock()
	if n == nil {
		n = c.add(subscriber, time.Time{})
	}
	return n
}

// begin notes that a subscription begins.
func (c *calls) begin(subscriber string) { c.add(subscriber, time.Now()) }

// add adds a subscriber. Without a time, it keeps one that another goroutine has added meanwhile.
func (c *calls) add(subscriber string, since time.Time) *named {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.known[subscriber]; n != nil && since.IsZero() {
		return n
	}
	if c.known == nil || len(c.known) >= maxNamed {
		c.known = map[string]*named{}
	}
	attributes := trace.WithAttributes(attribute.String("kubereflector.informer", c.informer), attribute.String("kubereflector.subscriber", subscriber))
	n := &named{
		since:      since,
		handle:     "handle " + c.informer + "/" + subscriber,
		queue:      "queue " + c.informer + "/" + subscriber,
		attributes: attributes,
		options:    slices.Clip([]trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), attributes}),
	}
	c.known[subscriber] = n
	return n
}
