package informer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestGone(t *testing.T) {
	server := reflectortest.Start(t)
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}}
	require.NoError(t, server.Create(there))
	require.NoError(t, server.Get(there))
	pods := clientOf(t, server).CoreV1().Pods("")
	selected := New(pods, WithReflector(reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "x"}))))
	sharded := New(pods, WithReflector(reflector.WithShard(store.Shards(store.ByUID, 2)[0])))
	elsewhere := New(clientOf(t, server).CoreV1().Pods("other"))
	own := New(pods, WithGet(func(ctx context.Context, key store.Key) (metav1.Object, error) {
		return clientOf(t, server).CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	}))
	for name, tc := range map[string]struct {
		of      *Informer[*corev1.Pod]
		key     string
		deleted []types.UID
		want    bool
	}{
		"selected, and there":                      {selected, "there", nil, false},
		"selected, and not there":                  {selected, "not", nil, true},
		"the deleted object is there":              {selected, "there", []types.UID{there.UID}, false},
		"another object is there":                  {selected, "there", []types.UID{"other"}, true},
		"another object, and the deleted one":      {selected, "there", []types.UID{there.UID, "other"}, true},
		"an unknown object is there":               {selected, "there", []types.UID{""}, false},
		"of another process":                       {sharded, "not", nil, false},
		"a shard's object that is gone":            {sharded, "not", []types.UID{"other"}, true},
		"a shard's object that is there":           {sharded, "there", []types.UID{there.UID}, false},
		"of another namespace":                     {elsewhere, "there", nil, false},
		"there by the function of the program":     {own, "there", nil, false},
		"not there by the function of the program": {own, "not", nil, true},
	} {
		gone, err := tc.of.Gone(t.Context(), store.Key{Namespace: "ns", Name: tc.key}, tc.deleted...)
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, gone, name)
	}

	nothing := New(pods, WithGet(func(context.Context, store.Key) (metav1.Object, error) { return (*corev1.Pod)(nil), nil }))
	_, err := nothing.Gone(t.Context(), store.Key{Namespace: "ns", Name: "there"})
	assert.ErrorContains(t, err, "return a NotFound error if there is none")

	all := New(pods, WithGet(func(ctx context.Context, key store.Key) (metav1.Object, error) {
		return pods.Get(ctx, key.Name, metav1.GetOptions{})
	}))
	_, err = all.Gone(t.Context(), store.Key{Namespace: "ns", Name: "there"})
	assert.ErrorContains(t, err, "could not find the requested resource", "a client of all namespaces finds no object")
}

// A cache that is empty, or was restored, lacks objects that exist.
func TestCacheProvesNothingBeforeItIsSynced(t *testing.T) {
	server := reflectortest.Start(t)
	pods := New(clientOf(t, server).CoreV1().Pods(""))
	there, created, not := store.Key{Namespace: "ns", Name: "there"}, store.Key{Namespace: "ns", Name: "created"}, store.Key{Namespace: "ns", Name: "not"}
	for _, key := range []store.Key{there, created} {
		require.NoError(t, server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	}
	isGone := func(key store.Key, deleted ...types.UID) bool {
		gone, err := pods.Gone(t.Context(), key, deleted...)
		require.NoError(t, err)
		return gone
	}
	asked := func() int { return len(server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("pods"))) }

	assert.False(t, pods.Covers(there), "empty")
	assert.False(t, isGone(there), "empty")
	assert.True(t, isGone(not), "empty")
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}}
	require.NoError(t, server.Get(object))
	require.NoError(t, pods.Restore([]*corev1.Pod{object}, object.ResourceVersion))
	assert.False(t, pods.Covers(created), "restored")
	assert.False(t, isGone(created), "restored")
	assert.Equal(t, 3, asked())

	stop := start(t, pods)
	require.NoError(t, pods.WaitForSync(t.Context()))
	assert.True(t, pods.Covers(there))
	assert.False(t, isGone(there), "the cache has it")
	assert.False(t, isGone(there, object.UID), "the cache has it")
	assert.True(t, isGone(there, "other"))
	assert.True(t, isGone(not))
	assert.Equal(t, 3, asked(), "the cache is proof")
	require.NoError(t, stop())
}

