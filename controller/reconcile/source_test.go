package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

func TestPanickingMappingIsReportedOnceAndHarmsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(secret("bad", "a"), secret("good", "b"))
		var got, failed list
		stop := w.run(New("test", w.configMaps, got.noting(), Watch(w.secrets, func(s *corev1.Secret) []store.Key {
			if s.Name == "bad" && len(s.Data) == 0 {
				panic("ouch")
			}
			return []store.Key{{Name: s.OwnerReferences[0].Name}}
		}), WithErrorHandler(func(_ context.Context, err error) { failed.add(err.Error()) })))
		synctest.Wait()
		assert.Equal(t, []string{"b"}, got.take())
		assert.Equal(t, []string{`handling "ns/bad" failed for good (attempt 1): panic on "ns/bad": ouch`}, failed.take())
		better := secret("bad", "a")
		better.Data = map[string][]byte{"x": nil}
		w.update(better)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take(), "what the object is now; only what it was panics")
		assert.Len(t, failed.take(), 1)
		require.NoError(t, stop())
	})
}

func TestPredicatesHaveTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"), secret("s", "c"))
		var got list
		r := New("test", w.configMaps, got.noting(),
			Watch(w.secrets, OwnerKeys[*corev1.Secret](schema.GroupKind{Kind: "ConfigMap"}),
				func(e eventqueue.Event[*corev1.Secret]) bool { return true },
				func(e eventqueue.Event[*corev1.Secret]) bool { return e.Type == eventqueue.Deletion }),
			Where(func(e eventqueue.Event[*corev1.ConfigMap]) bool { return e.Key.Name == "a" }),
			Where[*corev1.ConfigMap](nil))
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take())
		require.NoError(t, w.server.Delete(secret("s", "c")))
		synctest.Wait()
		assert.Equal(t, []string{"c"}, got.take())
		require.NoError(t, stop())
	})
}

func TestOwnerKeysIsTheControllerOfTheKind(t *testing.T) {
	yes, kind := true, schema.GroupKind{Group: "apps", Kind: "Deployment"}
	key := []store.Key{{Namespace: "ns", Name: "d"}}
	for name, tc := range map[string]struct {
		refs []metav1.OwnerReference
		want []store.Key
	}{
		"none":          {nil, nil},
		"controller":    {[]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", Controller: &yes}}, key},
		"other version": {[]metav1.OwnerReference{{APIVersion: "apps/v2", Kind: "Deployment", Name: "d", Controller: &yes}}, key},
		"no controller": {[]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}}, nil},
		"other kind":    {[]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "d", Controller: &yes}}, nil},
		"other group":   {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Deployment", Name: "d", Controller: &yes}}, nil},
		"no version":    {[]metav1.OwnerReference{{APIVersion: "a/b/c", Kind: "Deployment", Name: "d", Controller: &yes}}, nil},
	} {
		object := configMap("x")
		object.OwnerReferences = tc.refs
		assert.Equal(t, tc.want, OwnerKeys[*corev1.ConfigMap](kind)(object), name)
	}
}

func TestByLabelIsTheObjectThatALabelNames(t *testing.T) {
	object := configMap("x")
	keys := ByLabel[*corev1.ConfigMap]("example.com/of")
	assert.Empty(t, keys(object))
	object.Labels = map[string]string{"example.com/of": "y"}
	assert.Equal(t, []store.Key{{Namespace: "ns", Name: "y"}}, keys(object))
}

func TestByIndexAreAllObjectsWithTheSameValue(t *testing.T) {
	cache := store.New(store.ObjectKey[*corev1.ConfigMap])
	index, err := store.AddIndex(cache, "uses", func(c *corev1.ConfigMap) []string { return []string{c.Data["uses"]} })
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		c := configMap(name)
		c.Data = map[string]string{"uses": "s" + name[:1]}
		if name == "b" {
			c.Data["uses"] = "sa"
		}
		require.NoError(t, cache.Add(c))
	}
	keys := ByIndex(index, func(s *corev1.Secret) []string { return []string{s.Name} })
	assert.Equal(t, []store.Key{{Namespace: "ns", Name: "a"}, {Namespace: "ns", Name: "b"}}, keys(secret("sa", "")))
	assert.Empty(t, keys(secret("sx", "")))
}

