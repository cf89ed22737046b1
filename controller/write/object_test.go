package write

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func owner(uid types.UID) *Bucket {
	return &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: uid}}
}

func TestOwnTakesNothingFromAnotherController(t *testing.T) {
	held := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u0"}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", OwnerReferences: []metav1.OwnerReference{held}}}
	require.NoError(t, Own(owner("u1"), bucketKind, object))
	assert.Equal(t, []metav1.OwnerReference{held, *metav1.NewControllerRef(owner("u1"), bucketKind)}, object.OwnerReferences)

	err := Own(owner("u2"), bucketKind, object)
	var taken *OwnedError
	require.ErrorAs(t, err, &taken)
	assert.Equal(t, types.UID("u1"), taken.Owner.UID)
	assert.Equal(t, "ns/c", taken.Key.String())
	assert.True(t, metav1.IsControlledBy(object, owner("u1")), "nothing has changed")
}

func TestOwnChangesAReferenceInItsPlace(t *testing.T) {
	old := *metav1.NewControllerRef(owner("u1"), bucketKind)
	old.APIVersion, old.BlockOwnerDeletion = "example.com/v1alpha1", nil
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{old, {Kind: "Node", UID: "u0"}}}}
	shared := object.OwnerReferences
	require.NoError(t, Own(owner("u1"), bucketKind, object))
	assert.Equal(t, []metav1.OwnerReference{*metav1.NewControllerRef(owner("u1"), bucketKind), {Kind: "Node", UID: "u0"}}, object.OwnerReferences)
	assert.Equal(t, "example.com/v1alpha1", shared[0].APIVersion, "a shallow copy shares it")
}

func TestOwnersAreOfTheSameNamespaceOrOfNone(t *testing.T) {
	assert.ErrorIs(t, Own(owner("u1"), bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}), ErrOtherNamespace)
	assert.ErrorIs(t, Own(owner("u1"), bucketKind, &corev1.Namespace{}), ErrOtherNamespace)
	global := owner("u1")
	global.Namespace = ""
	assert.NoError(t, Own(global, bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}))
	assert.ErrorIs(t, Own(owner(""), bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}), ErrNoVersion)
}

func TestErrorsHaveAtMostOneKibibyte(t *testing.T) {
	long := strings.Repeat("x", 2000)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: long, UID: "u", ResourceVersion: "1"}}
	_, ofPatch := Patch(t.Context(), nil, object, object)
	_, ofCreate := CreateOrUpdate[*corev1.ConfigMap](t.Context(), nil, nil, store.Key{Namespace: "ns", Name: long}, func(*corev1.ConfigMap) error { return errors.New(long) })
	_, ofFinalizer := AddFinalizer(t.Context(), nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", DeletionTimestamp: new(metav1.Time)}}, long)
	object.OwnerReferences = []metav1.OwnerReference{{Kind: long, Name: long, UID: "u0", Controller: new(true)}}
	for name, err := range map[string]error{
		"the same object": ofPatch, "a function": ofCreate, "a finalizer": ofFinalizer,
		"another controller": Own(owner("u1"), bucketKind, object),
		"another namespace":  Own(owner("u1"), bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: long}}),
	} {
		require.Error(t, err, name)
		assert.LessOrEqual(t, len(err.Error()), 1<<10, name)
	}
	assert.ErrorIs(t, ofPatch, ErrSame)
	assert.ErrorContains(t, ofPatch, ErrSame.Error())
	assert.ErrorIs(t, ofFinalizer, ErrDeleting)
}

// A ConfigMap would lose its data to an object that has only metadata.
func TestObjectsOfTwoTypesAreNotCompared(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "1"}
	held := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1"}}
	_, err := Patch[metav1.Object](t.Context(), nil, held, &metav1.PartialObjectMetadata{ObjectMeta: meta})
	assert.ErrorContains(t, err, "held is a *v1.ConfigMap, and want is a *v1.PartialObjectMetadata")
}

func TestAdoptPatchesWhatBelongsToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u0"}
		held := w.configMap(func(c *corev1.ConfigMap) { c.OwnerReferences = []metav1.OwnerReference{other} })
		got, err := Adopt(t.Context(), w.configMaps, owner("u1"), bucketKind, held)
		require.NoError(t, err)
		assert.True(t, metav1.IsControlledBy(got, owner("u1")))
		assert.Len(t, w.get().OwnerReferences, 2)
		assert.Equal(t, []metav1.OwnerReference{other}, held.OwnerReferences, "the cached one is everybody's")

		w.writes()
		_, err = Adopt(t.Context(), w.configMaps, owner("u2"), bucketKind, got)
		var taken *OwnedError
		require.ErrorAs(t, err, &taken)
		assert.Zero(t, w.writes())
	})
}

const finalizer = "example.com/test"

func TestObjectIsAliveOnceItHasTheFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/other"} })
		never := func(context.Context, *corev1.ConfigMap) error { panic("it is not being deleted") }

		fault := w.server.Inject(reflectortest.Answer(500).On("patch", "configmaps"))
		current, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, never)
		assert.Error(t, err)
		assert.False(t, alive, "the server does not have it")
		assert.Same(t, held, current)
		fault.Remove()

		got, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, never)
		require.NoError(t, err)
		assert.True(t, alive)
		assert.Equal(t, []string{"example.com/other", finalizer}, got.Finalizers)
		assert.Equal(t, got, w.get())
		w.writes()
		_, alive, err = Finalize(t.Context(), w.configMaps, got, finalizer, never)
		require.NoError(t, err)
		assert.True(t, alive)
		assert.Zero(t, w.writes())
	})
}

// undoing changes an answer, as a webhook changes the object.
type undoing struct {
	Patcher[*corev1.ConfigMap]
	undo func(*corev1.ConfigMap)
}

func (p undoing) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.ConfigMap, error) {
	object, err := p.Patcher.Patch(ctx, name, kind, data, opts, subresources...)
	if err == nil {
		p.undo(object)
	}
	return object, err
}

func TestChangeOfTheMetadataThatAWebhookUndoesIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{finalizer} })
		_, err := Adopt(t.Context(), Patcher[*corev1.ConfigMap](undoing{w.configMaps, func(c *corev1.ConfigMap) { c.OwnerReferences = nil }}), owner("u1"), bucketKind, held)
		require.ErrorIs(t, err, errNoEffect)
		keeping := undoing{w.configMaps, func(c *corev1.ConfigMap) { c.Finalizers = []string{finalizer} }}
		_, err = RemoveFinalizer(t.Context(), Patcher[*corev1.ConfigMap](keeping), w.get(), finalizer)
		require.ErrorIs(t, err, errNoEffect)
	})
}

func TestAliveOnlyWithTheFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.configMap(func(*corev1.ConfigMap) {})
		never := func(context.Context, *corev1.ConfigMap) error { return errors.New("called") }
		_, alive, err := Finalize(t.Context(), Patcher[*corev1.ConfigMap](undoing{w.configMaps, func(c *corev1.ConfigMap) { c.Finalizers = nil }}), w.get(), finalizer, never)
		require.ErrorIs(t, err, errNoEffect)
		assert.False(t, alive)
	})
}

func TestFinalizerGoesAfterTheCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{finalizer} })
		require.NoError(t, w.configMaps.Delete(t.Context(), "c", metav1.DeleteOptions{}))
		held := w.get()
		w.writes()

		ouch := errors.New("ouch")
		_, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, func(context.Context, *corev1.ConfigMap) error { return ouch })
		assert.ErrorIs(t, err, ouch)
		assert.False(t, alive)
		assert.Zero(t, w.writes())

		cleaned := 0
		cleanup := func(_ context.Context, c *corev1.ConfigMap) error {
			assert.Equal(t, held, c)
			assert.Equal(t, []string{finalizer}, w.get().Finalizers, "not before the cleanup")
			cleaned++
			return nil
		}
		fault := w.server.Inject(reflectortest.Answer(500).On("patch", "configmaps"))
		current, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, cleanup)
		assert.Error(t, err)
		assert.False(t, alive)
		assert.Same(t, held, current)
		fault.Remove()
		_, alive, err = Finalize(t.Context(), w.configMaps, held, finalizer, cleanup)
		require.NoError(t, err)
		assert.False(t, alive)
		assert.Equal(t, 2, cleaned)
		_, err = w.configMaps.Get(t.Context(), "c", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "it was the last one")
	})
}

