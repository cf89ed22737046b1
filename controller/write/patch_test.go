package write

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func TestPatchSendsWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "1", "b": "2"} })
		want := held.DeepCopy()
		delete(want.Data, "a")
		want.Labels = map[string]string{"l": "x"}
		got, err := Patch(t.Context(), w.configMaps, held, want)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"b": "2"}, got.Data)
		assert.Equal(t, map[string]string{"l": "x"}, got.Labels)
		assert.NotEqual(t, held.ResourceVersion, got.ResourceVersion)
		assert.Equal(t, w.get().ResourceVersion, got.ResourceVersion)
	})
}

func TestNothingIsAskedIfNothingDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) {
			c.Finalizers = []string{"example.com/one"}
			c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner("u1"), bucketKind)}
		})
		got, err := Patch(t.Context(), w.configMaps, held, held.DeepCopy())
		require.NoError(t, err)
		assert.Same(t, held, got)
		got, err = AddFinalizer(t.Context(), w.configMaps, held, "example.com/one")
		require.NoError(t, err)
		assert.Same(t, held, got)
		got, err = RemoveFinalizer(t.Context(), w.configMaps, held, "example.com/two")
		require.NoError(t, err)
		assert.Same(t, held, got)
		got, err = Adopt(t.Context(), w.configMaps, owner("u1"), bucketKind, held)
		require.NoError(t, err)
		assert.Same(t, held, got)
		assert.Zero(t, w.writes())
	})
}

func TestPatchOfAnOldStateIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/one"} })
		other := held.DeepCopy()
		other.Finalizers = append(other.Finalizers, "example.com/other")
		require.NoError(t, w.server.Update(other))

		want := held.DeepCopy()
		want.Data = map[string]string{"a": "1"}
		got, err := Patch(t.Context(), w.configMaps, held, want)
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.ErrorContains(t, err, "ns/c")
		assert.Same(t, held, got)
		_, err = AddFinalizer(t.Context(), w.configMaps, held, "example.com/two")
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		_, err = RemoveFinalizer(t.Context(), w.configMaps, held, "example.com/one")
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		_, err = Adopt(t.Context(), w.configMaps, owner("u1"), bucketKind, held)
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.Equal(t, []string{"example.com/one", "example.com/other"}, w.get().Finalizers)
	})
}

func TestPatchIsOfOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(*corev1.ConfigMap) {})
		want := held.DeepCopy()
		want.Data = map[string]string{"a": "1"}
		require.NoError(t, w.server.Delete(held.DeepCopy()))
		_, err := Patch(t.Context(), w.configMaps, held, want)
		assert.True(t, apierrors.IsNotFound(err), "%v", err)

		again := w.configMap(func(*corev1.ConfigMap) {})
		held = held.DeepCopy()
		held.ResourceVersion = again.ResourceVersion // as after a restored backup
		_, err = Patch(t.Context(), w.configMaps, held, want)
		assert.Error(t, err)
		assert.Empty(t, w.get().Data)

		_, err = Patch(t.Context(), w.configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, want)
		assert.ErrorIs(t, err, ErrNoVersion)
	})
}

func TestStatusIsWrittenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, Spec: BucketSpec{Size: 3}, Status: BucketStatus{Used: 2}}
		require.NoError(t, w.server.Create(held))
		require.NoError(t, w.server.Get(held))
		want := *held
		got, err := Status(t.Context(), w.buckets, held, &want)
		require.NoError(t, err)
		assert.Same(t, held, got)
		want.Status.Used = 0 // which JSON leaves out
		got, err = Status(t.Context(), w.buckets, held, &want)
		require.NoError(t, err)
		assert.Zero(t, got.Status.Used)
		assert.Equal(t, 3, got.Spec.Size)
		assert.Equal(t, 1, w.writes())

		want = *got
		want.Spec.Size, want.Status.Used = 4, 4
		_, err = Status(t.Context(), w.buckets, got, &want)
		assert.ErrorIs(t, err, ErrNotStatus)
		assert.Zero(t, w.writes())

		require.NoError(t, w.server.Delete(held))
		want.Spec.Size = got.Spec.Size
		_, err = Status(t.Context(), w.buckets, got, &want)
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		assert.ErrorContains(t, err, "the object is gone, or its resource has no subresource status: ")
	})
}