func TestGenerationChanged(t *testing.T) {
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1}}
	two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 2}}
	again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "v", Generation: 1}}
	going := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1, DeletionTimestamp: &metav1.Time{}}}
	event := func(of eventqueue.Type, origin eventqueue.Origin, prior, object *corev1.ConfigMap) eventqueue.Event[*corev1.ConfigMap] {
		return eventqueue.Event[*corev1.ConfigMap]{Type: of, Origin: origin, Prior: prior, Object: object}
	}
	assert.False(t, GenerationChanged(event(eventqueue.Modification, eventqueue.Watch, one, one)))
	assert.True(t, GenerationChanged(event(eventqueue.Modification, eventqueue.Watch, one, two)))
	assert.True(t, GenerationChanged(event(eventqueue.Modification, eventqueue.Watch, one, again)))
	assert.True(t, GenerationChanged(event(eventqueue.Modification, eventqueue.Watch, one, going)))
	assert.True(t, GenerationChanged(event(eventqueue.Addition, eventqueue.List, nil, one)))
	assert.True(t, GenerationChanged(event(eventqueue.Deletion, eventqueue.Watch, one, one)))
}

func TestPredicatesAreNotAskedAboutAnObjectThatLeft(t *testing.T) {
	w := &watching[*corev1.Secret]{only: []func(eventqueue.Event[*corev1.Secret]) bool{
		func(eventqueue.Event[*corev1.Secret]) bool { return false },
	}}
	var told []trigger
	for _, left := range []bool{false, true} {
		require.NoError(t, w.handle(eventqueue.Event[*corev1.Secret]{Type: eventqueue.Deletion, OutOfScope: left, Object: secret("s", "")},
			func(t trigger) { told = append(told, t) }))
	}
	require.Len(t, told, 1, "another process has the object now, whatever its last state was")
	assert.True(t, told[0].left)
}

func TestStateThatDidNotBelongToAKeyIsNoPriorOfIt(t *testing.T) {
	w := &watching[*corev1.Secret]{keys: func(s *corev1.Secret) (keys []store.Key) {
		for name := range s.Data {
			keys = append(keys, store.Key{Name: name})
		}
		return keys
	}}
	before, now := secret("s", ""), secret("s", "")
	before.UID, before.ResourceVersion, before.Data = "u", "4", map[string][]byte{"stays": nil, "leaves": nil}
	now.UID, now.ResourceVersion, now.Data = "u", "5", map[string][]byte{"stays": nil, "comes": nil}
	got := map[string]store.Version{}
	require.NoError(t, w.handle(eventqueue.Event[*corev1.Secret]{Type: eventqueue.Modification, Origin: eventqueue.Watch, Prior: before, Object: now},
		func(t trigger) { got[t.key.Name] = t.prior }))
	assert.Equal(t, map[string]store.Version{"stays": store.VersionOf(before), "leaves": store.VersionOf(before), "comes": {}}, got)
}

func TestEachKeyIsToldOnceAnEvent(t *testing.T) {
	s := &watching[*corev1.Secret]{keys: func(*corev1.Secret) []store.Key { return []store.Key{{Name: "a"}, {Name: "a"}} }}
	told := 0
	require.NoError(t, s.handle(eventqueue.Event[*corev1.Secret]{Type: eventqueue.Modification, Prior: secret("s", ""), Object: secret("s", "")},
		func(trigger) { told++ }))
	assert.Equal(t, 1, told)
}

