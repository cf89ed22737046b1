package reconcile

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// securing returns a function that creates the Secret of a key, with a generated name,
// unless the cache has one, and notes how many the cache had.
func (w *world) securing(got *list) function {
	return func(ctx context.Context, key store.Key) (Result, error) {
		held := 0
		for _, s := range w.secrets.Cache().All() {
			if s.OwnerReferences[0].Name == key.Name {
				held++
			}
		}
		got.add(key.Name + strconv.Itoa(held))
		if held > 0 {
			return Result{}, nil
		}
		s := secret("", key.Name)
		s.GenerateName = key.Name
		_, err := w.creator.Create(ctx, s, metav1.CreateOptions{})
		return Result{}, err
	}
}

// deafen has the watch of the Secrets stop after a number of events, until release is called.
func (w *world) deafen(events int) (release func()) {
	released := make(chan struct{})
	w.server.Inject(reflectortest.StallAfterEvents(events, released).On("watch", "secrets").Times(1))
	return func() { close(released) }
}

func TestKeyWaitsUntilTheCacheShowsWhatWasWrittenForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.deafen(1)
		w.create(configMap("a"))
		var got list
		stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets))
		synctest.Wait()
		assert.Equal(t, []string{"a0"}, got.take())
		w.touch("a", "1")
		w.touch("a", "2")
		<-time.After(10 * time.Second)
		assert.Empty(t, got.take(), "the cache has no Secret yet")
		w.create(configMap("b"))
		synctest.Wait()
		assert.Equal(t, []string{"b0"}, got.take(), "others are not held up")
		release()
		synctest.Wait()
		assert.Equal(t, []string{"a1", "b1"}, slices.Compact(sorted(got.take())))
		require.NoError(t, stop())
	})
}

// Some servers have versions that are no numbers, so nothing tells whether a cache is behind.
func TestWriteThatCannotBeWaitedForIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var got list
		core, logs := observer.New(zap.WarnLevel)
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			got.add(key.Name)
			s := secret("s", key.Name)
			s.UID, s.ResourceVersion = "1", "four"
			RecordWrite(ctx, s)
			return Result{}, nil
		}, w.ofSecrets, WithLogger(zap.New(core))))
		synctest.Wait()
		w.touch("a", "1")
		synctest.Wait()
		assert.Equal(t, []string{"a", "a"}, got.take(), "the key does not wait")
		require.NoError(t, stop())
		all := logs.FilterMessage(cannotWait).All()
		if assert.Len(t, all, 1) {
			assert.Contains(t, all[0].ContextMap()["error"], `"four"`)
		}
		assert.Equal(t, 1, logs.Len())
	})
}

func TestKeyThatDoesNotWantToWaitDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.deafen(1)
		w.create(configMap("a"))
		var got list
		core, logs := observer.New(zap.WarnLevel)
		stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets, WithReadYourWritesTimeout(0), WithLogger(zap.New(core))))
		synctest.Wait()
		w.touch("a", "1")
		synctest.Wait()
		assert.Equal(t, []string{"a0", "a0"}, got.take())
		release()
		require.NoError(t, stop())
		assert.Zero(t, logs.Len())
	})
}

func TestFailuresAndTimesWaitForTheCacheAsWell(t *testing.T) {
	for name, result := range map[string]Result{"failure": {}, "time": {RequeueAfter: time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				release := w.deafen(1)
				w.create(configMap("a"))
				var got list
				secure := w.securing(&got)
				stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					before := w.secrets.Cache().Len()
					_, err := secure(ctx, key)
					if before == 0 && err == nil && name == "failure" {
						err = assert.AnError
					}
					if before > 0 {
						return Result{}, err
					}
					return result, err
				}, w.ofSecrets))
				<-time.After(10 * time.Second)
				assert.Equal(t, []string{"a0"}, got.take())
				release()
				synctest.Wait()
				assert.Equal(t, []string{"a1"}, slices.Compact(sorted(got.take())))
				require.NoError(t, stop())
			})
		})
	}
}

