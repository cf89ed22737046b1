package informer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// writers is how many goroutines write to the server.
const writers = 16

// payload is the size of what is in a ConfigMap.
const payload = 1 << 10

// kills is how often the API server is killed.
const kills = 3

// size returns how many objects there are, and how often they change.
func size() (objects, changes int) {
	if os.Getenv("KUBEREFLECTOR_STORM") == "full" {
		return 20_000, 100_000
	}
	return 2_000, 6_000
}

// storm is a server, writers, and what they did.
type storm struct {
	*testing.T
	server     *apiserver.Server
	configMaps typedcorev1.ConfigMapInterface
	objects    int
	changes    int
	done       atomic.Int64  // changes
	half       chan struct{} // closed when half of the changes are done
}

func newStorm(t *testing.T) *storm {
	s := &storm{T: t, server: shared.Server(t), half: make(chan struct{})}
	config := s.server.Config()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	closeLater(t, config)
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	s.configMaps = clientset.CoreV1().ConfigMaps(s.server.Namespace(t))
	s.objects, s.changes = size()
	return s
}

// object is a ConfigMap with something in it that no other state has.
func object(n, state int) *configMap {
	return &configMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%06d", n)},
		Data:       map[string]string{"state": fmt.Sprint(state), "filling": strings.Repeat(string(rune('a'+state%26)), payload)},
	}
}

// insist does something until the server takes it. It may have been done by an attempt whose answer was lost.
func (s *storm) insist(done func(error) bool, do func(context.Context) error) {
	err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		return err == nil || done(err), nil
	})
	assert.NoError(s, err, "the server takes nothing any more")
}

func (s *storm) create(n, state int) {
	s.insist(apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := s.configMaps.Create(ctx, object(n, state), metav1.CreateOptions{})
		return err
	})
}

func (s *storm) update(n, state int) {
	s.insist(apierrors.IsNotFound, func(ctx context.Context) error {
		_, err := s.configMaps.Update(ctx, object(n, state), metav1.UpdateOptions{})
		return err
	})
}

func (s *storm) remove(n int) {
	s.insist(apierrors.IsNotFound, func(ctx context.Context) error {
		return s.configMaps.Delete(ctx, object(n, 0).Name, metav1.DeleteOptions{})
	})
}

// fill makes the objects.
func (s *storm) fill() {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := w; n < s.objects; n += writers {
				s.create(n, 0)
			}
		})
	}
	group.Wait()
}

// rage makes the changes, each writer to objects of its own, while the server is killed again and again.
func (s *storm) rage() {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			gone := map[int]bool{}
			for state := range s.changes / writers {
				n := random.IntN(s.objects/writers)*writers + w
				switch {
				case gone[n]:
					s.create(n, state)
					delete(gone, n)
				case random.IntN(10) == 0:
					s.remove(n)
					gone[n] = true
				default:
					s.update(n, state)
				}
				if s.done.Add(1) == int64(s.changes/2) {
					close(s.half)
				}
			}
		})
	}
	for k := range kills {
		// Somewhere in the first, the second and the third quarter.
		eventually(s.T, "the storm to go on", func() bool { return s.done.Load() >= int64(s.changes*(2*k+1)/(2*kills)) })
		require.NoError(s, s.server.KillAPIServer())
		require.NoError(s, s.server.StartAPIServer())
	}
	group.Wait()
}

// held returns what the server holds, and at which version.
func (s *storm) held() (map[store.Key]*configMap, string) {
	list, err := s.configMaps.List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	held := make(map[store.Key]*configMap, len(list.Items))
	for n := range list.Items {
		c := &list.Items[n]
		held[store.Key{Namespace: c.Namespace, Name: c.Name}] = c
	}
	return held, list.ResourceVersion
}

// awaitState waits until a subscriber knows what the server holds, and requires that it was told of it in order.
func (s *storm) awaitState(l *ledger, held map[store.Key]*configMap) {
	var differences []string
	err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		differences = l.differences(held)
		return len(differences) == 0 && l.subscription.Lag() == 0, nil
	})
	assert.NoError(s, err, "%s: lag %d, %v", l.name, l.subscription.Lag(), differences)
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.Empty(s, l.wrong, "%s", l.name)
}

