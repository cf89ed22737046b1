package reflector

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// SharedClient is a [Client] for the reflectors and informers of several shards of one resource in
// one process. If the API server does not filter by shard, they share one watch of all objects, and
// each gets the events of its shards. See [ForShards].
type SharedClient[T Object, L any] struct {
	client Client[T, L]

	once sync.Once
	of   *sharing[T]
}

// ForShards wraps a client for several reflectors with [WithShard], or for the shard scopes of one
// informer. Give them the SharedClient instead of the client:
//
//	sites := reflector.ForShards(client)
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
// ForShards starts no goroutine, and none is left when all reflectors have ended. All methods are
// safe for concurrent use.
func ForShards[T Object, L any](client Client[T, L]) *SharedClient[T, L] {
	return &SharedClient[T, L]{client: client}
}

// Get calls the client's Get.
func (c *SharedClient[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (object T, err error) {
	if isNil(c.client) {
		return object, ErrNoClient
	}
	return c.client.Get(ctx, name, opts)
}

// List calls the client's List.
func (c *SharedClient[T, L]) List(ctx context.Context, opts metav1.ListOptions) (list L, err error) {
	if isNil(c.client) {
		return list, ErrNoClient
	}
	return c.client.List(ctx, opts)
}

// Watch calls the client's Watch. Only reflectors share a watch.
func (c *SharedClient[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if isNil(c.client) {
		return nil, ErrNoClient
	}
	return c.client.Watch(ctx, opts)
}

// IsWatchListSemanticsUnSupported reports whether the client cannot serve watch-lists.
func (c *SharedClient[T, L]) IsWatchListSemanticsUnSupported() bool { return !canStream(c.client) }

// sharing returns the common state of the client's reflectors; nil for a nil SharedClient.
func (c *SharedClient[T, L]) sharing() *sharing[T] {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		from := newSource(c.client)
		c.of = &sharing[T]{source: from}
		if taps, ok := from.(tapping[T]); ok {
			c.of.taps, c.of.hub = taps, newHub(taps.tap)
		}
	})
	return c.of
}

// sharing is a source that several reflectors share.
type sharing[T Object] struct {
	source source[T]
	taps   tapping[T] // the same source; nil if its watches cannot be shared
	hub    *hub
}

// tapping is a source whose watches can be shared.
type tapping[T Object] interface {
	// tap opens a watch.
	tap(ctx context.Context, opts metav1.ListOptions) (tap, error)
	// share returns a feed of the events of a member.
	share(ctx context.Context, cancel context.CancelFunc, m *member, opts metav1.ListOptions, w wants[T]) feed[T]
}

// sharedSource is the source of a SharedClient.
type sharedSource[T Object] struct{ of *sharing[T] }

func (s sharedSource[T]) check() error {
	if s.of == nil {
		return ErrNoClient
	}
	return s.of.source.check()
}

func (s sharedSource[T]) streams() bool { return s.of != nil && s.of.source.streams() }

// source returns the source of the wrapped client.
func (s sharedSource[T]) source() source[T] {
	if s.of == nil {
		return nil
	}
	return s.of.source
}

func (s sharedSource[T]) resourceName() string {
	if named, ok := s.source().(interface{ resourceName() string }); ok {
		return named.resourceName()
	}
	return ""
}

func (s sharedSource[T]) list(ctx context.Context, opts metav1.ListOptions, w wants[T]) (page[T], error) {
	return s.of.source.list(ctx, opts, w)
}

func (s sharedSource[T]) watch(ctx context.Context, opts metav1.ListOptions, w wants[T]) (feed[T], error) {
	if s.of.taps == nil || w.shards == nil || w.shards.moving() {
		return s.of.source.watch(ctx, opts, w)
	}
	ctx, cancel := context.WithCancel(ctx)
	m, err := s.of.hub.enter(ctx, opts, w.shards, w.sharding)
	if err != nil {
		cancel()
		return feed[T]{}, err
	}
	return s.of.taps.share(ctx, cancel, m, opts, w), nil
}

// tap is an open watch whose events are not yet split by shard.
type tap interface {
	frameSource
	// of returns the answer that the tap reads; nil if a client decodes the events.
	of() *answer
}

func (f *answerFrames) of() *answer { return f.answer }

func (c *clientEvents) of() *answer { return nil }

// ending is a tap that calls cancel when it is closed.
type ending struct {
	tap
	cancel context.CancelFunc
}

func (e ending) close() {
	e.cancel()
	e.tap.close()
}

func (s resourceSource[T]) tap(ctx context.Context, opts metav1.ListOptions) (tap, error) {
	opts.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	a, err := s.open(ctx, &opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return ending{&answerFrames{answer: a, limit: s.options.frameLimit}, cancel}, nil
}

func (s resourceSource[T]) share(ctx context.Context, cancel context.CancelFunc, m *member, opts metav1.ListOptions, w wants[T]) feed[T] {
	return feed[T]{stream: s.follow(ctx, cancel, m.answer(), m, opts, w)}
}

func (s *clientSource[T, L]) tap(ctx context.Context, opts metav1.ListOptions) (tap, error) {
	ctx, cancel := context.WithCancel(ctx)
	f, err := s.watch(ctx, opts, wants[T]{})
	if err != nil {
		cancel()
		return nil, err
	}
	return ending{&clientEvents{watch: f.watch}, cancel}, nil
}

func (s *clientSource[T, L]) share(ctx context.Context, cancel context.CancelFunc, m *member, _ metav1.ListOptions, _ wants[T]) feed[T] {
	w := &memberWatch[T]{member: m, events: make(chan watch.Event), cancel: cancel}
	go w.run(ctx)
	return feed[T]{watch: w}
}

// memberWatch delivers the events of a member as a watch.Interface.
type memberWatch[T Object] struct {
	member *member
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *memberWatch[T]) Stop() { w.cancel() }

func (w *memberWatch[T]) ResultChan() <-chan watch.Event { return w.events }

func (w *memberWatch[T]) run(ctx context.Context) {
	defer close(w.events)
	defer w.member.close()
	for {
		came, err := w.member.next(ctx)
		for _, e := range came.events {
			if !w.send(ctx, e) {
				return
			}
		}
		if e, ok := othersEvent[T](came); ok && !w.send(ctx, watch.Event{Type: e.kind, Object: carried[T]{e}}) {
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *memberWatch[T]) send(ctx context.Context, e watch.Event) bool {
	select {
	case w.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// othersEvent returns an event that stands for the events of other shards in a haul. If the haul
// only reports the progress of a watch-list, the event is a bookmark without a version.
func othersEvent[T Object](of haul) (event[T], bool) {
	e := event[T]{kind: watch.Modified, foreign: of.passed}
	switch {
	case of.passed == 0:
		return event[T]{kind: watch.Bookmark}, of.added
	case of.added:
		e.kind = watch.Added
	}
	e.version = of.version.String()
	return e, true
}