func TestWhatTheCacheNeverShowsIsWaitedForUntilABookmarkOrForALimitedTime(t *testing.T) {
	for name, bookmark := range map[string]bool{"bookmark": true, "time": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.secrets = informer.New(w.client.CoreV1().Secrets("other"))
				w.ofSecrets = Watch(w.secrets, ByLabel[*corev1.Secret]("nothing"))
				core, logs := observer.New(zap.WarnLevel)
				w.create(configMap("a"))
				var got list
				var calls atomic.Int64
				stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					if calls.Add(1) == 1 {
						return w.securing(&got)(ctx, key)
					}
					return Result{}, nil
				}, w.ofSecrets, WithReadYourWritesTimeout(10*time.Second), WithLogger(zap.New(core))))
				synctest.Wait()
				w.touch("a", "1")
				<-time.After(9 * time.Second)
				assert.EqualValues(t, 1, calls.Load())
				if bookmark {
					w.server.SendBookmarks()
					synctest.Wait()
				} else {
					<-time.After(30 * time.Second)
					assert.EqualValues(t, 1, calls.Load(), "the cache is behind")
					<-time.After(20 * time.Minute) // the watch ends, and the next one begins with a bookmark
				}
				assert.EqualValues(t, 2, calls.Load())
				assert.Equal(t, !bookmark, logs.FilterMessageSnippet("key waits on").Len() > 0)
				require.NoError(t, stop())
			})
		})
	}
}

func TestWhatTheSelectorLeavesOutIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		selected := labels.Set{"some": "body"}
		w := newWorld(t, informer.WithReflector(reflector.WithLabelSelector(selected.AsSelector())))
		core, logs := observer.New(zap.WarnLevel)
		s := secret("s", "a")
		s.Labels = selected
		w.create(configMap("a"), s)
		release := w.deafen(2)
		calls := 0
		var held []int
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			held = append(held, w.secrets.Cache().Len())
			var err error
			var now *corev1.Secret
			switch calls++; calls {
			case 1:
				now, err = w.client.CoreV1().Secrets("ns").Create(ctx, secret("t", "a"), metav1.CreateOptions{})
				RecordWrite(ctx, now)
			case 2:
				now, err = w.client.CoreV1().Secrets("ns").Update(ctx, secret("s", "a"), metav1.UpdateOptions{})
				RecordWrite(ctx, now)
			}
			return Result{}, err
		}, w.ofSecrets, WithLogger(zap.New(core))))
		for _, want := range [][]int{{1}, {1, 1}, {1, 1}} {
			synctest.Wait()
			assert.Equal(t, want, held)
			w.touch("a", strconv.Itoa(calls))
		}
		<-time.After(10 * time.Second)
		assert.Equal(t, []int{1, 1}, held, "it is still in the cache")
		release()
		synctest.Wait()
		require.NotEmpty(t, held[2:])
		assert.Subset(t, []int{0}, held[2:])
		require.NoError(t, stop())
		assert.Zero(t, logs.Len())
	})
}

func TestKeyWaitsForWhatIsWrittenInItsCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		west := store.Scope{Cluster: "west"}
		configMaps, secrets := scoped.New(store.ObjectKey[*corev1.ConfigMap]), scoped.New(store.ObjectKey[*corev1.Secret])
		require.NoError(t, scoped.Add(configMaps, west, w.client.CoreV1().ConfigMaps("")))
		require.NoError(t, scoped.Add(secrets, west, w.client.CoreV1().Secrets("")))
		w.configMaps, w.secrets = configMaps.Informer(), secrets.Informer()
		w.create(configMap("a"), configMap("b"), secret("b", "b"))
		release := w.deafen(2)
		var got list
		secure := w.securing(&got)
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			assert.Equal(t, "west", key.Cluster)
			if key.Name == "a" {
				return secure(ctx, key)
			}
			held, ok := w.secrets.Cache().Get(key)
			got.add("b " + strconv.FormatBool(ok))
			if ok {
				assert.NoError(t, w.client.CoreV1().Secrets("ns").Delete(ctx, "b", metav1.DeleteOptions{}))
				RecordDelete(ctx, held)
			}
			return Result{}, nil
		}, Watch(w.secrets, OwnerKeys[*corev1.Secret](schema.GroupKind{Kind: "ConfigMap"}))))
		synctest.Wait()
		w.touch("a", "1")
		w.touch("b", "1")
		<-time.After(10 * time.Second)
		assert.Equal(t, []string{"a0", "b true"}, sorted(got.take()))
		release()
		synctest.Wait()
		assert.Equal(t, []string{"a1", "b false"}, slices.Compact(sorted(got.take())))
		require.NoError(t, stop())
	})
}