// write-W3: the answer to the removal of the last finalizer has the version of the state before.
func TestCleanupIsNotRepeatedWhileTheCacheLacksTheRemoval(t *testing.T) {
	type sequence struct {
		events    int // that the cache gets before its watch stalls
		generated bool
		before    func(*world, context.Context, *corev1.ConfigMap) *corev1.ConfigMap
		cleanup   func(*world)
	}
	labelled := func(w *world, ctx context.Context, held *corev1.ConfigMap) *corev1.ConfigMap {
		want := held.DeepCopy()
		want.Labels = map[string]string{"phase": "ending"}
		current, err := Patch(ctx, w.resource(), held, want)
		require.NoError(w.t, err)
		return current
	}
	removed := func(w *world) {
		c := w.get()
		c.Finalizers = nil
		require.NoError(w.t, w.server.Update(c))
		<-time.After(time.Second) // a watch that works has shown it by now
	}
	for name, s := range map[string]sequence{
		"a Resource":                         {events: 2},
		"a generated client":                 {events: 2, generated: true},
		"after another write of the call":    {events: 3, before: labelled},
		"another process removed it":         {events: 2, cleanup: removed},
		"another process, and it was shown":  {events: 9, cleanup: removed},
		"the cache shows it immediately":     {events: 9},
		"also after another write of a call": {events: 9, before: labelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{finalizer} })
				require.NoError(t, w.configMaps.Delete(t.Context(), "c", metav1.DeleteOptions{}))
				release := make(chan struct{})
				w.server.Inject(reflectortest.StallAfterEvents(s.events, release).On("watch", "configmaps").Times(1))
				var through Patcher[*corev1.ConfigMap] = w.resource()
				if s.generated {
					through = w.configMaps
				}
				var cleaned, ended atomic.Int32
				informed := informer.New(w.configMaps)
				r := reconcile.New("test", informed, func(ctx context.Context, _ store.Key, held *corev1.ConfigMap) (reconcile.Result, error) {
					if held == nil {
						ended.Add(1)
						return reconcile.Result{}, nil
					}
					if s.before != nil {
						held = s.before(w, ctx, held)
					}
					_, _, err := Finalize(ctx, through, held, finalizer, func(context.Context, *corev1.ConfigMap) error {
						cleaned.Add(1)
						if s.cleanup != nil {
							s.cleanup(w)
						}
						return nil
					})
					return reconcile.Result{RequeueAfter: time.Second}, err
				})
				all := manager.New(nil)
				all.Add(informed)
				all.Add(r)
				ctx, cancel := context.WithCancel(t.Context())
				result := make(chan error, 1)
				go func() { result <- all.Run(ctx) }()
				<-time.After(10 * time.Second)
				assert.EqualValues(t, 1, cleaned.Load())
				assert.Equal(t, s.events > 3, ended.Load() > 0, "the wait ends with the deletion, and not before")
				close(release)
				<-time.After(2 * time.Second)
				assert.EqualValues(t, 1, cleaned.Load())
				assert.Positive(t, ended.Load(), "the key does not wait on")
				cancel()
				require.NoError(t, <-result)
			})
		})
	}
}

func TestDeletionWithoutTheFinalizerIsNobodysBusiness(t *testing.T) {
	now := metav1.Now()
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: &now, Finalizers: []string{"example.com/other"}}}
	never := func(context.Context, *corev1.ConfigMap) error { panic("it is somebody else's") }
	_, alive, err := Finalize(t.Context(), Patcher[*corev1.ConfigMap](nil), held, finalizer, never)
	assert.NoError(t, err)
	assert.False(t, alive)
	_, err = AddFinalizer(t.Context(), Patcher[*corev1.ConfigMap](nil), held, finalizer)
	assert.ErrorIs(t, err, ErrDeleting)
}

// plain is a struct without methods of its own.
type plain struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Times    map[string]*metav1.Time
	Lists    map[string][]string
	Any      map[string]any
	Grid     [2][]int
	Items    []plain
	Quantity resource.Quantity
	Memory   map[string]resource.Quantity
	Pod      *corev1.Pod
	Next     *plain
	At       time.Time
	None     []string
	hidden   []int
}

