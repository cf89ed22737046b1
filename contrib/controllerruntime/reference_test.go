package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var mine = labels.SelectorFromSet(labels.Set{"app": "mine"})

// byReference caches Secrets by reference.
func byReference(r Reference) Options {
	return Options{ByReference: map[client.Object]Reference{&corev1.Secret{}: r}}
}

func secret(namespace, name, app, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"token": []byte(token)},
	}
}

// secretServer has an owned secret and another one in each of two namespaces.
func secretServer(t *testing.T) *reflectortest.Server {
	t.Helper()
	server := reflectortest.Start(t)
	for _, namespace := range []string{"a", "b"} {
		require.NoError(t, server.Create(secret(namespace, "owned", "mine", "1")))
		require.NoError(t, server.Create(secret(namespace, "other", "theirs", "1")))
	}
	return server
}

func gets(server *reflectortest.Server) int { return len(server.Requests(reflectortest.Verb("get"))) }

// token reads the token of a secret.
func token(t *testing.T, c client.Reader, namespace, name string) string {
	t.Helper()
	var got corev1.Secret
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &got))
	assert.Equal(t, secretKind, got.GroupVersionKind())
	return string(got.Data["token"])
}

func TestByReferenceRequestsOnlyUsedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
		assert.Equal(t, "1", token(t, c, "a", "owned"))
		assert.Zero(t, gets(server), "owned objects are cached")
		for range 3 {
			assert.Equal(t, "1", token(t, c, "a", "other"))
		}
		assert.Equal(t, 1, gets(server), "one request for three reads")

		for _, r := range server.Requests(reflectortest.Verb("watch")) {
			metadata := strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
			assert.Equal(t, metadata, r.Query.Get("labelSelector") == "", "whole objects are watched by label: %v", r.Query)
		}

		require.NoError(t, server.Update(secret("a", "other", "theirs", "2")))
		synctest.Wait()
		assert.Equal(t, "2", token(t, c, "a", "other"))
		assert.Equal(t, 2, gets(server))
		require.NoError(t, server.Delete(secret("a", "other", "", "")))
		synctest.Wait()
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		assert.Equal(t, 2, gets(server))
	})
}

func TestReadersOfARequestedObjectGetCopies(t *testing.T) {
	c := startedWith(t, byReference(Reference{}), secretServer(t).Config(), cache.Options{})
	read := func(opts ...client.GetOption) (got corev1.Secret) {
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "owned"}, &got, opts...))
		return got
	}
	for range 2 { // requested, and kept
		got := read()
		got.Data["token"][0] = 'x'
	}
	assert.Equal(t, "1", string(read().Data["token"]))
	shared, again := read(client.UnsafeDisableDeepCopy), read(client.UnsafeDisableDeepCopy)
	assert.Same(t, &shared.Data["token"][0], &again.Data["token"][0])
}

func TestReadersShareARequestedObjectByDefault(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"of all kinds": {DefaultUnsafeDisableDeepCopy: new(true)},
		"of the kind":  {ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {UnsafeDisableDeepCopy: new(true)}}},
	} {
		c := startedWith(t, byReference(Reference{}), secretServer(t).Config(), opts)
		var requested, kept corev1.Secret
		for _, out := range []*corev1.Secret{&requested, &kept} {
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "owned"}, out))
		}
		assert.Same(t, &requested.Data["token"][0], &kept.Data["token"][0], name)
		assert.Equal(t, requested.TypeMeta, kept.TypeMeta, name)
	}
}

func TestReadersOfARequestedObjectGetCopiesWhereTheNamespaceHasThem(t *testing.T) {
	byKind := func(by cache.ByObject) map[client.Object]cache.ByObject {
		return map[client.Object]cache.ByObject{&corev1.Secret{}: by}
	}
	copied := map[string]cache.Config{"a": {UnsafeDisableDeepCopy: new(false)}}
	for name, opts := range map[string]cache.Options{
		"of the kind":               {DefaultUnsafeDisableDeepCopy: new(true), ByObject: byKind(cache.ByObject{Namespaces: copied})},
		"of the kind, which has it": {ByObject: byKind(cache.ByObject{UnsafeDisableDeepCopy: new(true), Namespaces: copied})},
		"of all kinds":              {DefaultUnsafeDisableDeepCopy: new(true), DefaultNamespaces: copied},
		"of all kinds, the kind has it": {
			DefaultNamespaces: copied, ByObject: byKind(cache.ByObject{UnsafeDisableDeepCopy: new(true)}),
		},
	} {
		c := startedWith(t, byReference(Reference{Owned: mine}), secretServer(t).Config(), opts)
		for _, secret := range []string{"owned", "other"} {
			var got, held corev1.Secret
			key := client.ObjectKey{Namespace: "a", Name: secret}
			require.NoError(t, c.Get(t.Context(), key, &got))
			require.NoError(t, c.Get(t.Context(), key, &held, client.UnsafeDisableDeepCopy))
			assert.NotSame(t, &held.Data["token"][0], &got.Data["token"][0], "%s: %s", name, secret)
		}
	}
}