func TestObjectsOfOneTypeAreNotTakenForOfOneKind(t *testing.T) {
	maps, secrets := corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Secret")
	t.Run("unstructured", func(t *testing.T) {
		testKindsOfOneType(t, func(w *world, resource string) reflector.Client[*unstructured.Unstructured, *client.ResourceList[*unstructured.Unstructured]] {
			of, err := client.ForResource[*unstructured.Unstructured](w.server.Config(), corev1.SchemeGroupVersion.WithResource(resource), "")
			require.NoError(t, err)
			return of
		})
	})
	t.Run("dynamic", func(t *testing.T) {
		testKindsOfOneType(t, func(w *world, resource string) reflector.Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
			api, err := dynamic.NewForConfig(w.server.Config())
			require.NoError(t, err)
			return client.Dynamic(api.Resource(corev1.SchemeGroupVersion.WithResource(resource)))
		})
	})
	t.Run("metadata", func(t *testing.T) {
		kinds := map[string]schema.GroupVersionKind{"configmaps": maps, "secrets": secrets}
		testKindsOfOneType(t, func(w *world, resource string) reflector.Client[*metav1.PartialObjectMetadata, *client.ResourceList[*metav1.PartialObjectMetadata]] {
			of, err := client.For[*metav1.PartialObjectMetadata](w.server.Config(), client.WithKind(kinds[resource]))
			require.NoError(t, err)
			return of
		})
	})
	t.Run("interface", func(t *testing.T) {
		examples := map[string]runtime.Object{"configmaps": &corev1.ConfigMap{}, "secrets": &corev1.Secret{}}
		testKindsOfOneType(t, func(w *world, resource string) reflector.Client[metav1.Object, *client.ResourceList[metav1.Object]] {
			of, err := client.ForType[metav1.Object](w.server.Config(), corev1.SchemeGroupVersion.WithResource(resource), examples[resource])
			require.NoError(t, err)
			return of
		})
	})
}

func testKindsOfOneType[T reflector.Object, L any](t *testing.T, of func(w *world, resource string) reflector.Client[T, L]) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		source := func(resource string) *watching[T] {
			i := informer.New(of(w, resource))
			go func() { assert.NoError(t, i.Run(t.Context())) }()
			return &watching[T]{informer: i}
		}
		secrets, configMaps := source("secrets"), source("configmaps")
		synctest.Wait()
		w.create(configMap("a"), secret("s", "a"))
		synctest.Wait()
		s, ok := secrets.informer.Cache().Get(store.Key{Namespace: "ns", Name: "s"})
		require.True(t, ok)
		wrote := written{Write: ownwrites.Write{Object: s}}
		assert.True(t, secrets.has(wrote))
		assert.False(t, configMaps.has(wrote))
		require.NoError(t, w.server.Delete(configMap("a")))
		synctest.Wait()
		assert.True(t, configMaps.has(wrote), "it might be the first")
	})
}

// backing lets a test write to the cache of an informer.
type backing struct {
	store.BatchStore[*corev1.Secret]
	cache *store.Cache[*corev1.Secret]
}

func (b backing) Cache() *store.Cache[*corev1.Secret] { return b.cache }
func (b backing) Partition(scope store.Scope) (store.BatchStore[*corev1.Secret], error) {
	return b.cache.Partition(scope)
}
func (b backing) Run(context.Context) error { return nil }

// The commit after a snapshot copies what it would change in place otherwise.
func TestWriteTakesNoSnapshotOfACacheOfItsType(t *testing.T) {
	cache := store.New(store.ObjectKey[*corev1.Secret])
	all, err := client.For[*corev1.Secret](&rest.Config{Host: "http://apiserver"})
	require.NoError(t, err)
	source := &watching[*corev1.Secret]{informer: informer.NewStored(all, backing{cache, cache})}
	for i := range 100 {
		require.NoError(t, cache.Add(secret(strconv.Itoa(i), "a")))
	}
	wrote, changed := written{Write: ownwrites.Write{Object: secret("new", "a")}}, [2]*corev1.Secret{secret("50", "a"), secret("50", "b")}
	require.True(t, source.has(wrote))
	n := 0
	commit := func() {
		n++
		require.NoError(t, cache.Update(changed[n%2]))
	}
	alone := testing.AllocsPerRun(100, commit)
	assert.InDelta(t, alone, testing.AllocsPerRun(100, func() {
		commit()
		source.has(wrote)
	}), 1)
	require.NoError(t, cache.Delete(secret("0", "a")))
	require.True(t, source.has(wrote), "another object says the kind")
}

