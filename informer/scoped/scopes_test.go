package scoped

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scopedPods is an informer with its scopes.
type scopedPods struct {
	*informer.Informer[*corev1.Pod]
	scopes *Scopes[*corev1.Pod]
}

func newPods(opts ...informer.Option) *scopedPods {
	scopes := New(store.ObjectKey[*corev1.Pod], opts...)
	return &scopedPods{scopes.Informer(), scopes}
}

func onNode(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

func clientOf(t *testing.T, server *reflectortest.Server) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return client
}

func start(t *testing.T, i interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- i.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// diary writes down types and keys of events.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) Handle(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%v %v initial=%t", e.Type, e.Key, e.Initial))
	return nil
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

var (
	west = store.Scope{Cluster: "west", Namespace: "default"}
	east = store.Scope{Cluster: "east", Namespace: "default"}
)

func newClusters(t *testing.T, opts ...informer.Option) (i *scopedPods, westServer, eastServer *reflectortest.Server) {
	i = newPods(opts...)
	westServer, eastServer = reflectortest.Start(t), reflectortest.Start(t)
	require.NoError(t, westServer.Create(onNode("a", "n")))
	require.NoError(t, eastServer.Create(onNode("a", "n")))
	return i, westServer, eastServer
}

func addScope(t *testing.T, i *scopedPods, scope store.Scope, server *reflectortest.Server, opts ...reflector.Option) {
	t.Helper()
	require.NoError(t, Add(i.scopes, scope, clientOf(t, server).CoreV1().Pods(scope.Namespace), opts...))
}

// startClusters runs an informer of both clusters until stop, and waits until it is synced.
func startClusters(t *testing.T) (i *scopedPods, westServer, eastServer *reflectortest.Server, stop func() error) {
	t.Helper()
	i, westServer, eastServer = newClusters(t)
	addScope(t, i, west, westServer)
	addScope(t, i, east, eastServer)
	stop = start(t, i)
	require.NoError(t, i.WaitForSync(t.Context()))
	return i, westServer, eastServer, stop
}

func TestClustersComeAndGoWhileTheInformerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, westServer, eastServer := newClusters(t)
		var d diary
		i.Handle(&d)
		addScope(t, i, west, westServer)
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))

		addScope(t, i, east, eastServer)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Equal(t, 2, i.Cache().Len())
		_, ok := i.Cache().Get(store.Key{Cluster: "east", Namespace: "default", Name: "a"})
		assert.True(t, ok)
		require.NoError(t, eastServer.Create(onNode("b", "n")))
		synctest.Wait()

		sources := i.scopes.all.Sources()
		dropped := sources[len(sources)-1]
		require.NoError(t, i.scopes.Drop(east))
		assert.Equal(t, reflector.Stopped, dropped.State().Phase, "nothing is written any more")
		assert.Equal(t, 1, i.Cache().Len())
		require.NoError(t, eastServer.Create(onNode("c", "n")))
		require.NoError(t, westServer.Create(onNode("c", "n")))
		synctest.Wait()
		require.Len(t, i.Scopes(), 1)

		addScope(t, i, east, eastServer)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, i.Ready())
		require.NoError(t, stop())
		assert.Equal(t, []string{
			"Addition west|default/a initial=true", "Addition east|default/a initial=true", "Addition east|default/b initial=false",
			"Deletion east|default/a initial=false", "Deletion east|default/b initial=false", "Addition west|default/c initial=false",
			"Addition east|default/a initial=true", "Addition east|default/b initial=true", "Addition east|default/c initial=true",
		}, d.read())
	})
}

func TestEachScopeResumesWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, westServer, eastServer, stop := startClusters(t)
		require.NoError(t, stop())
		require.NoError(t, eastServer.Create(onNode("b", "n")))
		for _, server := range []*reflectortest.Server{westServer, eastServer} {
			server.ForgetRequests()
		}
		stop = start(t, i)
		synctest.Wait()
		assert.Equal(t, 3, i.Cache().Len())
		for _, server := range []*reflectortest.Server{westServer, eastServer} {
			assert.Empty(t, server.Requests(reflectortest.Verb("list")))
			assert.Len(t, server.Requests(reflectortest.Verb("watch")), 1)
		}
		require.NoError(t, stop())
	})
}

