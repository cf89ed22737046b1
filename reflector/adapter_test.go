package reflector

import (
	"context"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAdaptedWatchReturnsTheEventsThatAreReady(t *testing.T) {
	const events = maxTogether + 3
	from := watch.NewFakeWithChanSize(events, false)
	for range events {
		from.Add(configMap("a", "u", "1"))
	}
	from.Stop()
	s := &adaptedWatch[*corev1.ConfigMap]{watch: from}
	first, err := s.Next(t.Context(), nil)
	require.NoError(t, err)
	assert.Len(t, first, maxTogether)
	rest, err := s.Next(t.Context(), nil)
	require.NoError(t, err)
	assert.Len(t, rest, events-maxTogether)
	_, err = s.Next(t.Context(), nil)
	assert.Equal(t, io.EOF, err)
	assert.NoError(t, s.Close())
}

func TestAdaptedWatchStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &adaptedWatch[*corev1.ConfigMap]{watch: watch.NewFake()}
		_, err := s.Next(t.Context(), time.After(time.Second))
		assert.Equal(t, stream.ErrAwake, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Next(ctx, nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NoError(t, s.Close())
	})
}

// apimachinery's ProxyWatcher does not close its channel.
func TestAdaptedWatchOfAWatchThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &adaptedWatch[*corev1.ConfigMap]{watch: watch.NewProxyWatcher(make(chan watch.Event))}
		assert.Error(t, s.Close())
		assert.Equal(t, stream.CloseTimeout, time.Since(began))
	})
}

func TestFilterReplacesObjectsOfOtherShards(t *testing.T) {
	from := watch.NewFakeWithChanSize(4, false)
	object := configMap("a", "u", "1")
	from.Add(object)
	from.Action(watch.Bookmark, object)
	from.Delete(object)
	for i, shard := range store.Shards(store.ByUID, 2) {
		shards := &stream.Shards{By: store.ByUID, All: []store.Shard{shard}}
		if shards.Has(object) {
			continue
		}
		items, err := (&adaptedWatch[*corev1.ConfigMap]{watch: from}).Next(t.Context(), nil)
		require.NoError(t, err)
		for i := range items {
			items[i].Filter(shards)
		}
		require.Len(t, items, 3, "shard %d", i)
		assert.Equal(t, []int{1, 0, 1}, []int{items[0].Count, items[1].Count, items[2].Count})
		assert.Equal(t, "1", items[0].Version, "the version still counts")
		assert.Nil(t, items[0].Write.Object)
	}
}

func TestWatchSendsTheEventsOfAStream(t *testing.T) {
	from := watch.NewFakeWithChanSize(3, false)
	from.Add(configMap("a", "u", "1"))
	from.Action(watch.Bookmark, configMap("", "u", "1"))
	from.Action("SYNC", configMap("b", "u", "1"))
	w := stream.NewChannel[*corev1.ConfigMap](t.Context(), &adaptedWatch[*corev1.ConfigMap]{watch: from})
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark, watch.Error} {
		assert.Equal(t, want, (<-w.ResultChan()).Type)
	}
	w.Stop()
	_, open := <-w.ResultChan()
	assert.False(t, open)
}

func TestItemsOfAChannelAreTakenOnce(t *testing.T) {
	w := stream.NewChannel[*corev1.ConfigMap](t.Context(), &adaptedWatch[*corev1.ConfigMap]{watch: watch.NewFake()})
	taken := w.Items()
	require.NotNil(t, taken)
	assert.Nil(t, w.Items())
	assert.NoError(t, taken.Close())
}

// watched is a client with a watch.
type watched struct {
	script
	w watch.Interface
}

func (c *watched) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return c.w, nil
}

func TestChannelInAWrapperIsAWatchLikeAnyOther(t *testing.T) {
	open := func(w watch.Interface) stream.Items[*corev1.ConfigMap] {
		items, err := newAdapter(Client[*corev1.ConfigMap, *corev1.ConfigMapList](&watched{w: w})).Watch(t.Context(), metav1.ListOptions{}, stream.Wants[*corev1.ConfigMap]{})
		require.NoError(t, err)
		return items
	}
	own := &adaptedWatch[*corev1.ConfigMap]{watch: watch.NewFake()}
	w := stream.NewChannel[*corev1.ConfigMap](t.Context(), own)
	assert.NotSame(t, own, open(struct {
		*stream.Channel[*corev1.ConfigMap]
	}{w}), "a wrapper may change events")
	assert.Same(t, own, open(w))
	assert.NoError(t, own.Close())
}