// Some clients do not say the kind of their objects.
func TestObjectOfAnUnknownKindMayBeThatOfACache(t *testing.T) {
	partial := func(apiVersion, kind string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
	}
	deployment := &unstructured.Unstructured{}
	deployment.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	stated := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1beta1", Kind: "Deployment"}}
	for name, tc := range map[string]struct {
		held, wrote metav1.Object
		may         bool
	}{
		"metadata without a kind":         {partial("v1", "Secret"), partial("", ""), true},
		"metadata with its own":           {partial("v1", "Secret"), partial("meta.k8s.io/v1", "PartialObjectMetadata"), true},
		"metadata of another kind":        {partial("v1", "Secret"), partial("v1", "Pod"), false},
		"typed, without a kind":           {stated, &appsv1.Deployment{}, true},
		"another type, without a kind":    {&appsv1.Deployment{}, &corev1.Secret{}, false},
		"another type, of the same kind":  {stated, deployment, true},
		"another type, of another kind":   {partial("v1", "Secret"), deployment, false},
		"another type, of an unknown one": {&appsv1.Deployment{}, deployment, false},
	} {
		assert.Equal(t, tc.may, mayBeOfOneKind(tc.held, tc.wrote), name)
	}
}

func TestKeyWaitsUntilTheCacheShowsThatSomethingIsDeleted(t *testing.T) {
	for name, finalizers := range map[string][]string{"gone": nil, "going": {"example.com/wait"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := secret("s", "a")
				s.Finalizers = finalizers
				w.create(configMap("a"), s)
				release := w.deafen(2)
				var got list
				stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					held, ok := w.secrets.Cache().Get(store.Key{Namespace: "ns", Name: "s"})
					if !ok || held.DeletionTimestamp != nil {
						got.add("done")
						return Result{}, nil
					}
					got.add("delete")
					err := w.client.CoreV1().Secrets("ns").Delete(ctx, "s", metav1.DeleteOptions{})
					RecordDelete(ctx, held)
					return Result{}, err
				}, w.ofSecrets, WithReadYourWritesTimeout(time.Hour)))
				synctest.Wait()
				w.touch("a", "1")
				<-time.After(10 * time.Second)
				assert.Equal(t, []string{"delete"}, got.take())
				release()
				synctest.Wait()
				assert.Equal(t, []string{"done"}, slices.Compact(sorted(got.take())))
				require.NoError(t, stop())
			})
		})
	}
}

// Such as a pod whose grace period goes on, or a Namespace, whose own finalizers are in its spec.
func TestWriteToAnEndingObjectWithoutFinalizersIsNotWaitedForLongerThanOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), secret("s", "a"))
		var got list
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			got.add("called")
			held, ok := w.secrets.Cache().Get(store.Key{Namespace: "ns", Name: "s"})
			if ok {
				same := held.DeepCopy()
				same.DeletionTimestamp = new(metav1.Now())
				RecordWrite(ctx, same)
			}
			return Result{}, nil
		}, w.ofSecrets, WithReadYourWritesTimeout(time.Hour)))
		synctest.Wait()
		got.take()
		w.touch("a", "1")
		synctest.Wait()
		assert.Equal(t, []string{"called"}, got.take())
		require.NoError(t, stop())
	})
}

func TestKeyThatWaitsForTheCacheIsLeftWhenItIsToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.deafen(1)
		w.create(configMap("a"), configMap("b"))
		var got list
		stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets, WithDrainTimeout(time.Second)))
		synctest.Wait()
		w.touch("a", "1")
		synctest.Wait()
		err := stop()
		release()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		require.Len(t, left.Pending, 1, "nothing more is to be done for b")
		assert.Equal(t, "a", left.Pending[0].Key.Name)
	})
}

func TestOutsideOfACallThereIsNothingToSay(t *testing.T) {
	RecordWrite(t.Context(), secret("s", "a"))
	RecordDelete(t.Context(), secret("s", "a"))
	assert.NotNil(t, Logger(t.Context()))
}

func TestNothingWasWrittenIfThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var got, failed list
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			var none *corev1.Secret
			RecordWrite(ctx, none)
			RecordDelete(ctx, none)
			RecordWrite[metav1.Object](ctx, nil)
			RecordWrite(ctx, &corev1.Secret{})
			got.add(key.Name)
			return Result{}, nil
		}, w.ofSecrets, IgnoreOwnWrites(), WithErrorHandler(func(_ context.Context, err error) { failed.add(err.Error()) })))
		synctest.Wait()
		w.touch("a", "1")
		synctest.Wait()
		assert.Equal(t, []string{"a", "a"}, got.take())
		assert.Empty(t, failed.take())
		require.NoError(t, stop())
	})
}

func TestKeyIsReconciledAgainWhenItsWriteIsNotSeenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, options := range [][]Option{nil, {IgnoreOwnWrites()}} {
			h := open(t)
			s := secret("s", "a")
			h.create(configMap("a"), s)
			h.options = append(options, WithReadYourWritesTimeout(10*time.Second))
			h.reconcile = func(ctx context.Context, name string) error {
				if len(h.calls.peek()) == 1 {
					RecordDelete(ctx, s) // the server lost it
				}
				return nil
			}
			stop := h.start()
			<-time.After(9 * time.Second)
			require.Equal(t, []string{"a"}, h.calls.peek())
			<-time.After(time.Minute)
			require.Equal(t, []string{"a", "a"}, h.calls.peek(), "once, since nothing is written then")
			require.NoError(t, stop())
		}
	})
}

// A child with a generated name, because the server refuses no second one. The watch of the children
// stalls, as behind a load balancer that lost it.
func TestKeyWaitsAsLongAsACacheIsBehindItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.deafen(1)
		w.create(configMap("a"))
		var got list
		core, logs := observer.New(zap.WarnLevel)
		stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets, WithLogger(zap.New(core))))
		for minute := range 10 {
			<-time.After(time.Minute)
			w.touch("a", strconv.Itoa(minute))
		}
		release()
		<-time.After(time.Minute)
		assert.Equal(t, "a0", got.take()[0])
		children, err := reflectortest.List[*corev1.Secret](w.server, "ns")
		require.NoError(t, err)
		assert.Len(t, children, 1)
		lines := logs.FilterMessageSnippet("key waits on").All()
		require.Len(t, lines, 5, "after 30 s, and after 1, 2, 4 and 8 minutes")
		fields := lines[0].ContextMap()
		assert.Equal(t, "test", fields["reconciler"])
		assert.Equal(t, "ns/a", fields["key"])
		assert.Contains(t, fields["error"], "waiting for resource version")
		require.NoError(t, stop())
	})
}

// TestKeyWaitsForAScopeThatHasNoListYet: the scope of the children is refused, and only that of the
// primary objects works.
func TestKeyWaitsForAScopeThatHasNoListYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scopes := scoped.New(store.ObjectKey[*corev1.Secret])
		w.secrets = scopes.Informer()
		require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "other"}, w.client.CoreV1().Secrets("other")))
		var got list
		stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), Owns(w.secrets, schema.GroupKind{Kind: "ConfigMap"})))
		synctest.Wait()
		refused := []*reflectortest.Injection{
			w.server.Inject(reflectortest.Answer(403).On("list", "secrets")), w.server.Inject(reflectortest.Answer(403).On("watch", "secrets")),
		}
		require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "ns"}, w.client.CoreV1().Secrets("ns")))
		w.create(configMap("a"))
		for minute := range 10 {
			<-time.After(time.Minute)
			w.touch("a", strconv.Itoa(minute))
		}
		assert.Equal(t, []string{"a0"}, got.take(), "the cache lacks the Secret")
		for _, r := range refused {
			r.Remove()
		}
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a1"}, slices.Compact(got.take()))
		children, err := reflectortest.List[*corev1.Secret](w.server, "ns")
		require.NoError(t, err)
		assert.Len(t, children, 1)
		require.NoError(t, stop())
	})
}