func TestTriggersSayWhereTheyComeFrom(t *testing.T) {
	of := secret("s", "a")
	of.UID, of.ResourceVersion = "u", "5"
	in := store.Key{Cluster: "west", Namespace: "ns", Name: "s"}
	mapping := func(*corev1.Secret) []store.Key { return []store.Key{{Name: "a"}, {Cluster: "east", Name: "a"}} }
	before := secret("s", "a")
	before.UID, before.ResourceVersion = "u", "4"
	base := trigger{of: store.VersionOf(of), live: true}
	for name, tc := range map[string]struct {
		event eventqueue.Event[*corev1.Secret]
		want  trigger
	}{
		"news":     {eventqueue.Event[*corev1.Secret]{Type: eventqueue.Addition, Origin: eventqueue.Watch}, trigger{of: base.of, added: true, live: true}},
		"change":   {eventqueue.Event[*corev1.Secret]{Type: eventqueue.Modification, Origin: eventqueue.Watch, Prior: before}, trigger{of: base.of, prior: store.VersionOf(before), live: true}},
		"first":    {eventqueue.Event[*corev1.Secret]{Type: eventqueue.Addition, Origin: eventqueue.List, Initial: true}, trigger{of: base.of, added: true, listed: true}},
		"relisted": {eventqueue.Event[*corev1.Secret]{Type: eventqueue.Modification, Origin: eventqueue.List, Prior: of}, trigger{of: base.of, prior: base.of, listed: true, live: true}},
		"left":     {eventqueue.Event[*corev1.Secret]{Type: eventqueue.Deletion, Origin: eventqueue.Watch, OutOfScope: true}, trigger{of: base.of, gone: true, left: true, live: true}},
		"gone":     {eventqueue.Event[*corev1.Secret]{Type: eventqueue.Deletion, Origin: eventqueue.Watch}, trigger{of: base.of, gone: true, live: true}},
	} {
		tc.event.Key, tc.event.Object = in, of
		for kind, keys := range map[string]func(*corev1.Secret) []store.Key{"own": nil, "mapped": mapping} {
			var want, got []trigger
			tc.want.primary = keys == nil
			if keys == nil {
				tc.want.key = in
				want = append(want, tc.want)
			} else {
				for _, cluster := range []string{"west", "east"} {
					one := tc.want
					one.key = store.Key{Cluster: cluster, Name: "a"}
					if cluster != in.Cluster { // a call writes in the cluster of its key
						one.of, one.prior = store.Version{}, store.Version{}
					}
					want = append(want, one)
				}
			}
			w := &watching[*corev1.Secret]{keys: keys, only: []func(eventqueue.Event[*corev1.Secret]) bool{nil}}
			require.NoError(t, w.handle(tc.event, func(t trigger) { got = append(got, t) }))
			assert.Equal(t, want, got, "%s, %s", name, kind)
		}
	}
}

func TestMappingPanicReachesTheInformersLoggerAndErrorHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t) // the reconciler has no logger and no hook of its own
		h.create(configMap("a"), secret("s", "a"))
		h.mapping = func(*corev1.Secret) []string { panic("ouch") }
		stop := h.start()
		synctest.Wait()
		require.NoError(t, stop())
		fields, _ := h.logged("handler failed")
		assert.Equal(t, "ns/s", fields["key"])
		assert.Equal(t, "test", fields["subscriber"])
		assert.Contains(t, fields["handlerStack"], "source_test.go")
		failures := h.hooked.take()
		require.Len(t, failures, 1, "an event is reported once")
		panicked := &eventqueue.PanicError{}
		require.ErrorAs(t, failures[0], &panicked)
		assert.Equal(t, "ouch", panicked.Value)
		assert.Equal(t, "ns/s", panicked.Key.String())
		assert.Equal(t, []string{"a"}, h.calls.take(), "other events are mapped")
	})
}

func TestKeyWithoutANameIsReportedAndNotReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.create(secret("s", "a"))
		h.mapping = func(*corev1.Secret) []string { return []string{"", "a"} }
		stop := h.start()
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"a"}, h.calls.take(), "the other keys of the event are reconciled")
		failures := h.hooked.take()
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], store.ErrBadKey)
		assert.ErrorContains(t, failures[0], "ns/s")
		fields, _ := h.logged("handler failed")
		assert.Equal(t, "ns/s", fields["key"])
	})
}

