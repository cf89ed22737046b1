package reflector

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
)

// breaking is a client whose lists break off after some items.
type breaking struct{}

func (breaking) List(_ context.Context, _ metav1.ListOptions, w stream.Wants[*corev1.ConfigMap]) (stream.Page, error) {
	for n := range 3 {
		give(w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n), ResourceVersion: "5"}})
	}
	return stream.Page{}, errors.New("broken off")
}

// give passes on an item of a list.
func give(w stream.Wants[*corev1.ConfigMap], object *corev1.ConfigMap) {
	item := itemOf[*corev1.ConfigMap](added(object))
	w.Take(&item)
}

func (breaking) Watch(context.Context, metav1.ListOptions, stream.Wants[*corev1.ConfigMap]) (stream.Items[*corev1.ConfigMap], error) {
	return &adaptedWatch[*corev1.ConfigMap]{watch: watch.NewFake()}, nil
}

func (breaking) Check() error { return nil }

func (breaking) About() stream.About { return stream.About{} }

// The next attempt may be minutes away.
func TestNothingIsKeptOfAListThatBrokeOff(t *testing.T) {
	c := store.New(store.ObjectKey[*corev1.ConfigMap])
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, c)}
	r.source, r.staging.to = breaking{}, c
	assert.Equal(t, protocol.Failed, r.askPage(t.Context(), protocol.Action{Do: protocol.AskPage}).Kind)
	assert.Equal(t, staging[*corev1.ConfigMap]{to: c}, r.staging)
}

// A server that is busy may break off a watch-list, and ask for ten minutes of patience.
func TestNothingIsKeptOfAWatchListWhileItsFailureIsWaitedFor(t *testing.T) {
	c := store.New(store.ObjectKey[*corev1.ConfigMap])
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, c)}
	r.staging.to = c
	item := itemOf[*corev1.ConfigMap](added(configMap("a", "u", "5")))
	r.staging.take(&item)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	streaming := protocol.New(protocol.Options{WatchLists: true})
	streaming, _ = streaming.Step(protocol.Input{Kind: protocol.Started})
	streaming, _ = streaming.Step(protocol.Input{Kind: protocol.Accepted})
	_, todo := streaming.Step(protocol.Input{Kind: protocol.Failed, Err: apierrors.NewTooManyRequests("busy", 600)})
	for _, a := range todo {
		_, err := r.do(ctx, a)
		require.NoError(t, err)
	}
	assert.Equal(t, staging[*corev1.ConfigMap]{to: c}, r.staging)
}

// refuser is a client whose server refuses selectors of shards. If passes is true, something of
// the list comes before that.
type refuser struct {
	breaking
	passes    bool
	selectors []string // that were asked for
}

func (c *refuser) List(_ context.Context, opts metav1.ListOptions, w stream.Wants[*corev1.ConfigMap]) (stream.Page, error) {
	c.selectors = append(c.selectors, opts.ShardSelector)
	if opts.ShardSelector == "" {
		give(w, configMap("a", "u", "1"))
		return stream.Page{Version: "4"}, nil
	}
	if c.passes {
		give(w, configMap("b", "v", "2"))
	}
	return stream.Page{}, apierrors.NewBadRequest("unknown parameter")
}

func TestRefusedListIsAskedForAgainUnlessSomethingOfItCame(t *testing.T) {
	for _, passes := range []bool{false, true} {
		s, client := newStore(), &refuser{passes: passes}
		r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, s, WithShard(store.Shards(store.ByUID, 2)[1]))}
		r.source, r.staging.to = client, s
		in := r.askPage(t.Context(), protocol.Action{Do: protocol.AskPage})
		if passes {
			require.Equal(t, protocol.Failed, in.Kind)
			assert.Equal(t, staging[*corev1.ConfigMap]{to: s}, r.staging)
			assert.Len(t, client.selectors, 1)
			continue
		}
		require.Equal(t, protocol.Answered, in.Kind)
		require.Len(t, client.selectors, 2)
		assert.NotEmpty(t, client.selectors[0])
		assert.Empty(t, client.selectors[1])
		assert.Equal(t, 1, r.staging.size)
		require.NoError(t, r.staging.begin().Commit("4"))
		assert.Equal(t, "a@1", contents(s))
	}
}