func TestWritesAreTold(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, w *world, held *corev1.ConfigMap) error{
		"patch": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			want := held.DeepCopy()
			want.Data = map[string]string{"a": "1"}
			_, err := Patch(ctx, w.configMaps, held, want)
			return err
		},
		"finalizer": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			_, err := AddFinalizer(ctx, w.configMaps, held, "example.com/one")
			return err
		},
		"adopt": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			_, err := Adopt(ctx, w.configMaps, owner("u1"), bucketKind, held)
			return err
		},
		"create or update": func(ctx context.Context, w *world, _ *corev1.ConfigMap) error {
			_, err := CreateOrUpdate(ctx, w.configMaps, nil, store.Key{Namespace: "ns", Name: "other"}, func(*corev1.ConfigMap) error { return nil })
			return err
		},
		"create by the client": func(ctx context.Context, w *world, _ *corev1.ConfigMap) error {
			_, err := w.resource().Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}}, metav1.CreateOptions{})
			return err
		},
		"update by the client": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			want := held.DeepCopy()
			want.Data = map[string]string{"a": "1"}
			_, err := w.resource().Update(ctx, want, metav1.UpdateOptions{})
			return err
		},
		"patch by the client": func(ctx context.Context, w *world, _ *corev1.ConfigMap) error {
			_, err := w.resource().In("ns").Patch(ctx, "c", types.MergePatchType, []byte(`{"data":{"a":"1"}}`), metav1.PatchOptions{})
			return err
		},
		"delete": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			return Delete(ctx, w.configMaps, held)
		},
		"delete what is gone": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			require.NoError(w.t, w.server.Delete(held.DeepCopy()))
			return Delete(ctx, w.configMaps, held)
		},
		"finalizer of what is gone": func(ctx context.Context, w *world, held *corev1.ConfigMap) error {
			require.NoError(w.t, w.server.Delete(held.DeepCopy()))
			held = held.DeepCopy()
			held.Finalizers = []string{"example.com/one"}
			_, err := RemoveFinalizer(ctx, w.configMaps, held, "example.com/one")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				held := w.configMap(func(*corev1.ConfigMap) {})
				w.assertTold(func(ctx context.Context) { assert.NoError(t, write(ctx, w, held)) })
			})
		})
	}
}

func TestDeletionIsOfTheObjectThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.configMap(func(*corev1.ConfigMap) {})
		require.NoError(t, w.server.Delete(first.DeepCopy()))
		require.NoError(t, Delete(t.Context(), w.configMaps, first), "it is gone")
		second := w.configMap(func(*corev1.ConfigMap) {})
		require.NoError(t, Delete(t.Context(), w.configMaps, first))
		assert.Equal(t, second.UID, w.get().UID, "another one has its name")
		assert.Equal(t, 2, w.writes())

		denied := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "denied by a webhook"}
		w.server.Inject(reflectortest.AnswerStatus(denied).On("delete", "configmaps").Times(1))
		require.True(t, apierrors.IsConflict(Delete(t.Context(), w.configMaps, second)), "it is still there")

		require.NoError(t, Delete(t.Context(), w.configMaps, second))
		_, err := w.configMaps.Get(t.Context(), "c", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err))

		going := second.DeepCopy()
		now := metav1.Now()
		going.DeletionTimestamp = &now
		w.writes()
		require.NoError(t, Delete(t.Context(), w.configMaps, going))
		assert.Zero(t, w.writes())
		assert.ErrorIs(t, Delete(t.Context(), w.configMaps, &corev1.ConfigMap{}), ErrNoVersion)
	})
}

