package informer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/guard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
)

func TestOptionsReachTheReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		down := errors.New("down")
		clientset.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
		core, logs := observer.New(zap.WarnLevel)
		var failures []error
		i := New(clientset.CoreV1().Pods("default"), WithLogger(zap.New(core)),
			WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }),
			WithReflector(reflector.WithName("my pods")))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		require.Len(t, failures, 1)
		assert.EqualError(t, failures[0], `reflector my pods: list at resource version "0": down`)
		assert.Equal(t, 1, logs.Len())
	})
}

func TestInformerOverAClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}})
		pods := clientset.CoreV1().Pods("default")
		i := New(pods)
		byNode, err := store.AddIndex(i.Cache(), "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		require.NoError(t, err)
		var d diary
		i.Handle(d.funcs())
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, reflector.Watching, i.State().Phase)
		_, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: corev1.PodSpec{NodeName: "n1"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for key := range byNode.Get("n1") {
			assert.Equal(t, "default/new", key.String())
		}
		changed := i.Changed(i.State())
		require.NoError(t, stop())
		assert.True(t, isDone(changed))
		assert.Equal(t, []string{"initial old@", "add new@"}, d.read())
		assert.Equal(t, 2, i.Cache().Len())
	})
}

// site is all that a subscriber wants to know of a pod: no metadata.
type site struct{ namespace, name, node string }

func (s site) key() (store.Key, error) { return store.Key{Namespace: s.namespace, Name: s.name}, nil }

var errNoNode = errors.New("no node")

func siteOf(p *corev1.Pod) (site, error) {
	if p.Spec.NodeName == "" {
		return site{}, errNoNode
	}
	return site{p.Namespace, p.Name, p.Spec.NodeName}, nil
}

func TestTransformedInformerOfATypeWithoutMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n1")))
		require.NoError(t, server.Create(onNode("b", "n1")))
		calls := map[string]int{}
		var failures []error
		i := NewTransformed(clientOf(t, server).CoreV1().Pods("default"), func(p *corev1.Pod) (site, error) {
			calls[p.Name]++
			return siteOf(p)
		}, site.key, WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		var mu sync.Mutex // protects told
		var told []eventqueue.Event[site]
		events := func() []eventqueue.Event[site] {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}
		i.Handle(HandlerFunc[site](func(_ context.Context, e eventqueue.Event[site]) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
			return nil
		}), WithResync(time.Minute))
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, "informer.site", i.Name())
		got, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
		assert.True(t, ok)
		assert.Equal(t, site{"default", "a", "n1"}, got)
		assert.Len(t, events(), 2)

		<-time.After(90 * time.Second)
		synctest.Wait()
		require.Len(t, events(), 4)
		assert.Equal(t, map[string]int{"a": 1, "b": 1}, calls, "a resync does not transform again")

		require.NoError(t, server.Update(onNode("a", "n2")))
		zero := int64(0)
		require.NoError(t, clientOf(t, server).CoreV1().Pods("default").Delete(t.Context(), "b", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
		require.NoError(t, server.Create(onNode("b", "n1")))
		synctest.Wait()
		require.NoError(t, stop())
		var words []string
		for _, e := range events()[4:] {
			words = append(words, e.String()+" "+e.Prior.node+">"+e.Object.node)
		}
		// A pod is marked before it is deleted. The two are one event unless the handler is quick.
		words = slices.DeleteFunc(words, func(w string) bool { return w == "Modification of default/b (Watch) n1>n1" })
		assert.Equal(t, []string{
			"Modification of default/a (Watch) n1>n2", "Deletion of default/b (Watch) n1>n1", "Addition of default/b (Watch) >n1",
		}, words)
		assert.Empty(t, failures)
	})
}

