package otel

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxNamed is how many subscribers' names are kept: those who choose a new one for each
// subscription have theirs made again.
const maxNamed = 256

// calls has what the spans of an informer's subscribers have in common, so that it need not
// be made for each of them. It may be used from any goroutine.
type calls struct {
	informer string

	// mu protects known, by the names of subscribers.
	mu    sync.RWMutex
	known map[string]*named
}

// named is what the spans of one subscriber have in common. It is not changed.
type named struct {
	handle, queue string // their names
	attributes    trace.SpanStartEventOption
	options       []trace.SpanStartOption // of those of calls
}

// of returns what is common to the spans of a subscriber.
func (c *calls) of(subscriber string) *named {
	c.mu.RLock()
	n := c.known[subscriber]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	attributes := trace.WithAttributes(attribute.String("kubereflector.informer", c.informer), attribute.String("kubereflector.subscriber", subscriber))
	n = &named{
		handle:     "handle " + c.informer + "/" + subscriber,
		queue:      "queue " + c.informer + "/" + subscriber,
		attributes: attributes,
		options:    slices.Clip([]trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), attributes}),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxNamed {
		c.known = map[string]*named{}
	}
	c.known[subscriber] = n
	return n
}
