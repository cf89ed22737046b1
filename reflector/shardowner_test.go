package reflector_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// departures notes the deletions that a cache tells of.
type departures struct{ words []string }

func (d *departures) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (d *departures) Commit(c *store.Commit[*corev1.ConfigMap]) {
	for _, change := range c.Changes {
		if change.Type == store.Deletion {
			d.words = append(d.words, fmt.Sprintf("%s left=%t", change.Key.Name, change.OutOfScope))
		}
	}
}

// owners returns the UIDs of an owner in the first half of the shards, and of one in the other.
func owners() (here, there types.UID) {
	for i := 0; here == "" || there == ""; i++ {
		uid := types.UID(fmt.Sprint("owner-", i*7919))
		if half(store.ByUID, 0).Contains(store.ShardHash(string(uid))) {
			here = uid
		} else {
			there = uid
		}
	}
	return here, there
}

func owned(name string, by types.UID) *corev1.ConfigMap {
	object := paint(name, "red")
	if yes := true; by != "" {
		object.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Secret", Name: "other", UID: "other"},
			{APIVersion: "v1", Kind: "Secret", Name: "owner", UID: by, Controller: &yes},
		}
	}
	return object
}

type makeReflector func(*store.Cache[*corev1.ConfigMap], *record.Recorder, ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap]

func TestShardByOwner(t *testing.T) {
	here, there := owners()
	for name, made := range map[string]func(*reflectortest.Server) makeReflector{
		"typed": func(server *reflectortest.Server) makeReflector {
			return func(s *store.Cache[*corev1.ConfigMap], to *record.Recorder, opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
				return reflector.New(record.Client(kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps(""), to), s, opts...)
			}
		},
		"protobuf": func(server *reflectortest.Server) makeReflector { return resourceOf(t, server) },
		"JSON": func(server *reflectortest.Server) makeReflector {
			return resourceOf(t, server, client.WithoutProtobuf())
		},
	} {
		for _, watchList := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, watch-list %t", name, watchList), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					server.SetSharding(true)
					for name, owner := range map[string]types.UID{"mine": here, "theirs": there, "nobodys": "", "lost": here, "deleted": here, "adopted": ""} {
						require.NoError(t, server.Create(owned(name, owner)))
					}
					s := store.New(store.ObjectKey[*corev1.ConfigMap])
					var told departures
					s.Follow(&told)
					opts := []reflector.Option{reflector.WithShard(half(store.ByOwner, 0))}
					if !watchList {
						opts = append(opts, reflector.WithoutWatchList())
					}
					r := made(server)(s, nil, opts...)
					defer start(t, r)()
					assert.Equal(t, 3, s.Len())
					assert.Equal(t, reflector.ShardedByClient, r.State().Sharding)
					for _, request := range server.Requests() {
						assert.Empty(t, request.Query.Get("shardSelector"), "no server can select by it")
					}
					require.NoError(t, server.Update(owned("lost", there)))
					require.NoError(t, server.Update(owned("adopted", here)))
					require.NoError(t, server.Delete(owned("deleted", "")))
					require.NoError(t, server.Delete(owned("theirs", "")))
					synctest.Wait()
					var names []string
					for key := range s.All() {
						names = append(names, key.Name)
					}
					assert.Equal(t, []string{"adopted", "mine"}, names)
					assert.Equal(t, []string{"lost left=true", "deleted left=false"}, told.words)
					assert.Equal(t, fmt.Sprint(server.ResourceVersion()), s.ResourceVersion())
					assert.True(t, r.Selects(owned("x", here)))
					assert.False(t, r.Selects(owned("x", there)))
					assert.False(t, r.Selects(owned("x", "")))
				})
			})
		}
	}
}

func resourceOf(t *testing.T, server *reflectortest.Server, opts ...client.ResourceOption) makeReflector {
	resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "", opts...)
	require.NoError(t, err)
	return func(s *store.Cache[*corev1.ConfigMap], to *record.Recorder, opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
		return reflector.New(record.Client(resource, to), s, opts...)
	}
}
