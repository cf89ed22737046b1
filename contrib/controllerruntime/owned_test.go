package controllerruntime

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var others = labels.SelectorFromSet(labels.Set{"app": "theirs"})

// received returns the events that a handler has so far, and forgets them.
func received(events <-chan string) (all []string) {
	synctest.Wait()
	for len(events) > 0 {
		all = append(all, <-events)
	}
	return all
}

func TestOwnedSelectorsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(secret("a", "one", "mine", "1")))
		require.NoError(t, server.Create(secret("a", "two", "theirs", "1")))
		var selectors OwnedSelectors
		require.ErrorIs(t, selectors.Add(labels.Everything()), ErrReference)
		require.NoError(t, selectors.Add(labels.Nothing()))
		c := startedWith(t, byReference(Reference{Owned: mine, Selectors: &selectors}), server.Config(), cache.Options{})
		events := follow(t, c)
		assert.ElementsMatch(t, []string{"add one=mine 1", "add two=theirs "}, received(events))
		list := func() (names []string) {
			t.Helper()
			var list corev1.SecretList
			require.NoError(t, c.List(t.Context(), &list, client.MatchingLabels{"app": "theirs"}))
			for i := range list.Items {
				names = append(names, list.Items[i].Name+string(list.Items[i].Data["token"]))
			}
			return names
		}
		require.ErrorIs(t, c.List(t.Context(), &corev1.SecretList{}, client.MatchingLabels{"app": "theirs"}), ErrNotOwned)

		for range 2 {
			require.NoError(t, selectors.Add(others))
			require.NoError(t, selectors.Add(others), "it is there already")
			require.NoError(t, selectors.WaitForSync(t.Context()))
			assert.Equal(t, []string{"update two=theirs  to two=theirs 1"}, received(events))
			assert.Equal(t, []string{"two1"}, list())
			assert.Equal(t, "1", token(t, c, "a", "two"))
			selectors.Remove(others)
			selectors.Remove(others)
			assert.Equal(t, []string{"update two=theirs 1 to two=theirs "}, received(events))
			require.ErrorIs(t, c.List(t.Context(), &corev1.SecretList{}, client.MatchingLabels{"app": "theirs"}), ErrNotOwned)
		}
		assert.Zero(t, gets(server), "an added selector asks for its objects only")
		for _, r := range server.Requests(reflectortest.Verb("list")) {
			assert.Contains(t, []string{"", "app=mine", "app=theirs"}, r.Query.Get("labelSelector"))
		}
	})
}

// An object that moves from one selector to another is never deleted, and never without its data.
func TestObjectsMoveBetweenOwnedSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(secret("a", "one", "mine", "0")))
		var selectors OwnedSelectors
		require.NoError(t, selectors.Add(others))
		c := startedWith(t, byReference(Reference{Owned: mine, Selectors: &selectors}), server.Config(), cache.Options{})
		last, moves := -1, 200
		i, err := c.GetInformer(t.Context(), &corev1.Secret{})
		require.NoError(t, err)
		note := func(object any) {
			n, err := strconv.Atoi(string(object.(*corev1.Secret).Data["token"]))
			assert.NoError(t, err, "without its data")
			assert.Greater(t, n, last)
			last = n
		}
		_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: note, UpdateFunc: func(_, object any) { note(object) },
			DeleteFunc: func(any) { t.Error("deleted") },
		})
		require.NoError(t, err)
		synctest.Wait()
		for n := 1; n <= moves; n++ {
			require.NoError(t, server.Update(secret("a", "one", []string{"mine", "theirs"}[n%2], strconv.Itoa(n))))
			if n%3 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		assert.Equal(t, moves, last)
		assert.Equal(t, strconv.Itoa(moves), token(t, c, "a", "one"))
	})
}