func newPlain() *plain {
	p := &plain{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "x"}, Finalizers: []string{"f"}},
		Times:      map[string]*metav1.Time{"t": {Time: time.Unix(1, 0)}},
		Lists:      map[string][]string{"l": {"a", "b"}},
		Any:        map[string]any{"m": map[string]any{"n": []any{"x", int64(1)}}},
		Grid:       [2][]int{{1}, {2}},
		Items:      []plain{{Lists: map[string][]string{"l": {"c"}}}},
		Quantity:   resource.MustParse("0.5"),
		Memory:     map[string]resource.Quantity{"m": resource.MustParse("1Gi")},
		Pod:        &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "p"}}},
		Next:       &plain{Lists: map[string][]string{"l": {"d"}}},
		At:         time.Unix(2, 0),
		hidden:     []int{1},
	}
	p.Quantity.AsDec() // it has a pointer from now on
	return p
}

func TestCopySharesNothing(t *testing.T) {
	held := newPlain()
	c := Copy(held)
	require.Equal(t, held, c)
	c.Labels["l"], c.Finalizers[0] = "y", "g"
	c.Times["t"].Time = time.Unix(9, 0)
	c.Lists["l"][0] = "z"
	c.Any["m"].(map[string]any)["n"].([]any)[0] = "z"
	c.Grid[0][0] = 9
	c.Items[0].Lists["l"][0] = "z"
	c.Quantity.AsDec().SetUnscaled(9)
	c.Memory["m"] = resource.MustParse("2Gi")
	c.Pod.Labels["l"] = "z"
	c.Next.Lists["l"][0] = "z"
	assert.Equal(t, newPlain(), held)
	assert.Nil(t, c.None)

	assert.Nil(t, Copy[*plain](nil))
	assert.Nil(t, Copy[*corev1.Pod](nil))
	assert.Nil(t, Copy[any](nil))
	assert.Equal(t, 3, Copy(3))
}

// lent has the methods of what it embeds, which copy less than the whole.
type lent struct {
	*corev1.Pod
	Lists map[string][]string
}

func TestCopyOfAStructThatEmbedsAnObject(t *testing.T) {
	held := &lent{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "x"}}}, Lists: map[string][]string{"l": {"a"}}}
	c := Copy(held)
	require.Equal(t, held, c)
	c.Labels["l"], c.Lists["l"][0] = "y", "b"
	assert.Equal(t, "x", held.Labels["l"])
	assert.Equal(t, "a", held.Lists["l"][0])
	assert.Equal(t, reflect.TypeOf(held), reflect.TypeOf(Copy[metav1.Object](held)))
}

func TestChangeOfACopyIsPatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held, err := w.buckets.Create(t.Context(), &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", Labels: map[string]string{"l": "x"}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		want := Copy(held)
		want.Labels["l"] = "y"
		got, err := Patch(t.Context(), w.buckets, held, want)
		require.NoError(t, err)
		assert.Equal(t, "y", got.Labels["l"])
		assert.Equal(t, "x", held.Labels["l"])
		held.Labels["l"] = "y"
		_, err = Patch(t.Context(), w.buckets, held, held)
		assert.ErrorIs(t, err, ErrSame, "it was changed where it is held")
	})
}

func TestCleanupMayChangeItsObject(t *testing.T) {
	now := metav1.Now()
	held := &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "u", ResourceVersion: "1", DeletionTimestamp: &now, Finalizers: []string{"f"}, Labels: map[string]string{"l": "x"}}}
	_, _, err := Finalize(t.Context(), nil, held, "f", func(_ context.Context, b *Bucket) error {
		b.Labels["l"] = "y"
		return context.Canceled
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "x", held.Labels["l"])
}

type shared struct {
	metav1.ObjectMeta `json:"metadata"`
	Notes             map[string]string
}

type embedsShared struct {
	metav1.TypeMeta
	shared
}

func TestCopyOfFieldsThatAnUnexportedTypeLends(t *testing.T) {
	held := &embedsShared{shared: shared{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Notes: map[string]string{"a": "b"},
	}}
	c := Copy(held)
	c.Labels["a"], c.Notes["a"] = "c", "c"
	assert.Equal(t, "b", held.Labels["a"])
	assert.Equal(t, "b", held.Notes["a"])
}
