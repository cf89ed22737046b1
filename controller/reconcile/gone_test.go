package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
)

var (
	ofX        = reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "x"}))
	mapsByName = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// labelled returns a ConfigMap that a selector of the label app selects if that is "x".
func labelled(name, app string) *corev1.ConfigMap {
	c := configMap(name)
	c.Labels = map[string]string{"app": app}
	return c
}

// gets returns the requests for single ConfigMaps.
func (w *world) gets() int {
	return len(w.server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("configmaps")))
}

// goneWorld is a world with a reconciler of selected ConfigMaps that notes each call.
type goneWorld struct {
	*world
	calls list // the name of the key, and whether there was an object
	fails func(name string, held bool) error
}

func newGoneWorld(t *testing.T, opts ...reflector.Option) *goneWorld {
	g := &goneWorld{world: newWorld(t)}
	g.configMaps = informer.New(g.client.CoreV1().ConfigMaps(""), informer.WithReflector(opts...))
	return g
}

func (g *goneWorld) reconciler(opts ...Option) *Reconciler[*corev1.ConfigMap] {
	return New("maps", g.configMaps, func(_ context.Context, key store.Key, object *corev1.ConfigMap) (Result, error) {
		g.calls.addHeld(key, object != nil)
		if g.fails != nil {
			return Result{}, g.fails(key.Name, object != nil)
		}
		return Result{}, nil
	}, append([]Option{g.ofSecrets}, opts...)...)
}

func (g *goneWorld) called() []string {
	synctest.Wait()
	return sorted(g.calls.take())
}

// See reconcile-R11.
func TestObjectThatStopsMatchingIsNotGone(t *testing.T) {
	for name, made := range map[string]func(*goneWorld) *informer.Informer[*corev1.ConfigMap]{
		"a generated client": func(g *goneWorld) *informer.Informer[*corev1.ConfigMap] {
			return informer.New(g.client.CoreV1().ConfigMaps(""), informer.WithReflector(ofX))
		},
		"a generated client of a namespace": func(g *goneWorld) *informer.Informer[*corev1.ConfigMap] {
			return informer.New(g.client.CoreV1().ConfigMaps("ns"), informer.WithReflector(ofX))
		},
		"a Resource": func(g *goneWorld) *informer.Informer[*corev1.ConfigMap] {
			of, err := client.ForResource[*corev1.ConfigMap](g.server.Config(), mapsByName, "")
			require.NoError(g.t, err)
			return informer.New(of, informer.WithReflector(ofX))
		},
		"a transformation": func(g *goneWorld) *informer.Informer[*corev1.ConfigMap] {
			same := func(c *corev1.ConfigMap) (*corev1.ConfigMap, error) { return c, nil }
			return informer.NewTransformed(g.client.CoreV1().ConfigMaps(""), same, store.ObjectKey[*corev1.ConfigMap], informer.WithReflector(ofX))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGoneWorld(t)
				g.configMaps = made(g)
				g.create(labelled("a", "x"), labelled("b", "x"))
				stop := g.run(g.reconciler())
				assert.Equal(t, []string{"a true", "b true"}, g.called())
				assert.Zero(t, g.gets())

				g.update(labelled("a", "y"))
				assert.Empty(t, g.called(), "it exists")
				assert.Equal(t, 1, g.gets())
				g.update(labelled("a", "x"))
				assert.Equal(t, []string{"a true"}, g.called(), "it is selected again")
				g.delete(configMap("b"))
				assert.Equal(t, []string{"b false"}, g.called())
				assert.Equal(t, 2, g.gets())
				require.NoError(t, stop())
			})
		})
	}
}

func TestWithoutASelectorTheWatchIsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t)
		g.create(configMap("a"), secret("of-b", "b"))
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true", "b false"}, g.called())
		g.delete(configMap("a"))
		assert.Equal(t, []string{"a false"}, g.called())
		assert.Zero(t, g.gets())
		require.NoError(t, stop())
	})
}