func TestObjectThatCannotBeTransformedIsReportedAndComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n1")))
		require.NoError(t, server.Create(onNode("b", "")))
		var failures []error
		i := NewTransformed(clientOf(t, server).CoreV1().Pods("default"), siteOf, site.key,
			WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, 1, i.Cache().Len(), "everything else is there")
		require.NotEmpty(t, failures)
		assert.ErrorIs(t, failures[0], errNoNode)
		require.NoError(t, server.Update(onNode("b", "n2")))
		<-time.After(time.Minute)
		assert.Equal(t, 2, i.Cache().Len())
		require.NoError(t, stop())
	})
}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

func TestMetadataIsTypedByTheKindThatItStandsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(labelled(onNode("a", "n"), "web")))
		resource, err := metadata.NewForConfig(server.Config())
		require.NoError(t, err)
		i := NewMetadata[corev1.Pod](resource.Resource(podResource).Namespace("default"))
		byApp, err := store.AddIndex(i.Cache(), "app", func(m Metadata[corev1.Pod]) []string { return []string{m.Labels["app"]} })
		require.NoError(t, err)
		gone := ""
		i.Handle(HandlerFuncs[Metadata[corev1.Pod]]{OnDelete: func(m Metadata[corev1.Pod], _ bool) { gone = m.Name }})
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Equal(t, "informer.Metadata[k8s.io/api/core/v1.Pod]", i.Name())
		for _, found := range byApp.Get("web") {
			assert.Equal(t, "a", found.Name)
		}
		assert.Equal(t, []string{"web"}, slices.Collect(byApp.Values()))
		require.NoError(t, server.Delete(onNode("a", "n")))
		synctest.Wait()
		assert.Equal(t, "a", gone)
		require.NoError(t, stop())
	})
	require.ErrorIs(t, NewMetadata[corev1.Node](nil).Run(t.Context()), reflector.ErrNoClient)
}

func TestUnstructuredInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		resource, err := dynamic.NewForConfig(server.Config())
		require.NoError(t, err)
		i := New(client.Dynamic(resource.Resource(podResource).Namespace("default")))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		object, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
		require.True(t, ok)
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		assert.Equal(t, "n", node)
		require.NoError(t, stop())
	})
}

// oneByOne is a feed that stores what comes from a channel.
type oneByOne struct {
	into   store.Store[*corev1.Pod]
	report func(context.Context, error)
	pods   chan *corev1.Pod
	synced chan struct{}
	once   sync.Once
}

func (f *oneByOne) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-f.pods:
			if p == nil {
				return errors.New("no more pods")
			}
			if err := f.into.Replace([]*corev1.Pod{p}, p.ResourceVersion); err != nil {
				f.report(ctx, err)
			}
			f.once.Do(func() { close(f.synced) })
		}
	}
}

func (f *oneByOne) State() reflector.State                  { return reflector.State{Phase: reflector.Watching} }
func (f *oneByOne) Changed(reflector.State) <-chan struct{} { return nil }
func (f *oneByOne) Synced() <-chan struct{}                 { return f.synced }

func TestFeedOfYourOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &oneByOne{pods: make(chan *corev1.Pod), synced: make(chan struct{})}
		logged, logs := observer.New(zap.WarnLevel)
		var told []error
		i := NewFed(nil, store.ObjectKey[*corev1.Pod], func(target feed.Target[*corev1.Pod]) feed.Group {
			f.into, f.report = target.Into, target.Report
			return feed.New(f)
		}, WithName("fed"), WithLogger(zap.New(logged)), WithErrorHandler(func(_ context.Context, err error) {
			told = append(told, err)
			panic("ouch")
		}))
		var d diary
		i.Handle(d.funcs())
		result := make(chan error, 1)
		go func() { result <- i.Run(t.Context()) }()
		f.pods <- pod("a", "u1", 1)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Equal(t, reflector.Watching, i.State().Phase)
		f.pods <- pod("", "u2", 2)
		f.pods <- pod("b", "u3", 3)
		f.pods <- nil
		assert.ErrorContains(t, <-result, "no more pods")

		assert.Equal(t, []string{"initial a@1", "missing a@1", "add b@3"}, d.read())
		require.Len(t, told, 1)
		assert.ErrorIs(t, told[0], store.ErrBadKey)
		require.Equal(t, 2, logs.Len())
		assert.Equal(t, "fed", logs.All()[0].ContextMap()["informer"])
		assert.Equal(t, "error handler panicked", logs.All()[1].Message)
	})
}