// The labels before a transform decide who owns an object.
func TestOwnedObjectsAreWholeThoughATransformStripsTheirLabels(t *testing.T) {
	for name, strip := range map[string]func(metav1.Object){
		"all labels":    func(o metav1.Object) { o.SetLabels(nil) },
		"one, in place": func(o metav1.Object) { delete(o.GetLabels(), "app") },
		"another value": func(o metav1.Object) { o.SetLabels(map[string]string{"app": "theirs"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := secretServer(t)
				c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{
					DefaultTransform: func(o any) (any, error) {
						strip(o.(metav1.Object))
						return o, nil
					},
				})
				i, err := c.GetInformer(t.Context(), &corev1.Secret{})
				require.NoError(t, err)
				owned := 0
				var left atomic.Bool
				note := func(object any) {
					if s := object.(*corev1.Secret); s.Name == "owned" && !left.Load() {
						assert.NotEmpty(t, s.Data, "version %s", s.ResourceVersion)
						assert.NotEqual(t, "mine", s.Labels["app"])
						owned++
					} else {
						assert.Empty(t, s.Data, "version %s", s.ResourceVersion)
					}
				}
				_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }})
				require.NoError(t, err)
				for n := range 50 {
					require.NoError(t, server.Update(secret("a", "owned", "mine", fmt.Sprint(n))))
					if n%2 > 0 {
						synctest.Wait()
					}
				}
				synctest.Wait()
				assert.Greater(t, owned, 20)
				left.Store(true)
				require.NoError(t, server.Update(secret("a", "owned", "theirs", "")))
				synctest.Wait()
				var got corev1.Secret
				require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "owned"}, &got))
				assert.Equal(t, 1, gets(server), "it is not owned any more")
			})
		})
	}
}

// A selector whose list does not arrive holds up nothing but itself.
func TestSelectorWithoutAListShowsObjectsAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		var selectors OwnedSelectors
		c := startedWith(t, byReference(Reference{Owned: mine, Selectors: &selectors}), server.Config(), cache.Options{DefaultWatchErrorHandler: silent})
		events := follow(t, c)
		assert.Len(t, received(events), 4)
		server.Inject(reflectortest.Answer(403).On("list", "secrets")) // the watches that are open go on
		server.Inject(reflectortest.Answer(403).On("watch", "secrets"))
		require.NoError(t, selectors.Add(others))
		require.NoError(t, server.Update(secret("a", "other", "theirs", "2")))
		require.NoError(t, server.Update(secret("a", "owned", "mine", "2")))
		assert.ElementsMatch(t, []string{"update other=theirs  to other=theirs ", "update owned=mine 1 to owned=mine 2"}, received(events))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := selectors.WaitForSync(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, apierrors.IsForbidden(err), "it says why: %v", err)
		assert.ErrorContains(t, err, "app=theirs")
		assert.Equal(t, "2", token(t, c, "a", "other"))
	})
}

func configMap(name, app string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"app": app}}}
}