// Ledger has numbers that a float64 does not have.
type Ledger struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Balance int64 `json:"balance"`
		Other   int64 `json:"other"`
	} `json:"spec"`
}

func TestLargeNumbersAreKept(t *testing.T) {
	held := &Ledger{}
	held.Spec.Balance, held.Spec.Other = math.MaxInt64-1, math.MaxInt64-1
	want := *held
	want.Spec.Balance++
	patch, err := mergePatchOf(held, &want)
	require.NoError(t, err)
	data, err := json.Marshal(patch)
	require.NoError(t, err)
	assert.JSONEq(t, `{"spec":{"balance":9223372036854775807}}`, string(data))
	assert.Contains(t, string(data), "9223372036854775807", "to the last digit")
}

// mergePatchOf returns the merge patch between two objects.
func mergePatchOf[T metav1.Object](held, want T) (map[string]any, error) {
	d, err := differenceOf(held, want)
	return mergePatch(d.shape, d.before, d.after), err
}

// Sealed cannot be encoded, and its own method quotes why.
type Sealed struct {
	metav1.ObjectMeta
	Price resource.Quantity
}

var errSealed = errors.New("bad password s3cret")

func (*Sealed) MarshalJSON() ([]byte, error) { return nil, errSealed }

func TestEqualObjectsAreNotEncoded(t *testing.T) {
	held := &Sealed{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "x"}}, Price: resource.MustParse("1500m")}
	want := Copy(held)
	patch, err := mergePatchOf(held, want)
	require.NoError(t, err)
	assert.Empty(t, patch)
	want.Labels["l"] = "y"
	_, err = mergePatchOf(held, want)
	require.ErrorIs(t, err, errSealed)
	assert.NotContains(t, err.Error(), "s3cret")
}

func TestNilAndEmptyDifferOnlyIfTheirJSONDoes(t *testing.T) {
	type object struct {
		metav1.ObjectMeta `json:"metadata"`
		Lists             []string `json:"lists"`
		Omitted           []string `json:"omitted,omitempty"`
	}
	patch, err := mergePatchOf(&object{}, &object{Omitted: []string{}})
	require.NoError(t, err)
	assert.Empty(t, patch)
	patch, err = mergePatchOf(&object{}, &object{Lists: []string{}})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"lists": []any{}}, patch)

	// A server of Kubernetes' own kinds stores protobuf, which has no empty list, so each call would send it again.
	slice := func(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{}}
	}
	patch, err = mergePatchOf(&discoveryv1.EndpointSlice{}, slice([]discoveryv1.Endpoint{}...))
	require.NoError(t, err)
	assert.Empty(t, patch)
	one := discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}}
	patch, err = mergePatchOf(slice(one), slice([]discoveryv1.Endpoint{}...))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"endpoints": nil}, patch)
	patch, err = mergePatchOf(&discoveryv1.EndpointSlice{}, slice(one))
	require.NoError(t, err)
	assert.Len(t, patch, 1)
}

// document is JSON of a few fields, lists and nulls.
func document(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 4
		if depth == 0 {
			most = 2
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.Int64Range(math.MaxInt64-2, math.MaxInt64).Draw(t, "number")
		case 1:
			return rapid.SampledFrom([]string{"", "x"}).Draw(t, "text")
		case 2:
			return rapid.Bool().Draw(t, "truth")
		case 3:
			return rapid.SliceOfN(document(depth-1), 0, 2).Draw(t, "list")
		default:
			return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), document(depth-1), 0, 3).Draw(t, "fields")
		}
	})
}