// The server has the object, but the cache does not.
func TestCacheIsNoProofOfWhatItRejected(t *testing.T) {
	server := reflectortest.Start(t)
	bad, good := store.Key{Namespace: "ns", Name: "bad"}, store.Key{Namespace: "ns", Name: "good"}
	for _, key := range []store.Key{bad, good} {
		require.NoError(t, server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	}
	pods := New(clientOf(t, server).CoreV1().Pods(""))
	_, err := store.AddIndex(pods.cache, "panics", func(p *corev1.Pod) []string {
		if p.Name == "bad" {
			panic("bad")
		}
		return nil
	})
	require.NoError(t, err)
	stop := start(t, pods)
	require.NoError(t, pods.WaitForSync(t.Context()))
	require.Equal(t, []store.Key{bad}, pods.cache.Rejected())
	assert.False(t, pods.Covers(bad))
	assert.True(t, pods.Covers(good))
	isGone := func(key store.Key) bool {
		gone, err := pods.Gone(t.Context(), key)
		require.NoError(t, err)
		return gone
	}
	assert.False(t, isGone(bad))
	assert.False(t, isGone(good))
	assert.Len(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("pods")), 1)

	require.NoError(t, server.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bad"}}))
	require.Eventually(t, func() bool { return pods.Covers(bad) }, 10*time.Second, time.Millisecond)
	assert.True(t, isGone(bad))

	require.Error(t, pods.cache.Add(&corev1.Pod{}))
	assert.False(t, pods.Covers(good), "it may be any object")
	require.NoError(t, stop())
}

// A caller must not take a cache without its first list for one that is current.
func TestCatchUpWaitsForTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := New(clientOf(t, reflectortest.Start(t)).CoreV1().Pods(""))
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorIs(t, pods.CatchUp(limited, time.Now()), context.DeadlineExceeded)
		stop := start(t, pods)
		assert.NoError(t, pods.CatchUp(t.Context(), time.Now()))
		assert.Equal(t, reflector.Watching, pods.State().Phase)
		require.NoError(t, stop())
	})
}

// An informer that another feed fills cannot ask the server.
func TestGoneDoesNotKnowBeforeTheSyncIfNoServerCanBeAsked(t *testing.T) {
	i := newPods()
	i.feed = feed.New(silentFeed{i.feed})
	_, err := i.Gone(t.Context(), store.Key{Name: "a"})
	assert.ErrorIs(t, err, errUnsynced)
}

// silentFeed hides the other methods of a feed.
type silentFeed struct{ feed.Feed }

// dropped is a synced feed whose scope is dropped as soon as it has said what it covers.
type dropped struct {
	feed.Feed
	synced chan struct{}
	drop   func()
}

func (f *dropped) Synced() <-chan struct{} { return f.synced }

func (f *dropped) Covers(key store.Key) bool {
	if key != (store.Key{}) { // else the scope is being added
		f.drop()
	}
	return true
}

// A scope is dropped with its objects, which still exist.
func TestObjectWhoseScopeIsDroppedMeanwhileIsNotGone(t *testing.T) {
	var all *feed.Reflectors[*corev1.Pod]
	i := NewFed(nil, store.ObjectKey[*corev1.Pod], func(target feed.Target[*corev1.Pod]) feed.Group {
		all = feed.NewReflectors(target)
		return all
	})
	key, scope := store.Key{Namespace: "ns", Name: "there"}, store.Scope{Namespace: "ns"}
	f := &dropped{synced: make(chan struct{}), drop: func() { require.NoError(t, all.Drop(scope)) }}
	close(f.synced)
	require.NoError(t, all.Add(scope, func(into store.Store[*corev1.Pod]) feed.Feed {
		require.NoError(t, into.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "1"}}))
		return f
	}))
	gone, err := i.Gone(t.Context(), key)
	require.NoError(t, err)
	assert.False(t, gone)
}