// The metadata of an object without data, or of one whose data a transform strips, is all of it.
func TestOwnedObjectsThatAreOnlyMetadataAreListed(t *testing.T) {
	full := configMap("full", "theirs")
	full.Data = map[string]string{"some": "data"}
	for name, test := range map[string]struct {
		object    *corev1.ConfigMap
		transform toolscache.TransformFunc
	}{
		"without data": {object: configMap("full", "theirs")},
		"stripped data": {object: full, transform: func(object any) (any, error) {
			if c, ok := object.(*corev1.ConfigMap); ok {
				c.Data = nil
			}
			return object, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(test.object))
				require.NoError(t, server.Create(configMap("mine", "mine")))
				var selectors OwnedSelectors
				byReference := map[client.Object]Reference{&corev1.ConfigMap{}: {Owned: mine, Selectors: &selectors}}
				c := startedWith(t, Options{ByReference: byReference}, server.Config(), cache.Options{DefaultTransform: test.transform})
				require.NoError(t, c.IndexField(t.Context(), &corev1.ConfigMap{}, "app", func(object client.Object) []string {
					return []string{object.GetLabels()["app"]}
				}))
				i, err := c.GetInformer(t.Context(), &corev1.ConfigMap{})
				require.NoError(t, err)
				_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { t.Error("deleted") }})
				require.NoError(t, err)
				of := i.(toolscache.SharedIndexInformer).GetIndexer()
				byApp := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("app", "theirs")}
				var list corev1.ConfigMapList
				for range 2 {
					synctest.Wait()
					assert.Equal(t, []string{"a/mine"}, of.ListKeys())
					require.NoError(t, selectors.Add(others))
					require.NoError(t, selectors.WaitForSync(t.Context()))
					for _, opts := range [][]client.ListOption{{}, {client.InNamespace("a")}, {byApp}, {byApp, client.InNamespace("a")}} {
						require.NoError(t, c.List(t.Context(), &list, append(opts, client.MatchingLabels{"app": "theirs"})...))
						require.Len(t, list.Items, 1, "%v", opts)
						assert.Equal(t, "full", list.Items[0].Name)
					}
					_, ok, err := of.Get(test.object)
					require.NoError(t, err)
					assert.True(t, ok)
					selectors.Remove(others)
					require.ErrorIs(t, c.List(t.Context(), &list, client.MatchingLabels{"app": "theirs"}), ErrNotOwned)
					found, err := of.ByIndex("field:app", "a/theirs")
					require.NoError(t, err)
					assert.Empty(t, found)
					_, ok, err = of.Get(test.object)
					require.NoError(t, err)
					assert.False(t, ok)
				}
			})
		})
	}
}

// silent keeps the usual handler from sleeping until a time that is far away in a synctest bubble.
func silent(context.Context, *toolscache.Reflector, error) {}

// forbid lets the server answer 403 to new requests for a resource. Watches that are open go on.
func forbid(server *reflectortest.Server, resource string) {
	server.Inject(reflectortest.Answer(403).On("list", resource))
	server.Inject(reflectortest.Answer(403).On("watch", resource))
}

func TestListOfAnAddedSelectorNeedsItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		var selectors OwnedSelectors
		c := startedWith(t, byReference(Reference{Owned: mine, Selectors: &selectors}), server.Config(), cache.Options{DefaultWatchErrorHandler: silent})
		i, err := c.GetInformer(t.Context(), &corev1.Secret{})
		require.NoError(t, err)
		var list corev1.SecretList
		theirs := client.MatchingLabels{"app": "theirs"}
		m, adding := i.(*referenceInformer).merged, false
		newOwned := m.newOwned
		m.newOwned = func(selector labels.Selector) *sharedInformer {
			adding = true
			assert.ErrorIs(t, c.List(t.Context(), &list, theirs), ErrNotOwned, "while it is added")
			return newOwned(selector)
		}
		forbid(server, "secrets")
		require.NoError(t, selectors.Add(others))
		assert.True(t, adding)
		synctest.Wait()
		err = c.List(t.Context(), &list, theirs)
		require.ErrorIs(t, err, ErrNotOwned)
		assert.ErrorContains(t, err, `owned are "app=mine or app=theirs (not listed yet)"`)
		require.NoError(t, c.List(t.Context(), &list, client.MatchingLabels{"app": "mine"}))
		server.ClearFaults()
		require.NoError(t, selectors.WaitForSync(t.Context()))
		require.NoError(t, c.List(t.Context(), &list, theirs))
		assert.Len(t, list.Items, 2)
	})
}

// The first List of a kind starts its informer, and waits for all selectors that are there.
func TestFirstListWaitsForTheSelectors(t *testing.T) {
	for name, removed := range map[string]bool{"": false, "one is removed meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := secretServer(t)
				forbid(server, "secrets")
				var selectors OwnedSelectors
				require.NoError(t, selectors.Add(others))
				c := startedWith(t, byReference(Reference{Owned: mine, Selectors: &selectors}), server.Config(), cache.Options{DefaultWatchErrorHandler: silent})
				var list corev1.SecretList
				ended := make(chan error)
				go func() { ended <- c.List(t.Context(), &list, client.MatchingLabels{"app": "theirs"}) }()
				synctest.Wait()
				if removed {
					selectors.Remove(others)
				}
				server.ClearFaults()
				err := <-ended
				if removed {
					require.ErrorIs(t, err, ErrNotOwned)
					return
				}
				require.NoError(t, err)
				assert.Len(t, list.Items, 2)
			})
		})
	}
}