func TestByReferenceHoldsUnstructuredObjectsToo(t *testing.T) {
	server := secretServer(t)
	c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(secretKind)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, got))
	assert.Equal(t, map[string]any{"token": "MQ=="}, got.Object["data"])
	assert.Equal(t, secretKind, got.GroupVersionKind())
	assert.Equal(t, 1, gets(server))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	require.ErrorIs(t, c.List(t.Context(), list), ErrNotOwned)
	require.NoError(t, c.List(t.Context(), list, client.MatchingLabels{"app": "mine"}))
	assert.Len(t, list.Items, 2)
}

func TestListOfObjectsThatAreNotOwned(t *testing.T) {
	c := startedWith(t, byReference(Reference{Owned: mine}), secretServer(t).Config(), cache.Options{})
	require.NoError(t, c.IndexField(t.Context(), &corev1.Secret{}, "type", func(object client.Object) []string {
		return []string{string(object.(*corev1.Secret).Type)}
	}))
	var list corev1.SecretList
	owned := client.MatchingLabels{"app": "mine"}
	for _, opts := range [][]client.ListOption{
		nil, {client.InNamespace("a")}, {client.MatchingLabels{"app": "theirs"}}, {client.MatchingLabels{"tier": "mine"}},
		{client.MatchingFields{"type": string(corev1.SecretTypeOpaque)}},
	} {
		err := c.List(t.Context(), &list, opts...)
		require.ErrorIs(t, err, ErrNotOwned, "%v", opts)
		assert.ErrorContains(t, err, `/v1, Kind=Secret with labels "`)
		assert.ErrorContains(t, err, `owned are "app=mine"`)
	}
	require.NoError(t, c.List(t.Context(), &list, owned))
	assert.Len(t, list.Items, 2)
	require.NoError(t, c.List(t.Context(), &list, owned, client.InNamespace("a")))
	assert.Len(t, list.Items, 1)
	assert.Equal(t, "1", string(list.Items[0].Data["token"]))
	for value, want := range map[corev1.SecretType]int{corev1.SecretTypeOpaque: 2, "other": 0} {
		require.NoError(t, c.List(t.Context(), &list, owned, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("type", string(value))}))
		assert.Len(t, list.Items, want)
	}
	only := &metav1.PartialObjectMetadataList{}
	only.SetGroupVersionKind(secretKind)
	require.NoError(t, c.List(t.Context(), only))
	assert.Len(t, only.Items, 4, "metadata may be listed")
}

// follow returns the events of secrets, as text.
func follow(t *testing.T, c cache.Cache) <-chan string {
	t.Helper()
	i, err := c.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	events := make(chan string, 20)
	text := func(object any) string {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		s := object.(*corev1.Secret)
		return fmt.Sprintf("%s=%s %s%s", s.Name, s.Labels["app"], s.Kind, s.Data["token"])
	}
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { events <- "add " + text(object) },
		UpdateFunc: func(old, object any) { events <- "update " + text(old) + " to " + text(object) },
		DeleteFunc: func(object any) { events <- "delete " + text(object) },
	})
	require.NoError(t, err)
	return events
}

// A handler gets the owned objects whole, and others without their data.
func TestEventsByReference(t *testing.T) {
	server := reflectortest.Start(t)
	require.NoError(t, server.Create(secret("a", "one", "mine", "1")))
	require.NoError(t, server.Create(secret("a", "two", "theirs", "1")))
	c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
	events := follow(t, c)
	assert.ElementsMatch(t, []string{"add one=mine 1", "add two=theirs "}, []string{<-events, <-events})
	step := func(change func(metav1.Object) error, object metav1.Object, want string) {
		t.Helper()
		require.NoError(t, change(object))
		require.Equal(t, want, <-events)
	}
	step(server.Update, secret("a", "one", "mine", "2"), "update one=mine 1 to one=mine 2")
	step(server.Update, secret("a", "one", "theirs", "3"), "update one=mine 2 to one=theirs ")
	assert.Equal(t, "3", token(t, c, "a", "one"))
	step(server.Update, secret("a", "one", "mine", "4"), "update one=theirs  to one=mine 4")
	assert.Equal(t, "4", token(t, c, "a", "one"))
	remove := func(object metav1.Object) error { return server.Delete(object) }
	step(remove, secret("a", "one", "", ""), "delete one=mine 4")
	step(server.Create, secret("a", "three", "mine", "5"), "add three=mine 5")
	step(remove, secret("a", "two", "", ""), "delete two=theirs ")
	assert.Empty(t, events)
}

func TestRequestsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		fault reflectortest.Fault
		is    func(error) bool
	}{
		"RBAC without get":  {reflectortest.Answer(403), apierrors.IsForbidden},
		"an object is gone": {reflectortest.Answer(404), apierrors.IsNotFound},
		"a refused connection": {reflectortest.Refuse(), func(err error) bool {
			_, ok := errors.AsType[*ondemand.FetchError](err)
			return ok
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := secretServer(t)
			server.Inject(test.fault.On("get", "secrets"))
			c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
			err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
			assert.True(t, test.is(err), "%v", err)
			assert.Equal(t, "1", token(t, c, "a", "owned"))
			server.ClearFaults()
			assert.Equal(t, "1", token(t, c, "a", "other"), "a failure is not kept")
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		server := secretServer(t)
		server.Inject(reflectortest.Stall(nil).On("get", "secrets"))
		c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			_, err := server.WaitForRequests(t.Context(), 1, reflectortest.Verb("get"))
			cancel(errors.Join(assert.AnError, err))
		}()
		err := c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
		assert.ErrorIs(t, err, assert.AnError)
	})
}

func TestByReferenceWithNamespacesAndSelectors(t *testing.T) {
	server := secretServer(t)
	require.NoError(t, server.Create(secret("b", "excluded", "none", "1")))
	c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{"b": {FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "excluded")}},
		}},
	})
	assert.Equal(t, "1", token(t, c, "b", "owned"))
	assert.Equal(t, "1", token(t, c, "b", "other"))
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "excluded"}, &corev1.Secret{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	assert.ErrorContains(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "owned"}, &corev1.Secret{}), "unknown namespace")
	for _, r := range server.Requests(reflectortest.Verb("watch")) {
		assert.Equal(t, "b", r.Namespace)
		assert.Equal(t, "metadata.name!=excluded", r.Query.Get("fieldSelector"))
	}
	var list corev1.SecretList
	require.NoError(t, c.List(t.Context(), &list, client.MatchingLabels{"app": "mine"}))
	assert.Len(t, list.Items, 1)
}

func TestByReferenceObjectsAreTransformed(t *testing.T) {
	c := startedWith(t, byReference(Reference{Owned: mine}), secretServer(t).Config(), cache.Options{
		DefaultTransform: func(in any) (any, error) {
			s := in.(*corev1.Secret)
			s.Annotations = map[string]string{"seen": "yes"}
			return s, nil
		},
	})
	events := make(chan string, 4)
	i, err := c.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) { events <- object.(client.Object).GetAnnotations()["seen"] }})
	require.NoError(t, err)
	for range cap(events) {
		assert.Equal(t, "yes", <-events)
	}
	for _, name := range []string{"owned", "other"} {
		var got corev1.Secret
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: name}, &got))
		assert.Equal(t, "yes", got.Annotations["seen"], name)
	}
}

func TestHooksByReferenceThatComeTooLateHaveNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		var selectors OwnedSelectors
		c := startedWith(t, byReference(Reference{Selectors: &selectors}), server.Config(), cache.Options{DefaultWatchErrorHandler: silent})
		got, err := c.GetInformer(t.Context(), &corev1.Secret{})
		require.NoError(t, err)
		i := got.(*referenceInformer)
		require.ErrorIs(t, i.SetTransform(func(any) (any, error) { return nil, assert.AnError }), clientgo.ErrStarted)
		var late atomic.Int32
		require.ErrorIs(t, i.SetWatchErrorHandler(func(*toolscache.Reflector, error) { late.Add(1) }), clientgo.ErrStarted)

		assert.Equal(t, "1", token(t, c, "a", "other"), "requested")
		failed := server.Inject(reflectortest.Answer(500).On("watch", "secrets").Times(2)) // a watch-list, and the watch after its list
		require.NoError(t, selectors.Add(mine))
		require.NoError(t, selectors.WaitForSync(t.Context()))
		assert.Equal(t, "1", token(t, c, "a", "owned"))
		assert.Equal(t, 1, gets(server), "a selector that was added later holds its objects")
		synctest.Wait()
		assert.Equal(t, 2, failed.Hits())
		assert.Zero(t, late.Load())
	})
}