// See reconcile-R11.
func TestObjectThatTheCacheRejectedIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t)
		g.configMaps = informer.NewTransformed(g.client.CoreV1().ConfigMaps(""), func(c *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			if c.Name == "a" {
				return nil, errors.New("it is odd")
			}
			return c, nil
		}, store.ObjectKey[*corev1.ConfigMap])
		g.create(configMap("a"), secret("of-a", "a"))
		stop := g.run(g.reconciler())
		assert.Empty(t, g.called(), "it exists")
		assert.Equal(t, 1, g.gets())
		g.delete(configMap("a"))
		g.delete(secret("of-a", "a"))
		assert.Equal(t, []string{"a false"}, g.called())
		require.NoError(t, stop())
	})
}

func TestOwnerThatTheSelectorLeavesOutIsNotGone(t *testing.T) {
	for name, selector := range map[string]reflector.Option{
		"a label": ofX, "a field": reflector.WithFieldSelector(fields.OneTermEqualSelector("metadata.name", "x")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGoneWorld(t, selector)
				g.create(configMap("a"), secret("of-a", "a"), secret("of-b", "b"))
				for n := range 2 { // a program that starts again hears the same
					stop := g.run(g.reconciler())
					assert.Equal(t, []string{"b false"}, g.called(), "there is no b")
					changed := secret("of-a", "a")
					changed.Labels = map[string]string{"run": fmt.Sprint(n)}
					g.update(changed)
					assert.Empty(t, g.called())
					require.NoError(t, stop())
				}
			})
		})
	}
}

func TestObjectThatWasReplacedIsGoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		g.create(labelled("a", "x"))
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true"}, g.called())
		g.delete(configMap("a"))
		g.create(labelled("a", "y"))
		assert.Equal(t, []string{"a false"}, g.called(), "the one that was there is gone")
		g.create(secret("of-a", "a"))
		assert.Empty(t, g.called(), "the other one exists, and is none of this program's")
		require.NoError(t, stop())
	})
}

// The first object is gone, and the function has never heard of the second one.
func TestObjectWhoseSuccessorStopsMatchingIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		g.create(labelled("a", "x"))
		working, release := make(chan struct{}), make(chan struct{})
		g.fails = func(string, bool) error {
			if working != nil {
				close(working)
				working = nil
				<-release
			}
			return nil
		}
		begun := working
		stop := g.run(g.reconciler())
		<-begun
		g.delete(configMap("a"))
		g.create(labelled("a", "x"))
		g.update(labelled("a", "y"))
		synctest.Wait()
		close(release)
		assert.Equal(t, []string{"a false", "a true"}, g.called())
		require.NoError(t, stop())
	})
}

// The function fails with the second object, which then stops matching: what it has made for that one
// must stay.
func TestObjectThatSucceedsAnotherAndStopsMatchingIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		g.create(labelled("a", "x"))
		working, release := make(chan struct{}), make(chan struct{})
		calls := 0
		g.fails = func(string, bool) error {
			calls++
			switch calls {
			case 1:
				close(working)
				<-release
				return nil
			case 2:
				return errors.New("failed")
			}
			return nil
		}
		stop := g.run(g.reconciler(WithQueue(eventqueue.WithBackoff(time.Minute, time.Minute))))
		<-working
		g.delete(configMap("a"))
		g.create(labelled("a", "x"))
		synctest.Wait()
		close(release)
		synctest.Wait()
		assert.Equal(t, []string{"a true", "a true"}, g.called())
		g.update(labelled("a", "y"))
		<-time.After(time.Hour)
		assert.Empty(t, g.called())
		g.delete(configMap("a"))
		<-time.After(time.Hour)
		assert.Empty(t, g.called(), "the watch does not show the deletion")
		require.NoError(t, stop())
	})
}