// RBAC forbids the objects of one kind, or in one namespace.
func TestSelectorWithoutAListHoldsUpOnlyItsKindAndNamespace(t *testing.T) {
	theirs := client.MatchingLabels{"app": "theirs"}
	start := func(t *testing.T, opts cache.Options) (*reflectortest.Server, *OwnedSelectors, cache.Cache) {
		server := secretServer(t)
		require.NoError(t, server.Create(configMap("other", "theirs")))
		var selectors OwnedSelectors
		opts.DefaultWatchErrorHandler = silent
		c := startedWith(t, Options{ByReference: map[client.Object]Reference{
			&corev1.ConfigMap{}: {Selectors: &selectors}, &corev1.Secret{}: {Owned: mine, Selectors: &selectors},
		}}, server.Config(), opts)
		for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
			_, err := c.GetInformer(t.Context(), object)
			require.NoError(t, err)
		}
		synctest.Wait()
		return server, &selectors, c
	}
	t.Run("kind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server, selectors, c := start(t, cache.Options{})
			forbid(server, "configmaps")
			require.NoError(t, selectors.Add(others))
			synctest.Wait()
			var secrets corev1.SecretList
			require.NoError(t, c.List(t.Context(), &secrets, theirs))
			assert.Len(t, secrets.Items, 2)
			require.ErrorIs(t, c.List(t.Context(), &corev1.ConfigMapList{}, theirs), ErrNotOwned)
			server.ClearFaults()
			require.NoError(t, selectors.WaitForSync(t.Context()))
			require.NoError(t, c.List(t.Context(), &corev1.ConfigMapList{}, theirs))
		})
	})
	t.Run("namespace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server, selectors, c := start(t, cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}})
			for _, verb := range []string{"list", "watch"} {
				server.Inject(reflectortest.Answer(403).On(verb, "secrets").In("b"))
			}
			require.NoError(t, selectors.Add(others))
			synctest.Wait()
			var secrets corev1.SecretList
			require.NoError(t, c.List(t.Context(), &secrets, theirs, client.InNamespace("a")))
			assert.Len(t, secrets.Items, 1)
			require.ErrorIs(t, c.List(t.Context(), &secrets, theirs, client.InNamespace("b")), ErrNotOwned)
			require.ErrorIs(t, c.List(t.Context(), &secrets, theirs), ErrNotOwned)
		})
	})
}

func TestWaitForSyncEndsWithTheSelectorOrTheCache(t *testing.T) {
	for name, end := range map[string]func(*OwnedSelectors, cache.Cache) error{
		"the selector is removed": func(s *OwnedSelectors, _ cache.Cache) error {
			s.Remove(others)
			return nil
		},
		"the informer is removed": func(_ *OwnedSelectors, c cache.Cache) error {
			return c.RemoveInformer(context.Background(), &corev1.Secret{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := secretServer(t)
				var selectors OwnedSelectors
				c := startedWith(t, byReference(Reference{Owned: mine, Selectors: &selectors}), server.Config(), cache.Options{DefaultWatchErrorHandler: silent})
				_, err := c.GetInformer(t.Context(), &corev1.Secret{})
				require.NoError(t, err)
				forbid(server, "secrets")
				require.NoError(t, selectors.Add(others))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- selectors.WaitForSync(ctx) }()
				synctest.Wait()
				assert.Empty(t, ended)
				require.NoError(t, end(&selectors, c))
				assert.NoError(t, <-ended)
			})
		})
	}
}
