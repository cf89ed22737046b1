package informer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

func podWith(name string, set ...string) *corev1.Pod {
	pod := onNode(name, "n")
	pod.Labels = map[string]string{}
	for _, label := range set {
		pod.Labels[label] = "yes"
	}
	return pod
}

func with(label string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{label: "yes"})
}

// newSelectedPods returns an informer of three pods of a server.
func newSelectedPods(t *testing.T, selectors *Selectors, opts ...Option) (*Informer[*corev1.Pod], *reflectortest.Server) {
	server := reflectortest.Start(t)
	for _, pod := range []*corev1.Pod{podWith("a", "a"), podWith("ab", "a", "b"), podWith("b", "b")} {
		require.NoError(t, server.Create(pod))
	}
	return New(clientOf(t, server).CoreV1().Pods("default"), append(opts, WithName("pods"), WithSelectors(selectors))...), server
}

func TestSelectorsComeAndGoWhileTheInformerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var selectors Selectors
		i, server := newSelectedPods(t, &selectors)
		selectors.Add(with("a"))
		selectors.Add(with("a"))
		selectors.Add(labels.Nothing())
		var d diary
		i.Handle(keyed(&d))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		synctest.Wait()
		require.Len(t, i.Scopes(), 1)
		assert.Equal(t, "a=yes", i.Scopes()[0].Selector)

		selectors.Add(with("b"))
		require.NoError(t, selectors.WaitForSync(t.Context()))
		assert.Equal(t, 3, i.Cache().Len())
		require.NoError(t, i.Ready())
		synctest.Wait()

		require.NoError(t, server.Update(podWith("ab", "b"))) // one selector is enough
		synctest.Wait()
		ab, _ := i.Cache().Get(store.Key{Namespace: "default", Name: "ab"})
		assert.Equal(t, map[string]string{"b": "yes"}, ab.Labels)
		require.NoError(t, server.Update(podWith("b")))
		synctest.Wait()

		selectors.Remove(with("b"))
		selectors.Remove(with("b"))
		assert.Equal(t, 1, i.Cache().Len())
		assert.False(t, i.Covers(store.Key{Namespace: "default", Name: "ab"}), "it exists")
		require.NoError(t, server.Create(podWith("late", "b")))
		require.NoError(t, server.Update(podWith("a")))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{
			"Addition default/a initial=true", "Addition default/ab initial=true", "Addition default/b initial=false",
			"Modification default/ab initial=false", "Deletion default/b initial=false", "Deletion default/ab initial=false",
			"Deletion default/a initial=false",
		}, d.read())
		assert.Empty(t, server.Requests(reflectortest.Verb("list")), "every selector streams its first list")
	})
}

func TestSelectorsOfTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var selectors Selectors
		i, server := newSelectedPods(t, &selectors)
		selectors.Add(with("a"))
		selectors.Add(with("b"))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, stop())
		assert.Equal(t, 3, i.Cache().Len(), "the cache keeps the objects")

		selectors.Remove(with("b"))
		selectors.Add(with("c"))
		require.NoError(t, server.Create(podWith("a2", "a")))
		require.NoError(t, server.Create(podWith("c", "c")))
		stop = start(t, i)
		synctest.Wait()
		require.NoError(t, i.WaitForSync(t.Context()))
		var names []string
		for key := range i.Cache().All() {
			names = append(names, key.Name)
		}
		assert.Equal(t, []string{"a", "a2", "ab", "c"}, names)
		require.NoError(t, stop())
	})
}

func TestInformerWithoutSelectorsIsSyncedAndEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, server := newSelectedPods(t, new(Selectors))
		err := i.WaitForSync(within(t, time.Second))
		require.EqualError(t, err, "informer pods is not synced: context deadline exceeded")
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, i.Ready())
		assert.Zero(t, i.Cache().Len())
		assert.Empty(t, server.Requests())
		require.NoError(t, stop())
	})
}

func TestSelectorThatCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var selectors Selectors
		i, server := newSelectedPods(t, &selectors)
		selectors.Add(with("a"))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		server.Inject(reflectortest.Answer(500).On("", "pods"))
		selectors.Add(with("b"))
		err := selectors.WaitForSync(within(t, time.Second))
		require.ErrorContains(t, err, "selectors are not synced; reflector of b=yes is BackingOff after attempt ")
		var why *SyncError
		require.ErrorAs(t, i.Ready(), &why)
		assert.Equal(t, "b=yes", why.Unsynced[0].Selector)
		assert.Equal(t, reflector.BackingOff, i.State().Phase)
		assert.Equal(t, 2, i.Cache().Len())
		result := make(chan error, 1)
		go func() { result <- selectors.WaitForSync(t.Context()) }()
		synctest.Wait()
		selectors.Remove(with("b"))
		require.NoError(t, <-result)
		require.NoError(t, i.Ready())
		require.NoError(t, stop())
	})
}

// blocked is an informer in which the removal of a selector waits.
type blocked struct {
	feed.Changeable
	entered, release chan struct{}
}

func (b *blocked) AddSelector(labels.Selector)    {}
func (b *blocked) DropSelector(string)            { close(b.entered); <-b.release }
func (b *blocked) Sources() (none []*feed.Source) { return nil }

func TestWaitForSyncOfSelectorsEndsWhileRemoveWaits(t *testing.T) {
	var selectors Selectors
	one := &blocked{entered: make(chan struct{}), release: make(chan struct{})}
	leave := selectors.join(one, nil)
	selectors.Add(with("a"))
	removed := make(chan struct{})
	go func() { defer close(removed); selectors.Remove(with("a")) }()
	<-one.entered
	assert.NoError(t, selectors.WaitForSync(t.Context()))
	close(one.release)
	<-removed
	leave()
}

func TestObjectOfASelectorThatTheCacheRejectsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var selectors Selectors
		var errs []error
		i, server := newSelectedPods(t, &selectors, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
		selectors.Add(with("a"))
		var bad atomic.Bool
		bad.Store(true)
		_, err := store.AddIndex(i.Cache(), "node", func(pod *corev1.Pod) []string {
			if bad.Load() && pod.Name == "ab" {
				panic("bad")
			}
			return []string{pod.Spec.NodeName}
		})
		require.NoError(t, err)
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Equal(t, 1, i.Cache().Len())
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], store.ErrPanic)
		bad.Store(false)
		require.NoError(t, server.Create(onNode("other", "n"))) // the next bookmark has a later version
		server.SendBookmarks()
		synctest.Wait()
		assert.Equal(t, 2, i.Cache().Len())
		require.NoError(t, stop())
	})
}

func TestSelectsWhatTheCacheMayHold(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	labelled := reflector.WithLabelSelector(labels.Set{"app": "x"}.AsSelector())

	assert.True(t, New(clientset.CoreV1().ConfigMaps("")).Selects(object))
	assert.False(t, New(clientset.CoreV1().ConfigMaps(""), WithReflector(labelled)).Selects(object))

	fed := NewFed(nil, store.ObjectKey[*corev1.ConfigMap], func(feed.Target[*corev1.ConfigMap]) feed.Group { return feed.New(nil) })
	assert.True(t, fed.Selects(object), "nobody knows")
}