func TestScopedInformerIsSyncedWhenAllItHasIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, westServer, eastServer := newClusters(t, informer.WithName("pods"))
		var d diary
		sub := i.Handle(&d)
		stop := start(t, i)
		err := i.WaitForSync(within(t, time.Second))
		require.EqualError(t, err, "informer pods is not synced; it has no scope yet; subscriber #1 waits for the first list: context deadline exceeded")
		require.EqualError(t, i.Ready(), "informer pods is not synced; it has no scope yet; subscriber #1 waits for the first list")
		assert.Equal(t, reflector.Stopped, i.State().Phase)

		eastServer.Inject(reflectortest.Answer(500).On("", "pods"))
		changed := i.Changed(i.State())
		addScope(t, i, east, eastServer) // first, or the informer could be synced in between
		addScope(t, i, west, westServer)
		synctest.Wait()
		assert.True(t, isDone(changed))
		assert.False(t, isDone(i.Synced()))
		assert.Equal(t, reflector.BackingOff, i.State().Phase, "the worst one counts")
		states := i.Scopes()
		require.Len(t, states, 2)
		assert.Equal(t, reflector.Watching, states[1].State.Phase)
		err = i.WaitForSync(within(t, time.Second))
		var why *informer.SyncError
		require.ErrorAs(t, err, &why)
		require.Len(t, why.Unsynced, 1)
		assert.Equal(t, east, why.Unsynced[0].Scope)
		assert.ErrorContains(t, err, "reflector of namespace east|default is BackingOff after attempt ")
		assert.ErrorContains(t, err, "reflector pods, namespace east|default: ")
		assert.False(t, isDone(sub.Synced()))

		result := make(chan error)
		go func() { result <- i.WaitForSync(t.Context()) }()
		synctest.Wait()
		require.NoError(t, i.scopes.Drop(east))
		require.NoError(t, <-result, "what is gone is not waited for")
		assert.True(t, isDone(sub.Synced()))
		assert.Equal(t, reflector.Watching, i.State().Phase)
		changed = i.Changed(i.State())
		seen := i.State()
		require.NoError(t, westServer.Create(onNode("b", "")))
		<-time.After(time.Minute)
		assert.False(t, isDone(changed), "an event or a bookmark is no change")
		assert.False(t, isDone(i.Changed(seen)))
		require.NoError(t, stop())
		assert.True(t, isDone(changed))
	})
}

func TestReadinessNamesTheScopeThatIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _, eastServer, stop := startClusters(t)
		eastServer.Inject(reflectortest.Answer(503).On("", "pods"))
		eastServer.Inject(reflectortest.ResetAfterEvents(0).On("watch", "pods"))
		<-time.After(time.Hour) // the watches of both ended by themselves
		var stale *informer.StaleError
		require.ErrorAs(t, i.Ready(), &stale)
		assert.Equal(t, east, stale.Scope.Scope)
		require.NoError(t, i.scopes.Drop(east))
		require.NoError(t, i.Ready())
		require.NoError(t, stop())
	})
}

func TestWrongScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, westServer, _ := newClusters(t, informer.WithName("pods"))
		client := clientOf(t, westServer).CoreV1()
		addScope(t, i, west, westServer)
		err := Add(i.scopes, west, client.Pods("default"))
		require.ErrorIs(t, err, store.ErrOutOfScope)
		assert.ErrorContains(t, err, "informer pods, namespace west|default: ")
		require.ErrorIs(t, Add(i.scopes, store.Scope{Cluster: "west"}, client.Pods("")), store.ErrOutOfScope)
		require.ErrorIs(t, i.scopes.Drop(east), ErrNoScope)
		assert.Len(t, i.Scopes(), 1)
	})
}

func TestFinalFailureOfOneScopeEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final := informer.WithReflector(reflector.WithRetry(func(err error) bool { return !apierrors.IsForbidden(err) }))
		i, westServer, eastServer := newClusters(t, final)
		eastServer.Inject(reflectortest.Answer(403).On("", "pods"))
		addScope(t, i, west, westServer)
		addScope(t, i, east, eastServer)
		err := i.Run(t.Context())
		assert.ErrorContains(t, err, "informer *v1.Pod, namespace east|default: ")
		assert.True(t, apierrors.IsForbidden(err))

		require.NoError(t, i.scopes.Drop(east))
		stop := start(t, i)
		synctest.Wait() // until then the failure of the last Run counts
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, stop())
	})
}

func TestGoexitOfTheReflectorOfOneScopeEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exiting := informer.WithErrorHandler(func(context.Context, error) { runtime.Goexit() }) // as FailNow of a test does
		i, westServer, eastServer := newClusters(t, exiting)
		eastServer.Inject(reflectortest.Answer(500).On("", "pods"))
		addScope(t, i, west, westServer)
		addScope(t, i, east, eastServer)
		waiting := make(chan error, 1)
		go func() { waiting <- i.WaitForSync(t.Context()) }()
		synctest.Wait()
		err := i.Run(t.Context())
		assert.ErrorIs(t, err, feed.ErrAbandoned)
		assert.ErrorContains(t, err, "namespace east|default")
		assert.ErrorIs(t, <-waiting, feed.ErrAbandoned)
	})
}

func TestHandlerMayDropTheScopeThatItHearsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, westServer, _ := newClusters(t)
		addScope(t, i, west, westServer)
		var gone []string
		i.Handle(informer.HandlerFuncs[*corev1.Pod]{
			OnAdd:    func(*corev1.Pod, bool) { assert.NoError(t, i.scopes.Drop(west)) },
			OnDelete: func(p *corev1.Pod, finalStateKnown bool) { gone = append(gone, fmt.Sprint(p.Name, finalStateKnown)) },
		})
		stop := start(t, i)
		synctest.Wait()
		assert.Equal(t, []string{"afalse"}, gone)
		require.NoError(t, stop())
	})
}