func TestTablesAreRefused(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1beta1", Kind: "Table"}
	loose := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "Table"}}
	for _, table := range []any{&metav1.Table{TypeMeta: kind}, &metav1.PartialObjectMetadata{TypeMeta: kind}, loose} {
		assert.True(t, isTable(table), "%T", table)
	}
	for _, other := range []any{&corev1.Pod{}, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "example.com/v1"}}, (*metav1.Table)(nil), nil, 1} {
		assert.False(t, isTable(other), "%T", other)
	}

	tables := &lists[*unstructured.Unstructured, *unstructured.UnstructuredList]{list: &unstructured.UnstructuredList{Object: loose.Object}}
	_, err := tables.items(t)
	assert.ErrorIs(t, err, ErrTable)
	assert.ErrorIs(t, itemOf[*unstructured.Unstructured](watch.Event{Type: watch.Added, Object: loose}).Err, ErrTable)
}

// lists is a client with a list.
type lists[T Object, L any] struct {
	Client[T, L]
	list L
}

func (c *lists[T, L]) List(context.Context, metav1.ListOptions) (L, error) { return c.list, nil }

// items returns the objects of the list.
func (c *lists[T, L]) items(t *testing.T) (all []T, err error) {
	a := newAdapter(Client[T, L](c))
	require.NoError(t, a.Check())
	_, err = a.List(t.Context(), metav1.ListOptions{}, stream.Wants[T]{Take: func(i *stream.Item[T]) { all = append(all, i.Write.Object) }})
	return all, err
}

func TestOneObjectDoesNotKeepItsPageInMemory(t *testing.T) {
	list := &corev1.ConfigMapList{Items: []corev1.ConfigMap{*configMap("kept", "u", "1"), *configMap("freed", "u", "1")}}
	freed := make(chan struct{})
	list.Items[1].BinaryData = map[string][]byte{"x": make([]byte, 1<<10)}
	runtime.AddCleanup(&list.Items[0], func(struct{}) { close(freed) }, struct{}{})
	from := &lists[*corev1.ConfigMap, *corev1.ConfigMapList]{list: list}
	items, err := from.items(t)
	require.NoError(t, err)
	kept := items[0]
	list, from, items = nil, nil, nil
	for collections := 0; ; collections++ {
		require.Less(t, collections, 100, "the page is still in memory")
		runtime.GC()
		select {
		case <-freed:
			assert.Equal(t, "kept", kept.Name)
			return
		default:
		}
	}
}

func TestListsThatHoldPointers(t *testing.T) {
	type pointers struct {
		metav1.TypeMeta
		metav1.ListMeta
		Items []*corev1.ConfigMap
	}
	item := configMap("a", "u", "1")
	from := &lists[*corev1.ConfigMap, *pointers]{list: &pointers{Items: []*corev1.ConfigMap{item}}}
	items, err := from.items(t)
	require.NoError(t, err)
	assert.Same(t, item, items[0])
	from.list.Items = []*corev1.ConfigMap{item, nil}
	_, err = from.items(t)
	assert.ErrorContains(t, err, "nil *v1.ConfigMap")
	type anything struct {
		metav1.TypeMeta
		metav1.ListMeta
		Items []Object
	}
	for _, none := range []Object{nil, (*corev1.ConfigMap)(nil)} {
		_, err = (&lists[Object, *anything]{list: &anything{Items: []Object{item, none}}}).items(t)
		assert.ErrorContains(t, err, "nil")
	}
	for _, bad := range []error{
		newAdapter[*corev1.ConfigMap, corev1.ConfigMapList](nil).err,
		newAdapter[*corev1.ConfigMap, *corev1.ConfigMap](nil).err,
		newAdapter[*corev1.ConfigMap, *corev1.Pod](nil).err,
		newAdapter[*corev1.ConfigMap, *struct{ Items []corev1.ConfigMap }](nil).err,
		newAdapter[*corev1.ConfigMap, *struct{ Items string }](nil).err,
	} {
		assert.Error(t, bad)
	}
}