func TestQuestionWhetherAnObjectIsGoneIsAskedUntilItIsAnswered(t *testing.T) {
	for name, fault := range map[string]reflectortest.Fault{
		"forbidden":      reflectortest.Answer(403),
		"not answering":  reflectortest.Stall(nil),
		"failing":        reflectortest.Answer(500),
		"not reachable":  reflectortest.Refuse(),
		"something else": reflectortest.ResetAfterBytes(0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGoneWorld(t, ofX)
				var reported errorList
				g.create(labelled("a", "x"), labelled("b", "x"))
				stop := g.run(g.reconciler(WithErrorHandler(reported.note)))
				assert.Equal(t, []string{"a true", "b true"}, g.called())
				broken := g.server.Inject(fault.On("get", "configmaps"))
				g.update(labelled("a", "y"))
				g.delete(configMap("b"))
				<-time.After(time.Hour)
				assert.Empty(t, g.called(), "nobody knows")
				errs := reported.take()
				assert.Greater(t, len(errs), 4, "it is tried again")
				assert.Less(t, len(errs), 100, "with a back-off")
				failure, ok := errors.AsType[*eventqueue.HandlerError](errs[0])
				require.True(t, ok)
				assert.Contains(t, failure.Error(), "cannot tell whether ns/"+failure.Key.Name+" is gone")
				if name == "forbidden" {
					assert.True(t, apierrors.IsForbidden(failure), failure)
					assert.Contains(t, failure.Error(), "allow the program to get the objects")
				}
				assert.Less(t, len(failure.Error()), 1024)
				broken.Remove()
				<-time.After(10 * time.Minute)
				assert.Equal(t, []string{"b false"}, g.called())
				require.NoError(t, stop())
			})
		})
	}
}

func TestRepeatedCleanupAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		g.create(labelled("a", "x"))
		left := 5
		g.fails = func(_ string, held bool) error {
			if left--; held || left < 0 {
				return nil
			}
			return errors.New("no")
		}
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true"}, g.called())
		g.delete(configMap("a"))
		<-time.After(time.Hour)
		assert.Equal(t, []string{"a false", "a false", "a false", "a false", "a false"}, g.called())
		assert.Equal(t, 1, g.gets())
		require.NoError(t, stop())
	})
}

// An object that matches again while the server is asked is an event like any other.
func TestObjectThatMatchesAgainDuringTheQuestionIsReconciled(t *testing.T) {
	for name, opts := range map[string][]Option{"": nil, "own writes ignored": {IgnoreOwnWrites()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGoneWorld(t, ofX)
				g.create(labelled("a", "x"))
				stop := g.run(g.reconciler(opts...))
				assert.Equal(t, []string{"a true"}, g.called())
				release := make(chan struct{})
				g.server.Inject(reflectortest.Stall(release).On("get", "configmaps"))
				g.update(labelled("a", "y"))
				synctest.Wait()
				g.update(labelled("a", "x"))
				synctest.Wait()
				close(release)
				assert.Equal(t, []string{"a true"}, g.called())
				require.NoError(t, stop())
			})
		})
	}
}

// The answer says that there is no object, and is older than what the cache has when it arrives.
func TestObjectThatIsCreatedAgainDuringTheQuestionIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t)
		g.configMaps = informer.New(g.client.CoreV1().ConfigMaps(""), informer.WithGet(func(_ context.Context, key store.Key) (metav1.Object, error) {
			assert.NoError(t, g.server.Create(configMap(key.Name)))
			<-time.After(time.Second) // the watch is faster than the answer
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
		}))
		g.create(configMap("a"))
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true"}, g.called())
		g.delete(configMap("a"))
		<-time.After(time.Minute)
		assert.Equal(t, []string{"a true", "a true"}, g.called(), "for the end of the old object, and for the new one")
		require.NoError(t, stop())
	})
}

func TestRelistThatMissesAnObjectAsksWhetherItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		g.create(labelled("a", "x"), labelled("b", "x"), labelled("c", "x"))
		expired := metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
		g.server.Inject(reflectortest.ErrorEvent(5, expired).On("watch", "configmaps").Times(1)) // after three objects, a bookmark and an event
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true", "b true", "c true"}, g.called())
		g.touch("c", "4") // the last event of the watch
		synctest.Wait()
		g.calls.take()
		g.update(labelled("a", "y"))
		g.delete(configMap("b"))
		<-time.After(10 * time.Minute)
		assert.Equal(t, []string{"b false"}, g.called())
		require.NoError(t, stop())
	})
}