// inOrder returns a handler that checks that the prior object of each event is the last object that
// the handler got. Only KeepLatest sends a Deletion of an unknown object, without a prior object: it
// merges the Addition of the first list into the Deletion.
func inOrder(t *testing.T) informer.HandlerFunc[*corev1.Pod] {
	last := map[store.Key]*corev1.Pod{}
	return func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
		assert.Same(t, last[e.Key], e.Prior, "%v", e)
		assert.Equal(t, last[e.Key] != nil, e.PriorKnown, "%v", e)
		last[e.Key] = e.Object
		if e.Type == eventqueue.Deletion {
			delete(last, e.Key)
		}
		return nil
	}
}

func TestSlowHandlerGetsDeletionOfScopeItNeverSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, westServer, eastServer := newClusters(t)
		var d diary
		release, check := make(chan struct{}), inOrder(t)
		i.Handle(informer.HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-release
			return errors.Join(check(ctx, e), d.Handle(ctx, e))
		}))
		addScope(t, i, west, westServer)
		stop := start(t, i)
		synctest.Wait() // the handler has the object of west
		addScope(t, i, east, eastServer)
		synctest.Wait()
		assert.Equal(t, 2, i.Cache().Len())
		require.NoError(t, i.scopes.Drop(east))
		close(release)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, stop())
		assert.Equal(t, []string{"Addition west|default/a initial=true", "Deletion east|default/a initial=true"}, d.read())
	})
}

func TestScopesComeAndGoAsRunDoes(t *testing.T) {
	server := reflectortest.Start(t)
	for n := range 4 {
		p := onNode("a", "n")
		p.Namespace = fmt.Sprint("ns-", n)
		require.NoError(t, server.Create(p))
	}
	pods := clientOf(t, server).CoreV1()
	i := newPods()
	i.Handle(inOrder(t))
	i.Handle(inOrder(t), informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() {
			scope := store.Scope{Namespace: fmt.Sprint("ns-", n)}
			for range 20 {
				assert.NoError(t, Add(i.scopes, scope, pods.Pods(scope.Namespace)))
				_ = i.State()
				assert.NoError(t, i.scopes.Drop(scope))
			}
			assert.NoError(t, Add(i.scopes, scope, pods.Pods(scope.Namespace)))
		})
	}
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		workers.Go(cancel)
		assert.NoError(t, i.Run(ctx))
	}
	workers.Wait()
	stop := start(t, i)
	require.NoError(t, i.WaitForSync(t.Context()))
	require.NoError(t, stop())
	assert.Equal(t, 4, i.Cache().Len())
}

func TestScopedInformerCannotBeRestored(t *testing.T) {
	i := newPods()
	require.NoError(t, Add[*corev1.Pod, *corev1.PodList](i.scopes, west, nil))
	require.ErrorIs(t, i.Restore(nil, "1"), store.ErrOutOfScope)
	require.ErrorIs(t, i.Run(t.Context()), reflector.ErrNoClient)
}

func TestSelectsWhatAScopeMayHold(t *testing.T) {
	clientset := clientOf(t, reflectortest.Start(t))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	labelled := reflector.WithLabelSelector(labels.Set{"app": "x"}.AsSelector())
	scopes := New(store.ObjectKey[*corev1.ConfigMap])
	assert.False(t, scopes.Informer().Selects(object), "it has no scopes")
	add := func(namespace string, opts ...reflector.Option) {
		require.NoError(t, Add(scopes, store.Scope{Namespace: namespace}, clientset.CoreV1().ConfigMaps(namespace), opts...))
	}
	add("other")
	assert.False(t, scopes.Informer().Selects(object))
	add("ns", labelled)
	assert.False(t, scopes.Informer().Selects(object))
	object.Labels = map[string]string{"app": "x"}
	assert.True(t, scopes.Informer().Selects(object))
}

func TestWhatAnInformerCovers(t *testing.T) {
	server := reflectortest.Start(t)
	key := func(cluster, namespace string) store.Key {
		return store.Key{Cluster: cluster, Namespace: namespace, Name: "a"}
	}
	i := newPods()
	assert.False(t, i.Covers(key("", "n")))
	addScope(t, i, store.Scope{Namespace: "n"}, server)
	addScope(t, i, store.Scope{Cluster: "west"}, server, reflector.WithShard(store.Shards(store.ByUID, 2)[0]))
	addScope(t, i, store.Scope{Cluster: "east"}, server)
	assert.False(t, i.Covers(key("", "n")), "nothing is listed")
	stop := start(t, i)
	require.NoError(t, i.WaitForSync(t.Context()))
	assert.True(t, i.Covers(key("", "n")))
	assert.False(t, i.Covers(key("", "m")))
	assert.False(t, i.Covers(key("west", "n")), "only some of them")
	assert.True(t, i.Covers(key("east", "m")))
	require.NoError(t, stop())
}