// outside is the item of an object outside of the shards.
func outside(version string) stream.Item[*corev1.ConfigMap] {
	return stream.Item[*corev1.ConfigMap]{Kind: stream.Outside, Count: 1, Version: version, Write: store.Write[*corev1.ConfigMap]{Type: store.Addition}}
}

func TestLastEventOfAWatchListCounts(t *testing.T) {
	object := func(kind watch.EventType, name, version string) stream.Item[*corev1.ConfigMap] {
		return itemOf[*corev1.ConfigMap](watch.Event{Type: kind, Object: configMap(name, "u "+name, version)})
	}
	bad := func(kind watch.EventType, name, version string) stream.Item[*corev1.ConfigMap] {
		return undecodable(kind, name, "u "+name, version)
	}
	held := stream.Item[*corev1.ConfigMap]{Kind: stream.Unchanged, Keys: []store.Key{{Namespace: "ns", Name: "a"}}}
	for name, tc := range map[string]struct {
		events []stream.Item[*corev1.ConfigMap]
		want   string
		size   int
		lacks  int
	}{
		"held":                              {[]stream.Item[*corev1.ConfigMap]{held}, "a@1", 1, 0},
		"held, then changed":                {[]stream.Item[*corev1.ConfigMap]{held, object(watch.Modified, "a", "2")}, "a@2", 1, 0},
		"held, then deleted":                {[]stream.Item[*corev1.ConfigMap]{held, object(watch.Deleted, "a", "2")}, "", 0, 0},
		"held, then deleted, undecodable":   {[]stream.Item[*corev1.ConfigMap]{held, bad(watch.Deleted, "a", "2")}, "", 0, 0},
		"held, then undecodable":            {[]stream.Item[*corev1.ConfigMap]{held, bad(watch.Modified, "a", "2")}, "a@1", 2, 1},
		"new, then deleted":                 {[]stream.Item[*corev1.ConfigMap]{object(watch.Added, "b", "2"), object(watch.Deleted, "b", "3")}, "", 0, 0},
		"deleted, then new":                 {[]stream.Item[*corev1.ConfigMap]{held, object(watch.Deleted, "a", "2"), object(watch.Added, "a", "3")}, "a@3", 1, 0},
		"undecodable, then changed":         {[]stream.Item[*corev1.ConfigMap]{bad(watch.Added, "a", "2"), object(watch.Modified, "a", "3")}, "a@3", 1, 0},
		"undecodable, then deleted":         {[]stream.Item[*corev1.ConfigMap]{bad(watch.Added, "a", "2"), bad(watch.Deleted, "a", "3")}, "", 0, 0},
		"deleted, and never seen":           {[]stream.Item[*corev1.ConfigMap]{object(watch.Deleted, "b", "2")}, "", 0, 0},
		"of another shard":                  {[]stream.Item[*corev1.ConfigMap]{held, outside("2")}, "a@1", 1, 0},
		"undecodable ones without any name": {[]stream.Item[*corev1.ConfigMap]{bad(watch.Added, "", "2"), bad(watch.Deleted, "", "3")}, "", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u a", "1")}, "1"))
			staged := staging[*corev1.ConfigMap]{to: s}
			for i := range tc.events {
				staged.take(&tc.events[i])
			}
			assert.Equal(t, tc.size, staged.size)
			err := staged.begin().Commit("9")
			if tc.lacks > 0 {
				var rejected *store.RejectedError
				require.ErrorAs(t, err, &rejected)
				assert.Len(t, rejected.Rejections, tc.lacks)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, tc.want, contents(s))
		})
	}
}