func TestByReferenceKeepsNoMoreThanAllowed(t *testing.T) {
	for name, limit := range map[string]Reference{"none": {MaxObjects: -1}, "one": {MaxObjects: 1}, "no bytes": {MaxBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			server := secretServer(t)
			c := startedWith(t, byReference(limit), server.Config(), cache.Options{})
			for range 2 {
				for _, namespace := range []string{"a", "b"} {
					assert.Equal(t, "1", token(t, c, namespace, "other"))
				}
			}
			assert.Equal(t, 4, gets(server))
		})
	}
}

func TestByReferenceInformersAreRemoved(t *testing.T) {
	server := secretServer(t)
	c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{ReaderFailOnMissingInformer: true})
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
	var notCached *cache.ErrResourceNotCached
	require.ErrorAs(t, err, &notCached)
	i, err := c.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	assert.Equal(t, "1", token(t, c, "a", "other"))
	require.NoError(t, c.RemoveInformer(t.Context(), &corev1.Secret{}))
	err = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
	require.ErrorAs(t, err, &notCached)
	require.Eventually(t, i.IsStopped, time.Minute, time.Millisecond)
}

func TestGetByReferenceOutlivesItsInformer(t *testing.T) {
	server := secretServer(t)
	c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
	i, err := c.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	server.Inject(reflectortest.Stall(nil).On("get", "secrets"))
	type answer struct {
		secret corev1.Secret
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &a.secret)
		answers <- a
	}()
	_, err = server.WaitForRequests(t.Context(), 1, reflectortest.Verb("get"))
	require.NoError(t, err)
	server.ClearFaults()
	require.NoError(t, c.RemoveInformer(t.Context(), &corev1.Secret{}))
	a := <-answers
	require.NoError(t, a.err)
	assert.Equal(t, "1", string(a.secret.Data["token"]))
	require.Eventually(t, i.IsStopped, time.Minute, time.Millisecond)
}

func TestByReferenceBeforeTheStart(t *testing.T) {
	server := secretServer(t)
	c, err := byReference(Reference{Owned: mine}).NewCache(server.Config(), cache.Options{Mapper: mapper()})
	require.NoError(t, err)
	err = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
	var notStarted *cache.ErrCacheNotStarted
	require.ErrorAs(t, err, &notStarted)
	assert.Empty(t, server.Requests())
}

func TestReferencesThatCannotBe(t *testing.T) {
	server := secretServer(t)
	_, err := Options{ByReference: map[client.Object]Reference{&site{}: {}}}.NewCache(server.Config(), cache.Options{})
	assert.True(t, runtime.IsNotRegisteredError(errors.Unwrap(err)), "%v", err)
	_, err = byReference(Reference{Owned: labels.Everything()}).NewCache(server.Config(), cache.Options{})
	assert.ErrorIs(t, err, ErrReference)
	_, err = byReference(Reference{}).NewCache(server.Config(), cache.Options{NewInformer: clientgo.NewSharedIndexInformer})
	assert.ErrorIs(t, err, ErrReference)
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(secretKind)
	_, err = Options{ByReference: map[client.Object]Reference{&corev1.Secret{}: {}, whole: {}}}.NewCache(server.Config(), cache.Options{})
	assert.ErrorIs(t, err, ErrReference)

	c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{DefaultEnableWatchBookmarks: new(false)})
	err = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "other"}, &corev1.Secret{})
	assert.ErrorIs(t, err, ErrReference)
	assert.ErrorContains(t, err, "bookmarks")
	assert.Empty(t, server.Requests(), "nothing is cached whole instead")
}

// As in client-go, a nil handler stands for the default one.
func TestNilWatchErrorHandlerIsTheDefault(t *testing.T) {
	var reported atomic.Int32
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) {
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
		reported.Add(1)
	}}
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		forbid(server, "secrets")
		c, err := byReference(Reference{Owned: mine}).NewCache(server.Config(), cache.Options{Mapper: mapper(), DefaultWatchErrorHandler: silent})
		require.NoError(t, err)
		i, err := c.GetInformer(t.Context(), &corev1.Secret{}, cache.BlockUntilSynced(false))
		require.NoError(t, err)
		require.NoError(t, i.(*referenceInformer).SetWatchErrorHandler(nil))
		go func() { assert.NoError(t, c.Start(t.Context())) }()
		synctest.Wait()
		assert.EqualValues(t, 2, reported.Load(), "the first list of each watch has failed")
	})
}