// liveHeap returns the bytes that are in use when all that can go is gone.
func liveHeap() int {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// checkMemory requires that the heap did not grow by more than one older state of each object, for those who know it and were not told of a newer one,
// and 1 KiB for each object and subscriber that is behind, however often the objects changed.
func (s *storm) checkMemory(before, after int, behind []*ledger) {
	const state = payload + 2<<10 // with its metadata, maps and strings
	most := s.objects * (state + len(behind)<<10)
	s.Logf("the heap grew from %d to %d KiB; at most by %d", before>>10, after>>10, most>>10)
	assert.LessOrEqual(s, after-before, most)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func isEven(c *configMap) bool { return len(c.Data["state"])%2 == 0 }

func TestEverySubscriberOutlivesAStorm(t *testing.T) {
	s := newStorm(t)
	begin := time.Now()
	took := func(what string) {
		t.Logf("%-50s %6.1f s", what, time.Since(begin).Seconds())
		begin = time.Now()
	}
	s.fill()
	took(fmt.Sprintf("create %d objects", s.objects))

	i := informer.New(s.configMaps, informer.WithName("storm"))
	calm := make(chan struct{}) // closed when those that are slow may hurry
	quick := []*ledger{
		{name: "quick"},
		{name: "every state", opts: []informer.SubscriptionOption{informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll))}},
		{name: "live first, resynced", opts: []informer.SubscriptionOption{informer.WithQueue(eventqueue.WithPriority(true)), informer.WithResync(10 * time.Second)}},
		{name: "some", keep: isEven},
		{name: "failing", fail: 100},
		{name: "pulling", pulls: true},
	}
	late := &ledger{name: "late"}
	slow := []*ledger{
		{name: "slow", pace: time.Millisecond, hurry: calm},
		{name: "sluggish", pace: 100 * time.Millisecond, hurry: calm},
		{name: "stalled", wait: calm},
	}
	for _, l := range append(quick, slow...) {
		defer l.subscribe(i)()
	}
	stop := run(t, i)
	for _, l := range quick {
		eventually(t, l.name+" to be told of all objects", func() bool { return isClosed(l.subscription.Synced()) && l.subscription.Lag() == 0 })
	}
	took("tell the quick ones of them")
	before := liveHeap()

	var joining sync.WaitGroup
	joining.Go(func() { <-s.half; late.subscribe(i) })
	s.rage()
	joining.Wait()
	took(fmt.Sprintf("make %d changes, kill the server %d times", s.changes, kills))

	held, version := s.held()
	require.NoError(t, await.Version(within(t, patience), i.Cache(), version))
	took("the cache is where the server is")
	quick = append(quick, late)
	for _, l := range quick {
		s.awaitState(l, held)
	}
	took("so are the quick ones")
	assert.Equal(t, len(held), i.Cache().Len())
	assert.NotZero(t, slow[2].subscription.Lag(), "the slow ones held up nobody")
	s.checkMemory(before, liveHeap(), slow)

	close(calm)
	for _, l := range slow {
		s.awaitState(l, held)
	}
	took("so are the slow ones")
	require.NoError(t, i.Ready())
	stop()
	assert.Equal(t, reflector.Stopped, i.State().Phase)
	for _, l := range append(quick, slow...) {
		stats := l.subscription.Stats()
		t.Logf("%-20s %7d events, %7d merged, %5d retries, %4d panics", l.name, l.events, stats.Merged, stats.Retries, stats.Panics)
	}
}

type (
	configMap    = corev1.ConfigMap
	event        = eventqueue.Event[*configMap]
	subscription = informer.Subscription[*configMap]
)

// ledger is a subscriber that holds what it is told to what it knows.
type ledger struct {
	name string
	keep func(*configMap) bool // nil for everything
	opts []informer.SubscriptionOption

	// pace is how long an event takes, until hurry is closed; wait is what has to be closed for the first one to be taken. Each may be missing.
	pace  time.Duration
	hurry <-chan struct{}
	wait  <-chan struct{}
	// fail is how often an event fails: once in so many, by an error and by a panic in turn; 0 for never.
	fail int
	// pulls is true if the subscriber ranges over its events itself.
	pulls bool

	subscription *subscription

	// mu protects the fields below it.
	mu     sync.Mutex
	known  map[store.Key]*configMap
	tried  map[store.Key]bool // failed on, and not heard of since
	events int
	wrong  []string // the first few violations
}