// The one who removes the label of an object that is being deleted takes it from the program, and its
// finalizer with it.
func TestObjectThatEndsAndStopsMatchingIsNotReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		c := labelled("a", "x")
		c.Finalizers = []string{"example.com/cleanup"}
		g.create(c)
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true"}, g.called())
		g.delete(configMap("a"))
		assert.Equal(t, []string{"a true"}, g.called(), "it is being deleted")
		require.NoError(t, g.server.Get(c))
		c.Labels = nil
		g.update(c)
		assert.Empty(t, g.called(), "it exists")
		c.Finalizers = nil
		g.update(c)
		assert.Empty(t, g.called(), "it left before it was gone")
		require.NoError(t, stop())
	})
}

func TestShardAsksWhetherItsObjectIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, reflector.WithShard(store.Shard{By: store.ByNamespace, To: store.ShardHash("ns") + 1}))
		g.create(configMap("a"), secret("of-b", "b"))
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true"}, g.called(), "another process may be responsible for b")
		assert.Zero(t, g.gets())
		g.delete(configMap("a"))
		assert.Equal(t, []string{"a false"}, g.called())
		assert.Equal(t, 1, g.gets())
		require.NoError(t, stop())
	})
}

func TestScopesAskWhetherTheirObjectsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t)
		scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap])
		g.configMaps = scopes.Informer()
		scope := store.Scope{Namespace: "ns"}
		require.NoError(t, scoped.Add(scopes, scope, g.client.CoreV1().ConfigMaps("ns"), ofX))
		g.create(labelled("a", "x"), labelled("b", "x"), labelled("c", "x"), secret("of-d", "d"))
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true", "b true", "c true", "d false"}, g.called())
		g.update(labelled("a", "y"))
		g.delete(configMap("b"))
		assert.Equal(t, []string{"b false"}, g.called())

		g.server.Inject(reflectortest.Answer(500).On("get", "configmaps"))
		g.update(labelled("c", "y"))
		synctest.Wait()
		require.NoError(t, scopes.Drop(scope))
		<-time.After(time.Hour)
		assert.Empty(t, g.called(), "c exists, and nobody can be asked any more")
		require.NoError(t, stop())
	})
}

func TestKeyOfAnotherNamespaceIsNotReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t)
		g.configMaps = informer.New(g.client.CoreV1().ConfigMaps("other"))
		g.create(configMap("a"), secret("of-a", "a"))
		stop := g.run(g.reconciler())
		assert.Empty(t, g.called(), "it exists, where the informer does not look")
		require.NoError(t, stop())
	})
}

func TestMetadataWithASelectorAskWhetherObjectsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		resources, err := metadata.NewForConfig(w.server.Config())
		require.NoError(t, err)
		dynamics, err := dynamic.NewForConfig(w.server.Config())
		require.NoError(t, err)
		metas := informer.New(client.Metadata(resources.Resource(mapsByName)), informer.WithReflector(ofX))
		maps := informer.New(client.Dynamic(dynamics.Resource(mapsByName)), informer.WithReflector(ofX))
		listed := informer.New(client.ListWatch[*corev1.ConfigMap](w.client.CoreV1().ConfigMaps("")), informer.WithReflector(ofX))
		var log list
		ctx, cancel := context.WithCancel(t.Context())
		w.create(labelled("a", "x"), labelled("b", "x"))
		ended := make(chan error, 6)
		for _, one := range []interface{ Run(context.Context) error }{
			metas, maps, listed,
			New("metadata", metas, noted[*metav1.PartialObjectMetadata](&log, "metadata")),
			New("dynamic", maps, noted[*unstructured.Unstructured](&log, "dynamic")),
			New("listed", listed, noted[*corev1.ConfigMap](&log, "listed")),
		} {
			go func() { ended <- one.Run(ctx) }()
		}
		synctest.Wait()
		log.take()
		w.update(labelled("a", "y"))
		w.delete(configMap("b"))
		synctest.Wait()
		assert.Equal(t, []string{"dynamic b false", "listed b false", "metadata b false"}, sorted(log.take()))
		cancel()
		for range 6 {
			require.NoError(t, <-ended)
		}
	})
}

// noted returns a function that notes its calls under a name.
func noted[T metav1.Object](log *list, name string) Func[T] {
	return func(_ context.Context, key store.Key, object T) (Result, error) {
		log.addHeld(store.Key{Name: name + " " + key.Name}, !stream.IsNil(object))
		return Result{}, nil
	}
}

