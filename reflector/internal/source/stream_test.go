package source

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
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func TestClientStreamReturnsTheEventsThatAreReady(t *testing.T) {
	const events = maxTogether + 3
	from := watch.NewFakeWithChanSize(events, false)
	for range events {
		from.Add(configMap("a"))
	}
	from.Stop()
	s := &ClientStream[*corev1.ConfigMap]{Watch: from}
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

func TestClientStreamStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ClientStream[*corev1.ConfigMap]{Watch: watch.NewFake()}
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
func TestClientStreamOfAWatchThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &ClientStream[*corev1.ConfigMap]{Watch: watch.NewProxyWatcher(make(chan watch.Event))}
		assert.Error(t, s.Close())
		assert.Equal(t, stream.CloseTimeout, time.Since(began))
	})
}

func TestFilterReplacesObjectsOfOtherShards(t *testing.T) {
	from := watch.NewFakeWithChanSize(4, false)
	object := configMap("a")
	from.Add(object)
	from.Action(watch.Bookmark, object)
	from.Delete(object)
	for i, shard := range store.Shards(store.ByUID, 2) {
		shards := &Shards{By: store.ByUID, All: []store.Shard{shard}}
		if shards.Has(object) {
			continue
		}
		events, err := (&ClientStream[*corev1.ConfigMap]{Watch: from}).Next(t.Context(), nil)
		require.NoError(t, err)
		for i := range events {
			events[i].Filter(shards)
		}
		require.Len(t, events, 3, "shard %d", i)
		assert.Equal(t, []int{1, 0, 1}, []int{events[0].OutOfShard, events[1].OutOfShard, events[2].OutOfShard})
		assert.Equal(t, "1", events[0].ResourceVersion, "the version still counts")
		assert.Nil(t, events[0].Object)
	}
}

func TestWatchSendsTheEventsOfAStream(t *testing.T) {
	from := watch.NewFakeWithChanSize(3, false)
	from.Add(configMap("a"))
	from.Action(watch.Bookmark, configMap(""))
	from.Action("SYNC", configMap("b"))
	w := NewWatch[*corev1.ConfigMap](t.Context(), &ClientStream[*corev1.ConfigMap]{Watch: from})
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark, watch.Error} {
		assert.Equal(t, want, (<-w.ResultChan()).Type)
	}
	w.Stop()
	_, open := <-w.ResultChan()
	assert.False(t, open)
}

func TestStreamOfAWatchIsTakenOnce(t *testing.T) {
	from := watch.NewFake()
	w := NewWatch[*corev1.ConfigMap](t.Context(), &ClientStream[*corev1.ConfigMap]{Watch: from})
	assert.Nil(t, w.Stream(struct{ watch.Interface }{w}), "a wrapper may change events")
	taken := w.Stream(w)
	require.NotNil(t, taken)
	assert.Nil(t, w.Stream(w))
	assert.NoError(t, taken.Close())
}

func TestRevisionOf(t *testing.T) {
	for version, want := range map[string]Revision{"1": 1, "1234567890123456789": 1234567890123456789, "": 0, "0": 0, "01": 0, "a": 0, "1.5": 0, "12345678901234567890": 0} {
		got, ok := RevisionOf(version)
		assert.Equal(t, want, got, version)
		assert.Equal(t, want != 0, ok, version)
	}
}

func TestTablesAreRefused(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1beta1", Kind: "Table"}
	loose := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "Table"}}
	for _, table := range []any{&metav1.Table{TypeMeta: kind}, &metav1.PartialObjectMetadata{TypeMeta: kind}, loose} {
		assert.True(t, IsTable(table), "%T", table)
	}
	for _, other := range []any{&corev1.Pod{}, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "example.com/v1"}}, (*metav1.Table)(nil), nil, 1} {
		assert.False(t, IsTable(other), "%T", other)
	}

	_, err := NewListType[*unstructured.Unstructured, *unstructured.UnstructuredList]().Page(&unstructured.UnstructuredList{Object: loose.Object})
	assert.ErrorIs(t, err, stream.ErrTable)

	assert.ErrorIs(t, ReadEvent[*unstructured.Unstructured](watch.Event{Type: watch.Added, Object: loose}).Err, stream.ErrTable)
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "1"}}
}

func TestOneObjectDoesNotKeepItsPageInMemory(t *testing.T) {
	list := &corev1.ConfigMapList{Items: []corev1.ConfigMap{*configMap("kept"), *configMap("freed")}}
	freed := make(chan struct{})
	list.Items[1].BinaryData = map[string][]byte{"x": make([]byte, 1<<10)}
	runtime.AddCleanup(&list.Items[0], func(struct{}) { close(freed) }, struct{}{})
	p, err := NewListType[*corev1.ConfigMap, *corev1.ConfigMapList]().Page(list)
	require.NoError(t, err)
	kept := p.Items[0]
	list, p.Items = nil, nil
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
	item := configMap("a")
	p, err := NewListType[*corev1.ConfigMap, *pointers]().Page(&pointers{Items: []*corev1.ConfigMap{item}})
	require.NoError(t, err)
	assert.Same(t, item, p.Items[0])
	for _, bad := range []error{
		NewListType[*corev1.ConfigMap, corev1.ConfigMapList]().Err,
		NewListType[*corev1.ConfigMap, *corev1.ConfigMap]().Err,
		NewListType[*corev1.ConfigMap, *corev1.Pod]().Err,
		NewListType[*corev1.ConfigMap, *struct{ Items []corev1.ConfigMap }]().Err,
		NewListType[*corev1.ConfigMap, *struct{ Items string }]().Err,
	} {
		assert.Error(t, bad)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