// TestKeyWaitsForADeletionThatTheServerAccepted: each call deletes one more of the children that the cache shows.
func TestKeyWaitsForADeletionThatTheServerAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		children := 5
		for i := range children {
			w.create(secret("s"+strconv.Itoa(i), "a"))
		}
		release := w.deafen(children + 1) // and the bookmark
		w.create(configMap("a"))
		calls := 0
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			name := "s" + strconv.Itoa(calls)
			if held, ok := w.secrets.Cache().Get(store.Key{Namespace: key.Namespace, Name: name}); ok && w.secrets.Cache().Len() > 3 {
				calls++
				RecordDelete(ctx, held)
				return Result{}, w.client.CoreV1().Secrets(key.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
			}
			return Result{}, nil
		}, w.ofSecrets))
		for minute := range 4 { // within the shortest watch
			<-time.After(time.Minute)
			w.touch("a", strconv.Itoa(minute))
		}
		assert.Equal(t, 1, calls, "the cache is certain to lack the deletion")
		release()
		<-time.After(time.Minute)
		left, err := reflectortest.List[*corev1.Secret](w.server, "ns")
		require.NoError(t, err)
		assert.Len(t, left, 3)
		require.NoError(t, stop())
	})
}

func TestKeyWaitsAnHourForACacheThatStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOptions(nil)
		r := newRun(t.Context(), &o, "test", nil, nil)
		behind := func(ctx context.Context) error {
			<-ctx.Done()
			return &await.Error{Wanted: "7", Reached: "5", Err: ctx.Err()}
		}
		key, began := store.Key{Name: "a"}, time.Now()
		r.resume(map[store.Key][]wait{key: {behind, behind}})
		r.mu.Lock()
		over := r.states[key].hold.over
		r.mu.Unlock()
		<-over
		assert.Equal(t, maxBehind, time.Since(began), "for both waits together")
		assert.Equal(t, 1, r.keys.Len(), "the write may be lost")
		r.close()
	})
}

// A call makes two writes, which the server loses: it is restored from a backup. No event of the key follows.
func TestKeyIsReconciledSoonAfterARestoreThatLostItsWrites(t *testing.T) {
	for _, when := range []string{"while the key waits", "during the call", "between two runs"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.create(configMap("a"))
				backup := w.server.ResourceVersion()
				w.create(secret("later", "b"))
				release := w.deafen(2) // the Secret and the bookmark
				restore := func() {
					assert.NoError(t, w.server.Restore(backup))
					release()
					<-time.After(30 * time.Second)
					assert.Equal(t, strconv.FormatUint(backup, 10), w.secrets.Cache().ResourceVersion())
				}
				var calls atomic.Int32
				r := New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					if key.Name != "a" {
						return Result{}, nil
					}
					if calls.Add(1) > 1 {
						return Result{}, nil
					}
					for _, name := range []string{"s", "t"} {
						_, err := w.creator.Create(ctx, secret(name, "a"), metav1.CreateOptions{})
						assert.NoError(t, err)
					}
					if when == "during the call" {
						restore()
					}
					return Result{}, nil
				}, w.ofSecrets)
				stop := w.run(runFunc(func(ctx context.Context) error {
					if when == "between two runs" {
						first, end := context.WithTimeout(ctx, time.Second)
						defer end()
						assert.NoError(t, r.Run(first))
						restore()
					}
					return r.Run(ctx)
				}))
				<-time.After(5 * time.Second)
				if when == "while the key waits" {
					assert.EqualValues(t, 1, calls.Load())
					restore()
				}
				<-time.After(time.Minute)
				want := []int32{2}
				if when == "between two runs" {
					want = append(want, 3) // the first call of the new Run may be over before the wait asks for another
				}
				assert.Contains(t, want, calls.Load())
				require.NoError(t, stop())
			})
		})
	}
}

func TestObjectThatTheCacheRejectedDoesNotProveThatItIsBehind(t *testing.T) {
	behind := &await.Error{Wanted: "7", Reached: "5", Err: context.DeadlineExceeded}
	assert.True(t, provesBehind(behind))
	for _, e := range []*await.Error{
		{Wanted: "7", Reached: "5", Rejected: []store.Key{{Name: "a"}}},
		{Wanted: "7", Reached: "7"}, {Wanted: "7", Reached: ""}, {Wanted: "7", Reached: "x"},
	} {
		assert.False(t, provesBehind(e), e)
	}
	assert.False(t, provesBehind(context.DeadlineExceeded))
}