// selecting is a client that selects by itself.
type selecting struct {
	typedcorev1.ConfigMapInterface
}

func (s selecting) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	opts.LabelSelector = "app=x"
	return s.ConfigMapInterface.List(ctx, opts)
}

func (s selecting) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector = "app=x"
	return s.ConfigMapInterface.Watch(ctx, opts)
}

// A client that selects by itself looks like one that does not.
func TestWithGetAsksForObjectsOfAClientThatSelectsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t)
		maps := g.client.CoreV1().ConfigMaps("")
		g.configMaps = informer.New(selecting{maps}, informer.WithGet(func(ctx context.Context, key store.Key) (metav1.Object, error) {
			return g.client.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		}))
		g.create(labelled("a", "x"), labelled("b", "x"), labelled("c", "y"), secret("of-c", "c"))
		stop := g.run(g.reconciler())
		assert.Equal(t, []string{"a true", "b true"}, g.called())
		assert.False(t, g.configMaps.Covers(store.Key{Namespace: "ns", Name: "c"}))
		g.update(labelled("a", "y"))
		g.delete(configMap("b"))
		assert.Equal(t, []string{"b false"}, g.called())
		require.NoError(t, stop())
	})
}

func TestQuestionEndsWithTheReconciler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoneWorld(t, ofX)
		g.create(labelled("a", "x"))
		stop := g.run(g.reconciler(WithDrainTimeout(time.Second)))
		assert.Equal(t, []string{"a true"}, g.called())
		g.server.Inject(reflectortest.Stall(nil).On("get", "configmaps"))
		g.update(labelled("a", "y"))
		synctest.Wait()
		began := time.Now()
		left, ok := errors.AsType[*eventqueue.DrainError](stop())
		require.True(t, ok, "the key is left")
		assert.Contains(t, fmt.Sprint(left), "ns/a")
		assert.Less(t, time.Since(began), 5*time.Second)
		assert.Empty(t, g.called())
	})
}

func TestKeyWithoutAFurtherCallIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		selected := informer.New(w.client.CoreV1().ConfigMaps(""), informer.WithReflector(ofX))
		all, err := dynamic.NewForConfig(w.server.Config())
		require.NoError(t, err)
		// a client that cannot learn their scope
		nodes := informer.New(client.Dynamic(all.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))))
		var calls, uncalled list
		failing := func(_ context.Context, key store.Key, gone bool) (Result, error) {
			calls.add(key.String())
			if gone {
				return Result{}, errors.New("ouch")
			}
			return Result{}, nil
		}
		note := OnUncalled(ours.Only{}, func(key store.Key) { uncalled.add(key.String()) })
		ofMaps := New("maps", selected, func(ctx context.Context, key store.Key, c *corev1.ConfigMap) (Result, error) {
			return failing(ctx, key, c == nil)
		}, note)
		ofNodes := New("nodes", nodes, func(ctx context.Context, key store.Key, n *unstructured.Unstructured) (Result, error) {
			return failing(ctx, key, n == nil)
		}, note)
		var stops []func() error
		for _, one := range []interface{ Run(context.Context) error }{ofMaps, ofNodes, selected, nodes} {
			stops = append(stops, runMember(t, one))
		}
		require.NoError(t, errors.Join(ofMaps.WaitForSync(t.Context()), ofNodes.WaitForSync(t.Context())))
		ofMaps.Enqueue(store.Key{Namespace: "ns", Name: "a"})
		ofNodes.Enqueue(store.Key{Namespace: "ns", Name: "n"})
		<-time.After(time.Hour)
		assert.Subset(t, calls.take(), []string{"ns/a", "ns/n"})
		assert.Empty(t, uncalled.take(), "failed calls are repeated")

		w.create(labelled("a", "y"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		<-time.After(time.Hour)
		assert.ElementsMatch(t, []string{"ns/a", "ns/n"}, uncalled.take())
		calls.take()
		<-time.After(time.Hour)
		assert.Empty(t, calls.take())
		assert.Empty(t, uncalled.take())
		for _, stop := range stops {
			require.NoError(t, stop())
		}
	})
}