var errNotNow = errors.New("not now")

// Handle implements [informer.Handler].
func (l *ledger) Handle(ctx context.Context, e event) error {
	if l.wait != nil {
		select {
		case <-l.wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if l.pace > 0 {
		select {
		case <-time.After(l.pace):
		case <-l.hurry:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	if l.fail > 0 && l.events%l.fail == 0 {
		l.tried[e.Key] = true
		if l.events/l.fail%2 == 0 {
			panic(errNotNow)
		}
		return errNotNow
	}
	l.enter(e)
	return nil
}

// enter notes an event, and what is wrong with it. The caller holds mu.
func (l *ledger) enter(e event) {
	if why := l.check(e); why != "" && len(l.wrong) < 10 {
		l.wrong = append(l.wrong, fmt.Sprintf("%v: %s", e, why))
	}
	delete(l.tried, e.Key)
	if l.known[e.Key] = e.Object; e.Type == eventqueue.Deletion {
		delete(l.known, e.Key)
	}
}

// check returns why an event cannot follow what is known, or nothing.
func (l *ledger) check(e event) string {
	known := l.known[e.Key]
	switch {
	case e.PriorKnown != (known != nil) || e.Prior != known:
		return fmt.Sprintf("prior is %v, not %v", version(e.Prior), version(known))
	case known == nil && e.Type == eventqueue.Deletion:
		// It may have been in the first list, or this subscriber failed on its addition.
		if e.Initial || l.tried[e.Key] {
			return ""
		}
		return "of an object that it was never told of"
	case known == nil && e.Type != eventqueue.Addition:
		return "not an addition"
	case known != nil && e.Type == eventqueue.Addition:
		return "a second addition"
	case l.keep != nil && e.Type != eventqueue.Deletion && !l.keep(e.Object):
		return "it was not to be told of this"
	case known == nil || e.Object == known:
		return ""
	case e.Object.UID != known.UID:
		return fmt.Sprintf("another object than %v", version(known))
	}
	if order, err := resourceversion.CompareResourceVersion(known.ResourceVersion, e.Object.ResourceVersion); err != nil || order > 0 {
		return fmt.Sprintf("version %v after %v (%v)", version(e.Object), version(known), err)
	}
	return ""
}

func version(c *configMap) string {
	if c == nil {
		return "nothing"
	}
	return string(c.UID) + "@" + c.ResourceVersion
}

// differences says how what is known differs from what the server holds, if it does.
func (l *ledger) differences(held map[store.Key]*configMap) (differences []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, want := range held {
		known := l.known[key]
		if keeps := l.keep == nil || l.keep(want); !keeps {
			want = nil
		}
		if version(known) != version(want) {
			differences = append(differences, fmt.Sprintf("%v is %s, not %s", key, version(known), version(want)))
		}
	}
	for key := range l.known {
		if held[key] == nil {
			differences = append(differences, fmt.Sprintf("%v is gone", key))
		}
	}
	if len(differences) > 10 {
		differences = append(differences[:10], fmt.Sprintf("and %d more", len(differences)-10))
	}
	return differences
}

// subscribe makes the subscriber one of an informer. The returned function ends one that pulls.
func (l *ledger) subscribe(i *informer.Informer[*configMap]) (end func()) {
	l.known, l.tried = make(map[store.Key]*configMap), make(map[store.Key]bool)
	opts := append([]informer.SubscriptionOption{informer.WithName(l.name)}, l.opts...)
	if !l.pulls {
		l.subscription = i.HandleFiltered(l.keep, l, opts...)
		return func() {}
	}
	l.subscription = i.SubscribeFiltered(l.keep, opts...)
	var pulling sync.WaitGroup
	pulling.Go(func() {
		for e := range l.subscription.Consume(context.Background()) {
			_ = l.Handle(context.Background(), e) // one that pulls does not fail
		}
	})
	return func() { l.subscription.Close(); pulling.Wait() }
}