// Nameless objects have no limit on a hostile server.
func TestFewUndecodableObjectsWithoutNameAndUIDAreTaken(t *testing.T) {
	s := newStore()
	staged := staging[*corev1.ConfigMap]{to: s}
	for range 3 * stream.MaxDetailed {
		item := undecodable(watch.Added, "", "", "")
		staged.take(&item)
	}
	assert.Equal(t, stream.MaxDetailed, staged.size)
	var rejected *store.RejectedError
	require.ErrorAs(t, staged.begin().Commit("9"), &rejected)
	assert.Len(t, rejected.Rejections, stream.MaxDetailed)
}

func TestEventsThatCameTogetherAreOneCommit(t *testing.T) {
	change := func(kind watch.EventType, name, version string) stream.Item[*corev1.ConfigMap] {
		return itemOf[*corev1.ConfigMap](watch.Event{Type: kind, Object: configMap(name, "u "+name, version)})
	}
	other := outside("20")
	marked := stream.Item[*corev1.ConfigMap]{Kind: stream.Mark, Version: "21"}
	for name, tc := range map[string]struct {
		events        []stream.Item[*corev1.ConfigMap]
		want, version string
		commits       int
		rejects       bool
	}{
		"changes":                    {[]stream.Item[*corev1.ConfigMap]{change(watch.Modified, "a", "11"), change(watch.Added, "b", "12")}, "a@11 b@12", "12", 1, false},
		"a deletion":                 {[]stream.Item[*corev1.ConfigMap]{change(watch.Deleted, "a", "11")}, "", "11", 1, false},
		"one of another shard last":  {[]stream.Item[*corev1.ConfigMap]{change(watch.Added, "b", "12"), other}, "a@1 b@12", "20", 1, false},
		"one of another shard first": {[]stream.Item[*corev1.ConfigMap]{other, change(watch.Added, "b", "22")}, "a@1 b@22", "22", 1, false},
		"of other shards":            {[]stream.Item[*corev1.ConfigMap]{outside("14"), other}, "a@1", "20", 1, false},
		"a bookmark":                 {[]stream.Item[*corev1.ConfigMap]{marked}, "a@1", "21", 1, false},
		"without a version":          {[]stream.Item[*corev1.ConfigMap]{{Kind: stream.Mark}}, "a@1", "10", 0, false},
		"undecodable":                {[]stream.Item[*corev1.ConfigMap]{change(watch.Added, "b", "12"), undecodable(watch.Modified, "a", "u a", "13"), other}, "a@1 b@12", "12", 1, true},
		"undecodable, alone":         {[]stream.Item[*corev1.ConfigMap]{undecodable(watch.Modified, "a", "u a", "13")}, "a@1", "10", 0, true},
		"an undecodable deletion":    {[]stream.Item[*corev1.ConfigMap]{undecodable(watch.Deleted, "a", "u a", "11")}, "", "11", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u a", "1")}, "10"))
			c := &commits{}
			defer s.Follow(c)()
			r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, s), items: tc.events}
			r.batch, r.batching = decorate.BeginWatch(r.store)
			require.True(t, r.batching)
			err := r.apply().Err
			assert.Equal(t, tc.rejects, err != nil, "%v", err)
			assert.NoError(t, r.batch.Commit(""), "the batch is empty again")
			assert.Equal(t, tc.want, contents(s))
			assert.Equal(t, tc.version, s.ResourceVersion())
			assert.Equal(t, tc.commits, c.count)
		})
	}
}

// written notes which methods of a plain store are called.
type written struct {
	plain
	words []string
}

func (w *written) Add(object *corev1.ConfigMap) error {
	w.words = append(w.words, "add "+object.Name)
	return w.plain.Add(object)
}

func (w *written) Update(object *corev1.ConfigMap) error {
	w.words = append(w.words, "update "+object.Name)
	return w.plain.Update(object)
}

func (w *written) Delete(object *corev1.ConfigMap) error {
	w.words = append(w.words, "delete "+object.Name)
	return w.plain.Delete(object)
}

func (w *written) DeleteKey(key store.Key) error {
	w.words = append(w.words, "delete key "+key.Name)
	return w.plain.DeleteKey(key)
}