// A server that is restored from a backup has lost objects and states that the cache has.
func TestByReferenceAfterARestoreOfTheServer(t *testing.T) {
	t.Run("owned", func(t *testing.T) {
		testRestore(t, Reference{Owned: mine}, 2, "delete lost=mine 2", "delete too=theirs ", "update changed=mine 2 to changed=theirs ")
	})
	t.Run("none owned", func(t *testing.T) {
		testRestore(t, Reference{}, 1, "delete lost=mine ", "delete too=theirs ", "update changed=mine  to changed=theirs ")
	})
}

func testRestore(t *testing.T, reference Reference, reporting int, want ...string) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(secret("a", "old", "mine", "1")))
		require.NoError(t, server.Create(secret("a", "changed", "theirs", "1")))
		backup := server.ResourceVersion()
		var mu sync.Mutex
		watches := map[string]bool{}
		c := startedWith(t, byReference(reference), server.Config(), cache.Options{
			DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
				failure, ok := errors.AsType[*reflector.Error](err)
				assert.True(t, ok, "%v", err)
				mu.Lock()
				defer mu.Unlock()
				watches[failure.Reflector] = true
			},
		})
		events := follow(t, c)
		require.NoError(t, server.Create(secret("a", "lost", "mine", "2")))
		require.NoError(t, server.Create(secret("a", "too", "theirs", "2")))
		require.NoError(t, server.Update(secret("a", "changed", "mine", "2")))
		synctest.Wait()
		assert.Equal(t, "2", token(t, c, "a", "changed"))
		for len(events) > 0 {
			<-events
		}
		require.NoError(t, server.Restore(backup))
		<-time.After(time.Hour)
		synctest.Wait()
		var got []string
		for len(events) > 0 {
			got = append(got, <-events)
		}
		assert.ElementsMatch(t, want, got)
		assert.Equal(t, "1", token(t, c, "a", "changed"))
		assert.Equal(t, "1", token(t, c, "a", "old"))
		mu.Lock()
		defer mu.Unlock()
		assert.Len(t, watches, reporting, "each watch reports")
	})
}

// newer reports whether a resource version is later than another.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// One watch has the change of an object, and the other one does not.
func TestVersionOfACacheByReferenceNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		c := startedWith(t, byReference(Reference{Owned: mine}), server.Config(), cache.Options{})
		got, err := c.GetInformer(t.Context(), &corev1.Secret{})
		require.NoError(t, err)
		i := got.(*referenceInformer)
		last, ok := i.LastSyncResourceVersion(), false
		for n := range 20 {
			app, name := "mine", "owned"
			if n%2 > 0 {
				app, name = "theirs", "other"
			}
			require.NoError(t, server.Update(secret("a", name, app, strconv.Itoa(n+2))))
			synctest.Wait()
			now := i.LastSyncResourceVersion()
			assert.Equal(t, now, i.GetController().LastSyncResourceVersion())
			assert.False(t, newer(last, now), "%s after %s", now, last)
			for _, each := range i.merged.informers() {
				assert.False(t, newer(now, each.Cache().ResourceVersion()), "all watches have reached %s", now)
			}
			last, ok = now, ok || newer(now, last)
		}
		assert.True(t, ok, "the version went on")
	})
}

// What a cache by reference cannot show goes where the failures of other caches go.
func TestFailuresByReferenceAreReported(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	failures := make(chan error, 10)
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(ctx context.Context, err error, _ string, _ ...any) {
		_, noLogger := logr.FromContext(ctx) // controller-runtime passes one to the informer
		failures <- errors.Join(err, noLogger)
	}}
	server := secretServer(t)
	c, err := byReference(Reference{Owned: mine}).NewCache(server.Config(), cache.Options{Mapper: mapper()})
	require.NoError(t, err)
	require.NoError(t, c.IndexField(t.Context(), &corev1.Secret{}, "bad", func(object client.Object) []string {
		if object.GetNamespace() == "b" {
			panic("no such field")
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	failure := <-failures
	var rejected *store.RejectedError
	require.ErrorAs(t, failure, &rejected)
	assert.ErrorContains(t, failure, "no such field")
	assert.NotContains(t, failure.Error(), "logr", "the context has the logger")
	assert.Equal(t, store.Key{Namespace: "b", Name: "owned"}, rejected.Rejections[0].Key)
	cancel()
	assert.NoError(t, <-ended)
}
