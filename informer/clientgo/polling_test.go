package clientgo

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"
)

// computing is an extension server whose lists have no version.
type computing struct {
	watches bool
	mu      sync.Mutex
	names   []string
	open    chan watch.Event
}

func (c *computing) set(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = names
}

// breakOff ends the open watch.
func (c *computing) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != nil {
		close(c.open)
		c.open = nil
	}
}

func (c *computing) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &corev1.ConfigMapList{}
	for _, name := range c.names {
		object := named(name)
		object.ResourceVersion = ""
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

func (c *computing) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	resource := schema.GroupResource{Resource: "configmaps"}
	switch {
	case o.SendInitialEvents != nil:
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	case !c.watches:
		return nil, apierrors.NewMethodNotSupported(resource, "watch")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = make(chan watch.Event, 10)
	for _, name := range c.names {
		c.open <- watch.Event{Type: watch.Added, Object: named(name)}
	}
	return endless{c.open}, nil
}

// endless is a watch of a type of its own, because client-go's doubles are recognized by theirs.
type endless struct{ events chan watch.Event }

func (e endless) ResultChan() <-chan watch.Event { return e.events }
func (e endless) Stop() {
	defer func() { _ = recover() }() // breakOff may have closed it
	close(e.events)
}

func (c *computing) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		WatchFuncWithContext: c.Watch,
	}
}

func TestListWatchWithoutVersionsIsPolled(t *testing.T) {
	for name, watches := range map[string]bool{"watches": true, "no watches": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &computing{watches: watches, names: []string{"a", "b"}}
				s := NewSharedIndexInformer(server.listWatch(), &configMap{}, 0, nil).(*SharedIndexInformer[Object])
				run(t, s)
				require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.HasSynced))
				server.breakOff()
				server.set("a")
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{"default/a"}, s.GetStore().ListKeys(), "a list shows the deletion")
				assert.Equal(t, reflector.Polling, s.Informer().State().Phase)
				assert.Empty(t, s.LastSyncResourceVersion())
				<-time.After(10 * time.Minute)
				require.NoError(t, s.Informer().Ready())
			})
		})
	}
}

// TestFakeWatchAfterAListWithoutAVersion keeps tests of other projects, which turn watch-lists off and whose lists
// are those of a reactor.
func TestFakeWatchAfterAListWithoutAVersion(t *testing.T) {
	featuretesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	type double interface {
		watch.Interface
		Add(runtime.Object)
	}
	for name, make := range map[string]func() double{
		"one for all requests": func() double { return watch.NewFake() },
		"one a request":        func() double { return watch.NewRaceFreeFake() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &computing{names: []string{"a"}}
				from, fake := server.listWatch(), make()
				_, perRequest := fake.(*watch.RaceFreeFakeWatcher)
				from.WatchFuncWithContext = func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					if perRequest { // as an object tracker does
						fake = make()
					}
					return fake, nil
				}
				s := NewSharedIndexInformer(from, &configMap{}, 0, nil)
				run(t, s)
				require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.HasSynced))
				synctest.Wait() // until the watch is open
				fake.Add(named("b"))
				synctest.Wait()
				keys := s.GetStore().ListKeys()
				slices.Sort(keys)
				assert.Equal(t, []string{"default/a", "default/b"}, keys, "its events count")
			})
		})
	}
}
