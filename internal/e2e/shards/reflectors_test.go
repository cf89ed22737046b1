package shards

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest/conformance"
	"github.com/kubereflector/kubereflector/store"
)

const (
	objects = 400 // at first
	parts   = 4   // shards
)

type kind struct {
	resource schema.GroupVersionResource
	make     func(name string) *unstructured.Unstructured
}

var widgets = schema.GroupVersionResource{Group: conformance.Widget.Group, Version: conformance.Widget.Version, Resource: conformance.Widget.Plural}

var kinds = map[string]kind{
	"config maps": {
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		func(name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"text": fmt.Sprintf("%0500d", 0)},
			}}
		},
	},
	"custom resources": {
		widgets,
		func(name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": widgets.GroupVersion().String(), "kind": conformance.Widget.Kind,
				"metadata": map[string]any{"name": name, "annotations": map[string]any{"text": fmt.Sprintf("%0500d", 0)}},
			}}
		},
	},
}

// meter counts the bytes of answers.
type meter struct {
	http.RoundTripper
	read *atomic.Int64
}

func (m meter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := m.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = counted{response.Body, m.read}
	}
	return response, err
}

type counted struct {
	io.ReadCloser
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// member is the reflector of some shards.
type member struct {
	store     *store.Cache[*metav1.PartialObjectMetadata]
	reflector *reflector.KubernetesResourceReflector[*metav1.PartialObjectMetadata]
	read      atomic.Int64
	shard     store.Shard
}

func TestShardsOfARealServer(t *testing.T) {
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprint("gate ", gate), func(t *testing.T) {
			server := servers[gate].Server(t)
			conformance.InstallWidgets(t, server.Config())
			for name, k := range kinds {
				for _, by := range []store.ShardKey{store.ByUID, store.ByNamespace} {
					t.Run(fmt.Sprintf("%s by %v", name, by), func(t *testing.T) { live(t, server, k, by, gate) })
				}
			}
		})
	}
}

// live has objects come, go and be made anew, while a reflector for each shard runs.
func live(t *testing.T, server *apiserver.Server, k kind, by store.ShardKey, gate bool) {
	config := server.Config()
	api, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(api.CloseIdleConnections)
	all, err := dynamic.NewForConfigAndClient(config, api)
	require.NoError(t, err)
	namespaces := []string{server.Namespace(t), server.Namespace(t), server.Namespace(t), server.Namespace(t), server.Namespace(t), server.Namespace(t)}
	in := func(n int) dynamic.ResourceInterface {
		return all.Resource(k.resource).Namespace(namespaces[n%len(namespaces)])
	}
	each(t, 0, objects, func(ctx context.Context, n int) error {
		_, err := in(n).Create(ctx, k.make(fmt.Sprint("o-", n)), metav1.CreateOptions{})
		return err
	})

	whole := newMember(t, server, k, store.Shard{})
	members := make([]*member, parts)
	for i, shard := range store.Shards(by, parts) {
		members[i] = newMember(t, server, k, shard)
	}
	for _, m := range append(members, whole) {
		<-m.reflector.Synced()
	}
	compare(t, all, k, members)
	selected, err := all.Resource(k.resource).List(t.Context(), metav1.ListOptions{ShardSelector: "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"})
	require.NoError(t, err)
	_, said, err := unstructured.NestedMap(selected.Object, "metadata", "shardInfo")
	require.NoError(t, err)
	assert.Equal(t, gate, len(selected.Items) < whole.store.Len())
	assert.Equal(t, gate && k.resource != widgets, said, "lists of custom resources are selected without a word")
	if by == store.ByUID {
		for i, m := range members {
			part := float64(m.read.Load()) / float64(whole.read.Load())
			t.Logf("shard %d: %d of %d objects, %d bytes, %.2f of all, selected by the %s",
				i, m.store.Len(), whole.store.Len(), m.read.Load(), part, m.reflector.State().Sharding)
			if gate {
				assert.InDelta(t, float64(m.store.Len())/float64(whole.store.Len()), part, 0.1, "what is read is what is held")
			} else {
				assert.Greater(t, part, 0.9, "everything is read")
			}
			assert.Equal(t, map[bool]reflector.Sharding{true: reflector.ShardedByServer, false: reflector.ShardedByClient}[gate], m.reflector.State().Sharding)
		}
	}

	each(t, 0, objects/2, func(ctx context.Context, n int) error {
		name := fmt.Sprint("o-", n)
		if n%3 == 0 {
			_, err := in(n).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`), metav1.PatchOptions{})
			return err
		}
		if err := in(n).Delete(ctx, name, metav1.DeleteOptions{}); err != nil || n%3 == 1 {
			return err
		}
		_, err := in(n).Create(ctx, k.make(name), metav1.CreateOptions{})
		return err
	})
	each(t, objects, objects+100, func(ctx context.Context, n int) error {
		_, err := in(n).Create(ctx, k.make(fmt.Sprint("o-", n)), metav1.CreateOptions{})
		return err
	})
	compare(t, all, k, members)
}

func each(t *testing.T, from, to int, do func(context.Context, int) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for n := from; n < to; n++ {
		group.Go(func() error { return do(ctx, n) })
	}
	require.NoError(t, group.Wait())
}

func newMember(t *testing.T, server *apiserver.Server, k kind, shard store.Shard) *member {
	t.Helper()
	m := &member{store: store.New(store.ObjectKey[*metav1.PartialObjectMetadata]), shard: shard}
	config := server.Config()
	config.DisableCompression = true // what is compressed says little of how much was sent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return meter{next, &m.read} })
	api, err := client.ForResource[*metav1.PartialObjectMetadata](config, k.resource, "", client.WithoutProtobuf())
	require.NoError(t, err)
	m.reflector = reflector.New(api, m.store, reflector.WithShard(shard))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- m.reflector.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-result)
	})
	return m
}

// compare waits until the members hold between them what the server does, and nothing twice.
func compare(t *testing.T, api dynamic.Interface, k kind, members []*member) {
	t.Helper()
	ctx := t.Context()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		list, err := api.Resource(k.resource).List(ctx, metav1.ListOptions{}) // each time: the server writes a ConfigMap of its own
		require.NoError(t, err)
		want := map[types.UID]string{}
		for _, o := range list.Items {
			want[o.GetUID()] = o.GetResourceVersion()
		}
		got := map[types.UID]string{}
		held := 0
		for _, m := range members {
			for _, o := range m.store.All() {
				got[o.UID] = o.ResourceVersion
				held++
			}
		}
		assert.Equal(t, len(want), held)
		assert.Equal(t, want, got)
	}, 3*time.Minute, 100*time.Millisecond)
}