func TestWhereOfAnotherTypeIsAnErrorOfRun(t *testing.T) {
	w := newWorld(t)
	r := New("test", w.configMaps, (&list{}).noting(), Where(GenerationChanged[*corev1.Secret]))
	want := "reconciler test: predicate of Where is for another type than the primary informer has: it is for *v1.Secret"
	assert.EqualError(t, r.Run(t.Context()), want)
	assert.EqualError(t, r.Ready(), want)
}

func TestReconcilerWaitsForAKindThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		is   func(error) bool
	}{
		"forbidden":     {403, apierrors.IsForbidden},
		"not installed": {404, func(err error) bool { return errors.Is(err, reflector.ErrNotServed) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				h.create(configMap("a"), secret("s", "a"))
				fault := h.server.Inject(reflectortest.Answer(tc.code).On("", "secrets"))
				var calls list
				other := New("other", h.configMaps, calls.noting())
				stopOther := runMember(t, other)
				stop := h.start()
				<-time.After(time.Minute)
				err := h.reconciler.Ready()
				assert.ErrorContains(t, err, "reconciler test: informer secrets is not synced; reflector is BackingOff after attempt ")
				assert.True(t, tc.is(err), "%v", err)
				assert.Empty(t, h.calls.take())
				assert.Equal(t, []string{"a"}, calls.take(), "a reconciler of other kinds works")
				assert.NoError(t, other.Ready())
				for _, line := range h.lines.TakeAll() {
					assert.Equal(t, "secrets", line.ContextMap()["informer"])
				}

				fault.Remove()
				<-time.After(time.Minute)
				assert.Equal(t, []string{"a"}, slices.Compact(h.calls.take()))
				assert.NoError(t, h.reconciler.Ready())
				require.NoError(t, stopOther())
				require.NoError(t, stop())
			})
		})
	}
}

func TestNamespaceThatEndsIsNamedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := newWorld(t), reflectortest.Start(t) // server has the namespace that ends
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		scopes, ending := scoped.New(store.ObjectKey[*corev1.ConfigMap]), store.Scope{Namespace: "ending"}
		require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "ns"}, w.client.CoreV1().ConfigMaps("ns")))
		require.NoError(t, scoped.Add(scopes, ending, client.CoreV1().ConfigMaps("ending")))
		w.configMaps = scopes.Informer()
		w.create(configMap("a"))
		last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "b"}}
		require.NoError(t, server.Create(last))
		var calls list
		r := New("test", w.configMaps, func(_ context.Context, key store.Key, object *corev1.ConfigMap) (Result, error) {
			if object == nil {
				calls.add(key.Name + " is gone")
			} else {
				calls.add(key.Name)
			}
			return Result{}, nil
		})
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(calls.take()))

		// The objects of a namespace end first, then the role bindings that allow to watch it.
		require.NoError(t, server.Delete(last))
		synctest.Wait()
		assert.Equal(t, []string{"b is gone"}, calls.take())
		server.Inject(reflectortest.Answer(403).On("", "configmaps"))
		<-time.After(time.Hour) // the watch ended by itself
		err = r.Ready()
		var stale *informer.StaleError
		require.ErrorAs(t, err, &stale)
		assert.Equal(t, ending, stale.Scope.Scope)
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
		w.touch("a", "x")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, calls.take())
		require.NoError(t, scopes.Drop(ending))
		assert.NoError(t, r.Ready())
		require.NoError(t, stop())
	})
}

func TestPanickingPredicateIsReportedWithTheKeyOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("bad"), configMap("good"))
		var calls list
		var failures errorList
		r := New("test", w.configMaps, calls.noting(), WithErrorHandler(failures.note),
			Where(func(event eventqueue.Event[*corev1.ConfigMap]) bool {
				if event.Key.Name == "bad" {
					panic("ouch")
				}
				return true
			}))
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"good"}, calls.take())
		all := failures.take()
		require.Len(t, all, 1)
		assert.EqualError(t, all[0], `handling "ns/bad" failed for good (attempt 1): panic on "ns/bad": ouch`)
		assert.NoError(t, r.Ready())
		require.NoError(t, stop())
	})
}