func (w *written) Bookmark(version string) error {
	w.words = append(w.words, "bookmark "+version)
	return w.plain.Bookmark(version)
}

func TestPlainStoreGetsEventsOneByOne(t *testing.T) {
	s := &written{plain: plain{newStore()}}
	require.NoError(t, s.Replace(nil, "10"))
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, s)}
	r.batch, r.batching = decorate.BeginWatch(r.store)
	require.False(t, r.batching)
	r.pending = []stream.Item[*corev1.ConfigMap]{
		itemOf[*corev1.ConfigMap](added(configMap("a", "u", "11"))),
		itemOf[*corev1.ConfigMap](modified(configMap("a", "u", "12"))),
		itemOf[*corev1.ConfigMap](deleted(configMap("a", "u", "13"))),
		outside("15"),
		undecodable(watch.Deleted, "c", "v", "16"),
		{Kind: stream.Mark, Version: "17"},
	}
	for len(r.pending) > 0 {
		r.takePending()
		require.Len(t, r.items, 1)
		require.NoError(t, r.apply().Err)
	}
	assert.Equal(t, []string{
		"add a", "update a", "delete a", "bookmark 15", "delete key c", "bookmark 16", "bookmark 17",
	}, s.words)
}

func TestWatchListsAreAskedForWhereTheyMayBe(t *testing.T) {
	for _, clientCan := range []bool{true, false} {
		for _, allowed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				api := &script{streams: clientCan}
				var opts []Option
				if !allowed {
					opts = append(opts, WithoutWatchList())
				}
				stop := running(t, New(api, newStore(), opts...))
				synctest.Wait()
				require.NoError(t, stop())
				want := "list 0 limit=500"
				if clientCan && allowed {
					want = "stream newest"
				}
				assert.Equal(t, want, api.seen()[0])
			})
		}
	}
}

func TestFeatureGateOfClientGoTurnsWatchListsOff(t *testing.T) {
	featuretesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	synctest.Test(t, func(t *testing.T) {
		api := &script{streams: true}
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, "list 0 limit=500", api.seen()[0])
	})
}

func closing(version string, annotations map[string]string) watch.Event {
	c := configMap("", "", version)
	c.Annotations = annotations
	return watch.Event{Type: watch.Bookmark, Object: c}
}

var allSent = map[string]string{metav1.InitialEventsAnnotationKey: "true"}

func TestStagingAppliesEventsOfAWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := (&script{streams: true}).watchOpen(
			added(configMap("a", "u1", "1")), added(configMap("b", "u2", "2")), added(configMap("c", "u3", "3")), added(configMap("d", "u4", "4")),
			modified(configMap("b", "u2", "5")), deleted(configMap("a", "u1", "6")), modified(configMap("d", "u4", "7")),
			deleted(configMap("x", "u9", "8")), deleted(configMap("c", "u3", "9")), added(configMap("c", "u5", "10")),
			added(configMap("", "u6", "11")), added(configMap("", "u7", "12")),
			closing("20", allSent), added(configMap("e", "u8", "21")))
		s := newStore()
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, "b@5 c@10 d@7 e@21", contents(s))
		assert.ErrorContains(t, r.State().Err, "store rejected 2 object(s)", "also of the first objects each bad one is told")
		assert.Equal(t, Watching, r.State().Phase)
		assert.Equal(t, []string{"stream newest"}, api.seen(), "the same watch goes on")
		require.NoError(t, stop())
	})
}

func TestOnlyTheRightBookmarkEndsAWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := (&script{streams: true}).watchOpen(added(configMap("a", "u1", "1")),
			closing("5", nil), closing("6", map[string]string{metav1.InitialEventsAnnotationKey: "false"}))
		s := newStore()
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.False(t, closed(r.Synced()))
		assert.Zero(t, s.Len())
		assert.Equal(t, Listing, r.State().Phase)
		require.NoError(t, stop())
	})
}
