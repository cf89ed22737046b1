package source

import (
	"context"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"k8s.io/apimachinery/pkg/watch"
)

// Stream is an open watch. The reflector pulls its events. One goroutine at a time calls the
// methods.
type Stream[T Object] interface {
	// Next waits for events that arrived together. They stay valid until the next call, which tells
	// the stream that the reflector has handled them. Next returns io.EOF if the server closed the
	// watch, stream.ErrAwake if wake delivers a value first, and the error of ctx.
	Next(ctx context.Context, wake <-chan time.Time) ([]Event[T], error)
	// Live tells the stream that the initial events are over. The reflector calls it before it
	// replaces the store's content, which the stream may compare with.
	Live()
	// Close ends the watch, and waits for its end. It fails after stream.CloseTimeout.
	Close() error
}

// Accounting is a Stream that must know which events the reflector handled, such as a stream that
// records them.
type Accounting interface {
	// Unhandled tells the stream how many of its last events the reflector has not handled. The
	// reflector calls it before Close.
	Unhandled(events int)
}

// maxTogether is the largest number of events that a ClientStream combines.
const maxTogether = 64

// ClientStream is the stream of a client's watch. It returns all events that the client has ready.
type ClientStream[T Object] struct {
	Watch  watch.Interface
	events []Event[T] // of the last call of Next
}

func (s *ClientStream[T]) Next(ctx context.Context, wake <-chan time.Time) ([]Event[T], error) {
	clear(s.events)
	s.events = s.events[:0]
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, stream.ErrAwake
	case e, open := <-s.Watch.ResultChan():
		if !open {
			return nil, io.EOF
		}
		s.events = append(s.events, ReadEvent[T](e))
	}
	for len(s.events) < maxTogether {
		select {
		case e, open := <-s.Watch.ResultChan():
			if !open {
				return s.events, nil // the next call returns io.EOF
			}
			s.events = append(s.events, ReadEvent[T](e))
		default:
			return s.events, nil
		}
	}
	return s.events, nil
}

func (s *ClientStream[T]) Live() {
	// The client decodes all objects.
}

func (s *ClientStream[T]) Close() error {
	s.Watch.Stop()
	return stream.Drain(s.Watch.ResultChan())
}
