package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// world is an API server and an informer in which the script runs once. Beside them runs an informer of
// client-go with its own cache.
type world struct {
	server  *reflectortest.Server // nil in a replay
	release func()                // ends the server's silence; nil while it answers
	pods    *informer.Informer[*corev1.Pod]
	subs    map[string]*informer.Subscription[*corev1.Pod]
	quick   *handler
	slow    *handler // joins later
	picky   *picky

	theirs      cache.SharedInformer
	theirsAll   *handler // quick, so its calls are what client-go has distributed
	theirsSlow  *handler // joins when slow does
	theirsSince int      // how many calls theirsAll had when theirsSlow joined
	theirsFirst int      // how many pods theirsSlow got then

	dismiss  func() // ends client-go's informer
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	started  bool
	ended    chan error
	seen     mirror
	unfollow func()
	taken    map[string]int // how many changes of a pod there were when slow's queue had none of them
}

// newWorld makes an informer that reads from config, and a server's world around it.
func newWorld(ctx context.Context, config *rest.Config, server *reflectortest.Server) (*world, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &world{
		server: server, subs: map[string]*informer.Subscription[*corev1.Pod]{}, quick: &handler{}, picky: &picky{},
		ended: make(chan error, 1), taken: map[string]int{},
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.pods = informer.New(clientset.CoreV1().Pods("default"), informer.WithName("pods"))
	w.subs["quick"] = w.pods.Handle(w.quick, informer.WithName("quick"))
	w.subs["picky"] = w.pods.Handle(w.picky, informer.WithName("picky"), informer.WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
	w.follow()
	if server == nil {
		return w, nil
	}
	theirs, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return nil, err
	}
	w.theirs = informers.NewSharedInformerFactory(theirs, 0).Core().V1().Pods().Informer()
	w.theirsAll = &handler{}
	_, err = w.theirs.AddEventHandler(w.theirsAll.clientGo(w.ctx))
	return w, err
}

// follow lets seen follow the cache after the queues: what it has seen, they have too.
func (w *world) follow() {
	if w.unfollow != nil {
		w.unfollow()
	}
	w.unfollow = w.pods.Follow(&w.seen)
}

// start runs the informers.
func (w *world) start() {
	w.started = true
	w.running.Go(func() { w.ended <- ignoreLeft(w.pods.Run(w.ctx)) })
	ctx, dismiss := context.WithCancel(w.ctx)
	w.dismiss = dismiss
	if theirs := w.theirs; theirs != nil {
		w.running.Go(func() { theirs.RunWithContext(ctx) })
	}
}

// join adds the slow handlers.
func (w *world) join() error {
	w.slow = newSlow()
	for _, pod := range names {
		w.taken[pod] = w.seen.changesOf(pod) - 1 // each pod is one event
	}
	w.subs["slow"] = w.pods.Handle(w.slow, informer.WithName("slow"), informer.WithQueue(eventqueue.WithObserver(w.slow.taken)))
	w.follow()
	if w.theirs == nil {
		return nil
	}
	calls, _ := w.theirsAll.state()
	w.theirsSince, w.theirsFirst = len(calls), w.pods.Cache().Len()
	w.theirsSlow = newSlow()
	_, err := w.theirs.AddEventHandler(w.theirsSlow.clientGo(w.ctx))
	return err
}

// stop ends everything.
func (w *world) stop() error {
	w.cancel()
	w.running.Wait()
	if w.server != nil {
		w.server.Close()
	}
	select {
	case err := <-w.ended:
		return err
	default: // it never ran
		return nil
	}
}

// ignoreLeft returns nil for events that no handler handled before the end.
func ignoreLeft(err error) error {
	if _, left := errors.AsType[*eventqueue.DrainError](err); left {
		return nil
	}
	return err
}

// turn ends the calls that the slow handlers are in.
func (w *world) turn() {
	w.slow.turn(w.ctx)
	w.theirsSlow.turn(w.ctx)
}

// silence ends all watches, and lets the server answer nothing until release. It ends client-go's informer, which the
// tour no longer needs.
func (w *world) silence() error {
	w.theirs = nil
	w.dismiss()
	released := make(chan struct{})
	stall := w.server.Inject(reflectortest.Stall(released))
	w.release = func() {
		stall.Remove()
		close(released)
		w.release = nil
	}
	return w.server.Restore(w.server.ResourceVersion()) // of the current version: it only ends the watches
}

// versions are the resource versions of pods by name.
type versions map[string]string

// mirror is a follower that knows the versions of the pods in the cache.
type mirror struct {
	mu      sync.Mutex
	pods    versions
	changes map[string]int // how many changes of a pod it saw
}

// Start implements [store.Follower].
func (m *mirror) Start(state *store.Snapshot[*corev1.Pod]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = versions{}
	for key, pod := range state.All() {
		m.pods[key.Name] = pod.ResourceVersion
	}
}

// Commit implements [store.Follower].
func (m *mirror) Commit(commit *store.Commit[*corev1.Pod]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changes == nil {
		m.changes = map[string]int{}
	}
	for _, c := range commit.Changes {
		m.changes[c.Key.Name]++
		if c.Type == store.Deletion {
			delete(m.pods, c.Key.Name)
		} else {
			m.pods[c.Key.Name] = c.Object.ResourceVersion
		}
	}
}

func (m *mirror) versions() versions {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.pods)
}

