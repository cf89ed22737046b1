package client

import (
	"context"
	"io"
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client/internal/sharedwatch"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SharedWatch wraps a client for the reflectors of several shards ([reflector.WithShard]) in one
// process, or for the shard scopes of one informer. If the API server does not filter by shard, they
// share one watch of all objects, and each gets the events of its shards. Give them the wrapper
// instead of the client:
//
//	sites := client.SharedWatch(client)
//	a := reflector.New(sites, first, reflector.WithShard(shards[0]))
//	b := reflector.New(sites, second, reflector.WithShard(shards[1]))
//
// Reflectors may start and stop at any time. A new reflector lists by itself and joins the shared
// watch once it has caught up. These reflectors have a watch of their own:
//
//   - a reflector with another selector;
//   - a reflector for which the server filters by shard;
//   - a reflector without shards, or with shards [store.ByOwner];
//   - a slow reflector, after the others have waited for it for five seconds in total since its
//     queue was last empty.
//
// If the client decodes the objects and several reflectors have the same shard, one reflector gets
// the object. The others get copies from DeepCopyObject. All of them wait during that call, so
// DeepCopyObject must not call a reflector.
//
// SharedWatch starts no goroutine, and none is left when all reflectors have ended. All methods of
// the wrapper are safe for concurrent use. If client is nil, Run returns [reflector.ErrNoClient].
func SharedWatch[T source.Object, L any](client source.Client[T, L]) source.Client[T, L] {
	if source.IsNil(client) {
		return nil
	}
	c := &sharedClient[T, L]{Client: client}
	c.source.Source = source.Of(client)
	from, ok := c.source.Source.(upstreams[T])
	if plain, is := c.source.Source.(*source.ClientSource[T, L]); is {
		from, ok = clientUpstreams[T, L]{plain}, reflect.TypeFor[T]().Implements(reflect.TypeFor[runtime.Object]()) // for a watch.Event
	}
	if ok {
		c.source.from, c.source.shared = from, sharedwatch.NewMultiplexer(from.upstream)
	}
	return c
}

// sharedClient is a client with a source that several reflectors share. Only reflectors share a
// watch: Watch calls the client's own.
type sharedClient[T source.Object, L any] struct {
	source.Client[T, L]
	source sharedSource[T]
}

// IsWatchListSemanticsUnSupported returns the answer of the client.
func (c *sharedClient[T, L]) IsWatchListSemanticsUnSupported() bool {
	return !source.CanStream(c.Client)
}

// Source returns the shared source for a reflector. It returns nil if self is a wrapper of the
// sharedClient.
func (c *sharedClient[T, L]) Source(self any) source.Source[T] {
	if self != any(c) {
		return nil
	}
	return &c.source
}

// upstreams is a source whose watches can be shared.
type upstreams[T source.Object] interface {
	// upstream opens a watch.
	upstream(ctx context.Context, opts metav1.ListOptions) (sharedwatch.Upstream, error)
	// share returns a stream of the events of a member.
	share(ctx context.Context, cancel context.CancelFunc, m *sharedwatch.Member, opts metav1.ListOptions, w source.Wants[T]) source.Stream[T]
}

// sharedSource is a source that several reflectors share.
type sharedSource[T source.Object] struct {
	source.Source[T]
	from   upstreams[T] // the same source; nil if its watches cannot be shared
	shared *sharedwatch.Multiplexer
}

// Begin tells the client that a run begins, if the client follows runs.
func (s *sharedSource[T]) Begin(run source.Run) (end func(), err error) {
	if session, ok := s.Source.(source.Session); ok {
		return session.Begin(run)
	}
	return func() {}, nil
}

func (s *sharedSource[T]) About() source.About {
	of := s.Source.About()
	of.Shared = true
	return of
}

func (s *sharedSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (source.Stream[T], error) {
	if s.from == nil || w.Shards == nil || w.Shards.Moves() {
		return s.Source.Watch(ctx, opts, w)
	}
	ctx, cancel := context.WithCancel(ctx)
	m, err := s.shared.Enter(ctx, opts, w.Shards, w.Sharding)
	if err != nil {
		cancel()
		return nil, err
	}
	return s.from.share(ctx, cancel, m, opts, w), nil
}

func (s resourceSource[T]) upstream(ctx context.Context, opts metav1.ListOptions) (sharedwatch.Upstream, error) {
	opts.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	a, err := s.openWatch(ctx, cancel, &opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return responseUpstream{s.reader().Frames(a)}, nil
}

func (s resourceSource[T]) share(ctx context.Context, cancel context.CancelFunc, m *sharedwatch.Member, opts metav1.ListOptions, w source.Wants[T]) source.Stream[T] {
	return s.reader().Watch(ctx, cancel, m.Answer().(*stream.Response), memberFrames{m}, isWatchList(&opts), w.Skip())
}

// responseUpstream shares the frames of a response.
type responseUpstream struct{ *stream.ResponseFrames }

func (u responseUpstream) Next(ctx context.Context, _ <-chan time.Time) (sharedwatch.Batch, error) {
	frames, _, err := u.ResponseFrames.Next(ctx)
	return sharedwatch.Batch{Frames: frames}, err
}

func (u responseUpstream) Response() any { return u.ResponseFrames.Response() }

// memberFrames are the frames of a shared watch that a member receives.
type memberFrames struct{ *sharedwatch.Member }

func (f memberFrames) Next(ctx context.Context) (*wire.Batch, stream.Others, error) {
	came, err := f.Member.Next(ctx, nil)
	return came.Frames, others(came), err
}

// others returns the events of other shards in a batch.
func others(of sharedwatch.Batch) stream.Others {
	return stream.Others{Count: of.OutOfShard, Version: of.Version.String(), Added: of.Added}
}

// clientUpstreams shares the watches of a client that decodes the objects.
type clientUpstreams[T source.Object, L any] struct{ *source.ClientSource[T, L] }

func (s clientUpstreams[T, L]) upstream(ctx context.Context, opts metav1.ListOptions) (sharedwatch.Upstream, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := s.Open(ctx, opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return &sharedwatch.ClientEvents{Watch: w, Cancel: cancel}, nil
}

func (s clientUpstreams[T, L]) share(_ context.Context, cancel context.CancelFunc, m *sharedwatch.Member, _ metav1.ListOptions, _ source.Wants[T]) source.Stream[T] {
	return memberStream[T]{m, cancel}
}

// memberStream is the stream of a member whose client decodes the objects.
type memberStream[T source.Object] struct {
	member *sharedwatch.Member
	cancel context.CancelFunc
}

func (s memberStream[T]) Next(ctx context.Context, wake <-chan time.Time) (events []source.Event[T], err error) {
	came, err := s.member.Next(ctx, wake)
	if err != nil && err != stream.ErrAwake && ctx.Err() == nil {
		return nil, io.EOF
	}
	for _, e := range came.Events {
		events = append(events, source.ReadEvent[T](e))
	}
	if e, ok := stream.OthersEvent[T](others(came)); ok {
		events = append(events, e)
	}
	return events, err
}

func (s memberStream[T]) Live() {
	// The client decodes all objects.
}

func (s memberStream[T]) Close() error {
	s.cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.member.Close()
	}()
	return stream.Drain(closed)
}
