package reflector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestFailuresOfTheClientAreNoContact(t *testing.T) {
	for name, events := range map[string][]watch.Event{"the end": nil, "an event that the client made": {errorEvent(errUndecoded())}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := new(script).list("10", "")
				api.watches = append(api.watches, func() (watch.Interface, error) {
					w := api.stream(nil)
					time.AfterFunc(time.Minute, func() {
						for _, e := range events {
							w.result <- e
						}
						w.Stop()
					})
					return w, nil
				})
				for range 10 {
					api.watchFails(errors.New("no route"))
				}
				r := New(api, newStore())
				began := time.Now()
				stop := running(t, r)
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, Opening, r.State().Phase)
				assert.Equal(t, began, r.State().LastContact)
				require.NoError(t, stop())
			})
		})
	}
}

func TestLastFailureStaysAfterRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.listFails(errors.New("no route")).list("10", "")
		api.watchOpen()
		r := New(api, newStore())
		began := time.Now()
		stop := running(t, r)
		synctest.Wait()
		require.Equal(t, BackingOff, r.State().Phase)
		failed := r.State()
		assert.ErrorContains(t, failed.LastErr, "no route")
		assert.Equal(t, failed.Err, failed.LastErr)
		assert.Equal(t, began, failed.LastErrTime)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, Watching, r.State().Phase)
		assert.NoError(t, r.State().Err)
		assert.Equal(t, failed.LastErr, r.State().LastErr)
		assert.Equal(t, began, r.State().LastErrTime)
		require.NoError(t, stop())
	})
}

func TestStoreThatFailedIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.streams = true
		closing := bookmark("10")
		closing.Object.(*corev1.ConfigMap).Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
		api.watchOpen(closing)
		var r *KubernetesResourceReflector[*corev1.ConfigMap]
		var phases []Phase
		r = New(api, &failingReplace{Store: newStore()}, WithErrorHandler(func(context.Context, error) { phases = append(phases, r.State().Phase) }))
		stop := running(t, r)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []Phase{Listing}, phases, "it never watched")
	})
}

// failingReplace is a store that takes no list.
type failingReplace struct {
	store.Store[*corev1.ConfigMap]
}

func (s *failingReplace) Replace([]*corev1.ConfigMap, string) error { return errors.New("disk full") }

// refuser is a client whose server refuses selectors of shards. If passes is true, something of
// the list comes before that.
type refuser struct {
	breaking
	passes    bool
	selectors []string // that were asked for
}

func (c *refuser) List(_ context.Context, opts metav1.ListOptions, w source.Wants[*corev1.ConfigMap]) (source.Page[*corev1.ConfigMap], error) {
	c.selectors = append(c.selectors, opts.ShardSelector)
	if opts.ShardSelector == "" {
		w.Take(configMap("a", "u", "1"))
		return source.Page[*corev1.ConfigMap]{Taken: 1, ResourceVersion: "4"}, nil
	}
	if c.passes {
		w.Take(configMap("b", "v", "2"))
	}
	return source.Page[*corev1.ConfigMap]{}, apierrors.NewBadRequest("unknown parameter")
}

func TestRefusedListIsAskedForAgainUnlessSomethingOfItCame(t *testing.T) {
	for _, passes := range []bool{false, true} {
		s, client := newStore(), &refuser{passes: passes}
		r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, s, WithShard(store.Shards(store.ByUID, 2)[0]))}
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
		require.NoError(t, r.staging.commit("4"))
		assert.Equal(t, "a@1", contents(s))
	}
}

func TestLastEventOfAWatchListCounts(t *testing.T) {
	object := func(kind watch.EventType, name, version string) source.Event[*corev1.ConfigMap] {
		return source.Event[*corev1.ConfigMap]{Type: kind, Object: configMap(name, "u "+name, version), ResourceVersion: version}
	}
	bad := func(kind watch.EventType, name, version string) source.Event[*corev1.ConfigMap] {
		return undecodable(kind, name, "u "+name, version)
	}
	held := source.Event[*corev1.ConfigMap]{Type: watch.Added, Held: []store.Key{{Namespace: "ns", Name: "a"}}}
	for name, tc := range map[string]struct {
		events []source.Event[*corev1.ConfigMap]
		want   string
		size   int
		lacks  int
	}{
		"held":                              {[]source.Event[*corev1.ConfigMap]{held}, "a@1", 1, 0},
		"held, then changed":                {[]source.Event[*corev1.ConfigMap]{held, object(watch.Modified, "a", "2")}, "a@2", 1, 0},
		"held, then deleted":                {[]source.Event[*corev1.ConfigMap]{held, object(watch.Deleted, "a", "2")}, "", 0, 0},
		"held, then deleted, undecodable":   {[]source.Event[*corev1.ConfigMap]{held, bad(watch.Deleted, "a", "2")}, "", 0, 0},
		"held, then undecodable":            {[]source.Event[*corev1.ConfigMap]{held, bad(watch.Modified, "a", "2")}, "a@1", 2, 1},
		"new, then deleted":                 {[]source.Event[*corev1.ConfigMap]{object(watch.Added, "b", "2"), object(watch.Deleted, "b", "3")}, "", 0, 0},
		"deleted, then new":                 {[]source.Event[*corev1.ConfigMap]{held, object(watch.Deleted, "a", "2"), object(watch.Added, "a", "3")}, "a@3", 1, 0},
		"undecodable, then changed":         {[]source.Event[*corev1.ConfigMap]{bad(watch.Added, "a", "2"), object(watch.Modified, "a", "3")}, "a@3", 1, 0},
		"undecodable, then deleted":         {[]source.Event[*corev1.ConfigMap]{bad(watch.Added, "a", "2"), bad(watch.Deleted, "a", "3")}, "", 0, 0},
		"deleted, and never seen":           {[]source.Event[*corev1.ConfigMap]{object(watch.Deleted, "b", "2")}, "", 0, 0},
		"of another shard":                  {[]source.Event[*corev1.ConfigMap]{held, {Type: watch.Added, OutOfShard: 1, ResourceVersion: "2"}}, "a@1", 1, 0},
		"held, then gone to another shard":  {[]source.Event[*corev1.ConfigMap]{held, {Type: watch.Modified, OutOfShard: 1, ResourceVersion: "2", Left: &source.Departure{Key: store.Key{Namespace: "ns", Name: "a"}}}}, "", 0, 0},
		"undecodable ones without any name": {[]source.Event[*corev1.ConfigMap]{bad(watch.Added, "", "2"), bad(watch.Deleted, "", "3")}, "", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u a", "1")}, "1"))
			staged := staging[*corev1.ConfigMap]{to: s}
			for i := range tc.events {
				staged.take(&tc.events[i])
			}
			assert.Equal(t, tc.size, staged.size)
			err := staged.commit("9")
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
		staged.take(&source.Event[*corev1.ConfigMap]{Type: watch.Added, Rejection: &store.Rejection{Err: errUndecodable}})
	}
	assert.Equal(t, stream.MaxDetailed, staged.size)
	var rejected *store.RejectedError
	require.ErrorAs(t, staged.commit("9"), &rejected)
	assert.Len(t, rejected.Rejections, stream.MaxDetailed)
}