func TestNilStoreIsAnErrorOfRun(t *testing.T) {
	i := NewStored(clientOf(t, reflectortest.Start(t)).CoreV1().Pods("default"), nil)
	assert.ErrorIs(t, i.Run(t.Context()), reflector.ErrNoStore)
	var none *testBacking // as of an Open that failed
	i = NewStored(clientOf(t, reflectortest.Start(t)).CoreV1().Pods("default"), none)
	assert.ErrorIs(t, i.Run(t.Context()), reflector.ErrNoStore)
}

// State, log and error handler report a rejected object, and the cache stores it when
// there is room.
func TestInformerSaysThatItsCacheIsOverItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, server.Create(onNode(name, strings.Repeat("n", 30))))
		}
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		var mu sync.Mutex
		var failed error
		i := New(client.CoreV1().Pods("default"), WithErrorHandler(func(_ context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}))
		budget, err := store.AddBudget(i.Cache(), 70, func(p *corev1.Pod) int64 { return int64(len(p.Spec.NodeName)) })
		require.NoError(t, err)
		stop := start(t, i)
		synctest.Wait()
		assert.Equal(t, 2, i.Cache().Len())
		assert.EqualValues(t, 60, budget.Bytes())
		assert.Empty(t, i.Cache().ResourceVersion(), "it is not complete")
		mu.Lock()
		require.ErrorIs(t, failed, store.ErrOverBudget)
		mu.Unlock()
		require.ErrorIs(t, i.State().Err, store.ErrOverBudget)
		assert.ErrorContains(t, i.State().Err, "70 are allowed")
		var asked *reflector.Error
		require.ErrorAs(t, failed, &asked)
		assert.Equal(t, "c", asked.Key.Name)

		require.NoError(t, server.Delete(onNode("a", "")))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, i.Cache().Len())
		_, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "c"})
		assert.True(t, ok)
		assert.NotEmpty(t, i.Cache().ResourceVersion())
		require.NoError(t, stop())
	})
}

func TestGuardNamesTheSubscriberThatChangesAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		var mu sync.Mutex
		var told []*guard.MutationError
		found := func() []*guard.MutationError {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { told = nil }()
			return told
		}
		i := New(client.CoreV1().Pods("default"), WithName("pods"), WithMutationGuard(guard.Report(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if e, ok := errors.AsType[*guard.MutationError](err); ok {
				told = append(told, e)
			}
		})))
		i.Handle(HandlerFuncs[*corev1.Pod]{OnUpdate: func(_, pod *corev1.Pod) {
			if pod.Spec.NodeName == "m" {
				pod.Spec.NodeName = "mine"
			}
		}}, WithName("culprit"))
		puller := i.Subscribe(WithName("puller"))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Empty(t, found())

		require.NoError(t, server.Update(onNode("a", "m")))
		all := found()
		require.Len(t, all, 1)
		assert.Equal(t, "spec.nodeName", all[0].Path)
		assert.Equal(t, `"m"`, all[0].Was)
		assert.Equal(t, `"mine"`, all[0].Is)
		assert.Equal(t, "pods", all[0].Guard)
		assert.Equal(t, []string{"culprit"}, all[0].Suspects)

		require.NoError(t, server.Update(onNode("a", "o")))
		synctest.Wait()
		for event := range puller.Consume(t.Context()) {
			event.Object.Labels = map[string]string{"seen": "yes"}
			break
		}
		all = found()
		require.Len(t, all, 1)
		assert.Equal(t, []string{"puller"}, all[0].Suspects)

		held, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
		require.True(t, ok)
		held.Labels["seen"] = "no"
		require.NoError(t, stop())
		all = found()
		require.Len(t, all, 1, "the end of Run finds the rest")
		assert.Empty(t, all[0].Suspects)
	})
}
