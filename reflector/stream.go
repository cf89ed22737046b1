package reflector

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// stream is an open watch. The reflector pulls its events. One goroutine at a time calls the
// methods.
type stream[T Object] interface {
	// next waits for events that arrived together. They stay valid until the next call, which tells
	// the stream that the reflector has handled them. next returns io.EOF if the server closed the
	// watch, errAwake if wake delivers a value first, and the error of ctx.
	next(ctx context.Context, wake <-chan time.Time) ([]event[T], error)
	// live tells the stream that the initial events are over. The reflector calls it before it
	// replaces the store's content, which the stream may compare with.
	live()
	// close ends the watch, and waits for its end. It returns errNotClosed after closeTimeout.
	close() error
}

var (
	errAwake     = errors.New("wake delivered a value")
	errNotClosed = errors.New("client did not close the channel of its watch after Stop")
)

// closeTimeout is how long a stream waits for a watch to close its channel after Stop.
const closeTimeout = 5 * time.Second

// drain receives from a channel until it is closed, as watch.Interface requires after Stop.
// apimachinery's ProxyWatcher never closes its channel, so drain gives up after closeTimeout.
func drain[E any](events <-chan E) error {
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	for {
		select {
		case _, open := <-events:
			if !open {
				return nil
			}
		case <-timeout.C:
			return errNotClosed
		}
	}
}

// maxTogether is the largest number of events that a clientStream combines.
const maxTogether = 64

// clientStream is the stream of a client's watch. It returns all events that the client has ready.
type clientStream[T Object] struct {
	watch  watch.Interface
	events []event[T] // of the last call of next
}

func (s *clientStream[T]) next(ctx context.Context, wake <-chan time.Time) ([]event[T], error) {
	clear(s.events)
	s.events = s.events[:0]
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, errAwake
	case e, open := <-s.watch.ResultChan():
		if !open {
			return nil, io.EOF
		}
		s.events = append(s.events, readEvent[T](e))
	}
	for len(s.events) < maxTogether {
		select {
		case e, open := <-s.watch.ResultChan():
			if !open {
				return s.events, nil // the next call returns io.EOF
			}
			s.events = append(s.events, readEvent[T](e))
		default:
			return s.events, nil
		}
	}
	return s.events, nil
}

func (s *clientStream[T]) live() {
	// The client decodes all objects.
}

func (s *clientStream[T]) close() error {
	s.watch.Stop()
	return drain(s.watch.ResultChan())
}

// sifted is a stream that replaces the events of objects outside some shards.
type sifted[T Object] struct {
	stream[T]
	shards *shardSet
}

// siftStream returns a stream that replaces the events of objects outside the shards.
func siftStream[T Object](s stream[T], shards *shardSet) stream[T] {
	if shards == nil {
		return s
	}
	return sifted[T]{s, shards}
}

func (s sifted[T]) next(ctx context.Context, wake <-chan time.Time) ([]event[T], error) {
	events, err := s.stream.next(ctx, wake)
	for i := range events {
		siftEvent(s.shards, &events[i])
	}
	return events, err
}