// deletionWait returns a run, its log, and a function that waits for a deletion until shown is true. After that
// wait, over is closed.
func deletionWait(t *testing.T, shown *atomic.Bool, catchUp func(r *run) error) (r *run, logs *observer.ObservedLogs, over chan struct{}) {
	core, logs := observer.New(zap.WarnLevel)
	o := newOptions([]Option{WithLogger(zap.New(core))})
	r = newRun(t.Context(), &o, "test", nil, nil)
	key := store.Key{Name: "a"}
	r.resume(map[store.Key][]wait{key: {func(ctx context.Context) error {
		if shown.Load() {
			return nil
		}
		<-ctx.Done()
		return &undeleted{ctx.Err(), func(context.Context) error { return catchUp(r) }}
	}}})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r, logs, r.states[key].hold.over
}

func TestDeletionThatTheCacheShowsWhenItHasCaughtUpIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown atomic.Bool
		r, logs, over := deletionWait(t, &shown, func(*run) error { shown.Store(true); return nil })
		<-over
		assert.Zero(t, logs.Len(), "%v", logs.All())
		assert.Zero(t, r.keys.Len(), "no further call is needed")
		r.close()
	})
}

func TestKeyThatWaitsOnNamesWhyTheCacheCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown atomic.Bool
		r, logs, over := deletionWait(t, &shown, func(*run) error { return assert.AnError })
		<-time.After(time.Minute - time.Second)
		shown.Store(true)
		<-over
		lines := logs.FilterMessageSnippet("key waits on").All()
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0].ContextMap()["error"], assert.AnError.Error())
		r.close()
	})
}

func TestKeyThatWaitsAtTheEndLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown atomic.Bool
		r, logs, over := deletionWait(t, &shown, func(r *run) error { r.end(); return assert.AnError })
		<-over
		assert.Zero(t, logs.Len(), "%v", logs.All())
		r.close()
	})
}

// startWithLostDeletion starts a reconciler whose first call reports the deletion of a Secret that stays.
func (h *harness) startWithLostDeletion(scopes *scoped.Scopes[*corev1.Secret]) (stop func() error) {
	h.secrets = scopes.Informer()
	h.ofSecrets = Owns(h.secrets, schema.GroupKind{Kind: "ConfigMap"})
	s := secret("s", "a")
	h.create(configMap("a"), s)
	h.reconcile = func(ctx context.Context, name string) error {
		if len(h.calls.peek()) == 1 {
			RecordDelete(ctx, s)
		}
		return nil
	}
	stop = h.start()
	synctest.Wait()
	return stop
}

// The server lost the deletion. Another scope of the informer, which has nothing to do with it, does not answer.
func TestKeyWaitsForTheScopeOfItsDeletionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		scopes := scoped.New(store.ObjectKey[*corev1.Secret])
		for _, namespace := range []string{"ns", "other"} {
			require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: namespace}, h.client.CoreV1().Secrets(namespace)))
		}
		stop := h.startWithLostDeletion(scopes)
		away := h.server.Inject(reflectortest.Answer(503).On("list", "secrets").In("other"))
		<-time.After(time.Minute)
		assert.Equal(t, []string{"a", "a"}, h.calls.peek())
		away.Remove()
		require.NoError(t, stop())
	})
}

// The scope of the children is dropped and added again while the reconciler asks whether its cache is behind, and
// its new list does not come.
func TestKeyWaitsForADeletionInAScopeThatWasAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		scopes := scoped.New(store.ObjectKey[*corev1.Secret])
		scope := store.Scope{Namespace: "ns"}
		add := func() { require.NoError(t, scoped.Add(scopes, scope, h.client.CoreV1().Secrets("ns"))) }
		add()
		require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "other"}, h.client.CoreV1().Secrets("other")))
		stop := h.startWithLostDeletion(scopes)
		h.server.Inject(reflectortest.Answer(503).On("list", "secrets").In("ns"))
		h.server.Inject(reflectortest.Answer(503).On("watch", "secrets").In("ns"))
		<-time.After(31 * time.Second) // CatchUp has begun
		require.NoError(t, scopes.Drop(scope))
		add()
		<-time.After(5 * time.Minute)
		assert.Equal(t, []string{"a"}, h.calls.peek(), "the cache has no list")
		require.NoError(t, stop())
	})
}