// The server has a merge patch of its own; the one here must mean the same to it.
func TestPatchMakesOneDocumentOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), document(2), 0, 3)
		held, err := json.Marshal(fields.Draw(t, "held"))
		require.NoError(t, err)
		want, err := json.Marshal(fields.Draw(t, "want"))
		require.NoError(t, err)
		before, err := decodeDocument(held)
		require.NoError(t, err)
		after, err := decodeDocument(want)
		require.NoError(t, err)
		patch := mergePatch(shape{}, before, after)
		sent, err := json.Marshal(patch)
		require.NoError(t, err)
		got, err := jsonpatch.MergePatch(held, sent) // as the API server does
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(got))
		if string(held) == string(want) {
			assert.Empty(t, patch)
		}
	})
}

func TestCreateOrUpdateCreatesThenPatchesADifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key, size := newWorld(t), store.Key{Namespace: "ns", Name: "b"}, 3
		resize := func(b *Bucket) error {
			b.Spec.Size = size
			return nil
		}
		made, err := CreateOrUpdate(t.Context(), w.buckets, nil, key, resize)
		require.NoError(t, err)
		assert.Equal(t, 3, made.Spec.Size)
		assert.Equal(t, 1, w.writes())

		same, err := CreateOrUpdate(t.Context(), w.buckets, made, key, resize)
		require.NoError(t, err)
		assert.Same(t, made, same)
		assert.Zero(t, w.writes(), "nothing differs")

		size = 4
		changed, err := CreateOrUpdate(t.Context(), w.buckets, made, key, resize)
		require.NoError(t, err)
		assert.Equal(t, 4, changed.Spec.Size)
		assert.Equal(t, 3, made.Spec.Size, "the cached object is not changed")

		w.writes()
		adopted, err := CreateOrUpdate(t.Context(), w.buckets, nil, key, resize)
		require.NoError(t, err)
		assert.Equal(t, changed, adopted, "the cache does not have it")
		assert.Equal(t, 1, w.writes(), "one creation that was refused")
		_, err = CreateOrUpdate(t.Context(), w.buckets, made, key, func(b *Bucket) error { b.Spec.Size = 9; return nil })
		assert.True(t, apierrors.IsConflict(err), "%v", err)
	})
}

func TestCreateOrUpdateWritesNoOtherObjectThanThatOfTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		grow := func(b *Bucket) error { b.Spec.Size++; return nil }
		held, err := CreateOrUpdate(t.Context(), w.buckets, nil, store.Key{Namespace: "ns", Name: "a"}, grow)
		require.NoError(t, err)
		w.writes()
		for _, key := range []store.Key{{Namespace: "ns", Name: "b"}, {Namespace: "other", Name: "a"}} {
			_, err := CreateOrUpdate(t.Context(), w.buckets, held, key, grow)
			assert.ErrorContains(t, err, "held is not the object of the key "+key.String())
		}
		assert.Zero(t, w.writes())
		_, err = CreateOrUpdate(t.Context(), w.buckets, held, store.Key{Name: "a"}, grow)
		require.NoError(t, err, "the client has the namespace")
		assert.Equal(t, 1, w.writes())
	})
}

func TestCreateOrUpdateSendsNothingIfTheChangeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ouch := newWorld(t), errors.New("ouch")
		fails := func(*Bucket) error { return ouch }
		for _, held := range []*Bucket{nil, {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}} {
			_, err := CreateOrUpdate(t.Context(), w.buckets, held, store.Key{Namespace: "ns", Name: "b"}, fails)
			assert.ErrorIs(t, err, ouch)
			assert.ErrorContains(t, err, "ns/b")
		}
		assert.Zero(t, w.writes())
	})
}

func TestObjectOfAnotherNamespaceThanTheClientIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "u", ResourceVersion: "1"}}
		want := *held
		want.Spec.Size = 4
		_, err := Patch(t.Context(), w.buckets.In("other"), held, &want)
		assert.ErrorIs(t, err, client.ErrOtherObject)
		assert.ErrorIs(t, Delete(t.Context(), w.buckets.In("other"), held), client.ErrOtherObject)
		assert.Zero(t, w.writes())
	})
}
