package informerbench

import (
	"context"
	"errors"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// subject is a running informer of pods with handlers that count.
type subject struct {
	*measure.Counter
	// put hands pods in, one by one.
	put func(pods []*corev1.Pod) error

	handlers int
	gate     measure.Gate
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func newSubject(handlers int) *subject {
	s := &subject{Counter: measure.NewCounter(handlers), handlers: handlers}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// close ends the handlers and waits for them.
func (s *subject) close() {
	s.stop()
	s.running.Wait()
}

// update hands pods in and waits until all handlers have been called for each of them.
func (s *subject) update(pods []*corev1.Pod) error {
	s.Expect(len(pods))
	if err := s.put(pods); err != nil {
		return err
	}
	return s.Wait()
}

func (s *subject) handled(n int) {
	s.Handled(n)
	s.gate.Pass()
}

// ours runs an informer of ours with the handlers.
func (s *subject) ours(i *informer.Informer[*corev1.Pod]) {
	for n := range s.handlers {
		i.Handle(informer.HandlerFuncs[*corev1.Pod]{
			OnAdd:    func(*corev1.Pod, bool) { s.handled(n) },
			OnUpdate: func(_, _ *corev1.Pod) { s.handled(n) },
			OnDelete: func(*corev1.Pod, bool) { s.handled(n) },
		})
	}
	s.running.Go(func() { _ = i.Run(s.ctx) }) // it fails only if a handler does
}

// peer runs an informer of client-go's with the handlers.
func (s *subject) peer(i cache.SharedIndexInformer) error {
	for n := range s.handlers {
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.handled(n) },
			UpdateFunc: func(any, any) { s.handled(n) },
			DeleteFunc: func(any) { s.handled(n) },
		}
		if _, err := i.AddEventHandler(handler); err != nil {
			return err
		}
	}
	s.running.Go(func() { i.RunWithContext(s.ctx) })
	return nil
}

// watchOurs opens an informer of a server.
func watchOurs(handlers int, from *server) (*subject, error) {
	s := newSubject(handlers)
	s.put = from.send
	s.Expect(len(from.pods))
	s.ours(informer.New(from, informer.WithReflector(reflector.WithoutWatchList())))
	return s, s.Wait()
}

// listsFirst is a client whose watches do not begin with the current state.
type listsFirst struct{}

func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

func sharedInformer(from *server) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return from.List(ctx, opts)
		},
		WatchFuncWithContext: from.Watch,
	}, listsFirst{}), &corev1.Pod{}, 0, cache.Indexers{})
}

func watchPeer(handlers int, from *server) (*subject, error) {
	s := newSubject(handlers)
	s.put = from.send
	s.Expect(len(from.pods))
	if err := s.peer(sharedInformer(from)); err != nil {
		return s, err
	}
	return s, s.Wait()
}

// byHand is an informer's source of objects that the benchmark itself writes.
type byHand struct {
	into   store.Store[*corev1.Pod]
	synced chan struct{}
}

func (f byHand) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (f byHand) State() reflector.State { return reflector.State{Phase: reflector.Watching} }

func (f byHand) Changed(reflector.State) <-chan struct{} { return nil }

func (f byHand) Synced() <-chan struct{} { return f.synced }

// commitOurs opens an informer with the given pods whose store the benchmark writes to.
func commitOurs(handlers int, pods []*corev1.Pod) (*subject, error) {
	s := newSubject(handlers)
	var source byHand
	i := informer.NewFed(nil, store.ObjectKey[*corev1.Pod], func(target feed.Target[*corev1.Pod]) feed.Group {
		source = byHand{target.Into, make(chan struct{})}
		return feed.New(source)
	})
	s.put = func(pods []*corev1.Pod) error {
		for _, pod := range pods {
			if err := source.into.Update(pod); err != nil {
				return err
			}
		}
		return nil
	}
	s.Expect(len(pods))
	s.ours(i)
	if err := source.into.Replace(pods, "1"); err != nil {
		return s, err
	}
	close(source.synced)
	return s, s.Wait()
}

// commitPeer opens an informer on a server without pods, so that its listeners run. It then adds the
// given pods as the informer's own code would.
func commitPeer(handlers int, pods []*corev1.Pod) (*subject, error) {
	s := newSubject(handlers)
	i := sharedInformer(newServer(nil, "1"))
	listeners, ok := i.(cache.ResourceEventHandler)
	if !ok {
		return s, errors.New("client-go's shared informer is no handler any more: its own code has to be measured another way")
	}
	if err := s.peer(i); err != nil {
		return s, err
	}
	if !cache.WaitForCacheSync(s.ctx.Done(), i.HasSynced) {
		return s, errors.New("informer did not sync")
	}
	indexer := i.GetIndexer()
	// As processDeltas in client-go's tools/cache/controller.go does for an update.
	s.put = func(pods []*corev1.Pod) error {
		for _, pod := range pods {
			old, exists, err := indexer.Get(pod)
			if err != nil || !exists {
				return errors.Join(err, errors.New("pod to update is not there"))
			}
			if err := indexer.Update(pod); err != nil {
				return err
			}
			listeners.OnUpdate(old, pod)
		}
		return nil
	}
	s.Expect(len(pods))
	for _, pod := range pods {
		if err := indexer.Add(pod); err != nil {
			return s, err
		}
		listeners.OnAdd(pod, true)
	}
	return s, s.Wait()
}