func (m *mirror) changesOf(pod string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes[pod]
}

func (w *world) serverVersions() versions {
	all := versions{}
	for _, o := range w.server.Objects() {
		all[o.Name] = strconv.FormatUint(o.Version, 10)
	}
	return all
}

// settle waits until nothing moves: the caches have what the server has, unless it is silent, and each
// handler is idle, in a slow call or in back-off.
func (w *world) settle() error {
	limit := time.After(40 * time.Second) // longer than the longest back-off of the reflector
	for !w.settled() {
		select {
		case err := <-w.ended:
			return fmt.Errorf("the informer ended: %w", err)
		case <-w.ctx.Done():
			return w.ctx.Err()
		case <-limit:
			return errors.New("the step did not come to rest in 40 seconds")
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (w *world) settled() bool {
	if !w.started {
		return true
	}
	for _, s := range w.subs {
		stats := s.Stats()
		switch {
		case s.Name() == "slow" && stats.Keys > 0:
			if !w.slow.busy() {
				return false
			}
		case stats.Keys > stats.Delayed:
			return false
		}
	}
	if w.release != nil {
		return w.asksInVain()
	}
	if !maps.Equal(w.seen.versions(), w.serverVersions()) {
		return false
	}
	return w.theirs == nil || w.theirsSettled()
}

// asksInVain reports whether a request of the informer waits for an answer.
func (w *world) asksInVain() bool {
	requests := w.server.Requests()
	last := requests[len(requests)-1]
	return last.Code == 0 && len(last.Faults) > 0
}

func (w *world) theirsSettled() bool {
	calls, _ := w.theirsAll.state()
	known := versions{}
	for _, c := range calls {
		if known[c.pod] = c.version; c.what == "OnDelete" {
			delete(known, c.pod)
		}
	}
	if !maps.Equal(known, w.serverVersions()) {
		return false
	}
	if w.theirsSlow == nil {
		return true
	}
	return w.theirsSlow.busy() || len(w.theirsWaiting()) == 0
}

// theirsWaiting returns the events in client-go's buffer for the slow handler: what client-go distributed
// since that handler joined, and the handler did not get yet.
func (w *world) theirsWaiting() []call {
	all, _ := w.theirsAll.state()
	all = all[w.theirsSince:]
	got, _ := w.theirsSlow.state()
	if len(got) < w.theirsFirst {
		return make([]call, w.theirsFirst-len(got)+len(all)) // nothing shows these
	}
	return all[len(got)-w.theirsFirst:]
}
