package write

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		got, err := patchBucket(t.Context(), w.buckets, held, want)
		require.NoError(t, err)
		assert.Equal(t, "y", got.Labels["l"])
		assert.Equal(t, "x", held.Labels["l"])
		held.Labels["l"] = "y"
		_, err = patchBucket(t.Context(), w.buckets, held, held)
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
