package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Secrets, which have namespaces, belong to Nodes, which have none.
func TestKeysOfPrimaryObjectsWithoutNamespaces(t *testing.T) {
	watches := map[string]func(*informer.Informer[*corev1.Secret]) Option{
		"owner": func(of *informer.Informer[*corev1.Secret]) Option { return Owns(of, schema.GroupKind{Kind: "Node"}) },
		"label": func(of *informer.Informer[*corev1.Secret]) Option { return Watch(of, ByLabel[*corev1.Secret]("node")) },
	}
	for mapping, watch := range watches {
		for name, tc := range map[string]struct{ generated, exists bool }{
			"client with discovery":                   {exists: true},
			"client with discovery, without an owner": {},
			"generated client":                        {generated: true, exists: true},
			"generated client, without an owner":      {generated: true},
		} {
			t.Run(mapping+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					nodes := informer.New(w.client.CoreV1().Nodes())
					if !tc.generated {
						of, err := client.FromTypedClient(w.client.CoreV1().Nodes())
						require.NoError(t, err)
						nodes = informer.New(of)
					}
					owner := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}
					if tc.exists {
						w.create(owner)
					}
					child := secret("s", "owner")
					child.OwnerReferences[0].Kind, child.Labels = "Node", map[string]string{"node": "owner"}
					w.create(child)
					var got list
					stopNodes := runMember(t, nodes)
					stop := w.run(New("test", nodes, func(_ context.Context, key store.Key, n *corev1.Node) (Result, error) {
						got.add(fmt.Sprint(key, " ", n != nil))
						return Result{}, nil
					}, watch(w.secrets)))
					want := []string{fmt.Sprint("owner ", tc.exists)}
					<-time.After(time.Minute)
					assert.Equal(t, want, slices.Compact(got.take()), "at the start")
					child.Data = map[string][]byte{"a": nil}
					w.update(child)
					<-time.After(time.Minute)
					assert.Equal(t, want, got.take(), "after a change of the child")
					require.NoError(t, stop())
					require.NoError(t, stopNodes())
				})
			})
		}
	}
}

// dynamicNodes returns an informer of Nodes whose client cannot ask discovery.
func (w *world) dynamicNodes(opts ...informer.Option) *informer.Informer[*unstructured.Unstructured] {
	api, err := dynamic.NewForConfig(w.server.Config())
	require.NoError(w.t, err)
	return informer.New(client.Dynamic(api.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))), opts...)
}

// The owner is created while the server is asked for one in the namespace of the child.
func TestFirstPrimaryObjectDuringTheQuestionShowsTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		asked, release := make(chan struct{}), make(chan struct{})
		nodes := w.dynamicNodes(informer.WithGet(func(_ context.Context, key store.Key) (metav1.Object, error) {
			close(asked)
			<-release
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
		}))
		child := secret("s", "owner")
		child.OwnerReferences[0].Kind = "Node"
		w.create(child)
		var got list
		stopNodes := runMember(t, nodes)
		stop := w.run(New("test", nodes, func(_ context.Context, key store.Key, n *unstructured.Unstructured) (Result, error) {
			got.add(fmt.Sprint(key, " ", n != nil))
			return Result{}, nil
		}, Owns(w.secrets, schema.GroupKind{Kind: "Node"})))
		<-asked
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
		synctest.Wait()
		close(release)
		<-time.After(time.Minute)
		assert.Equal(t, []string{"owner true"}, slices.Compact(got.take()))
		require.NoError(t, stop())
		require.NoError(t, stopNodes())
	})
}

// A call has begun for the key of a child, when the first owner comes.
func TestScopeThatIsKnownSinceTheCallBeganMovesItsKey(t *testing.T) {
	for name, scope := range map[string]int32{"to the handler": clusterScoped, "only to the cache": unknownScope} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				nodes := w.dynamicNodes()
				w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
				stopNodes := runMember(t, nodes)
				require.NoError(t, nodes.WaitForSync(t.Context()))
				o := newOptions(nil)
				r := newRun(t.Context(), &o, "test", nil, []source{&watching[*unstructured.Unstructured]{informer: nodes}})
				r.scope.Store(scope)
				calls, err := r.read(t.Context(), &call{Context: t.Context(), run: r, key: store.Key{Namespace: "ns", Name: "owner"}})
				require.NoError(t, err)
				assert.False(t, calls)
				assert.Equal(t, 1, r.keys.Len())
				r.close()
				require.NoError(t, stopNodes())
			})
		})
	}
}

// away is a transport that gets no answer of discovery.
type away struct{ http.RoundTripper }

func (a away) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/api/v1" {
		return a.RoundTripper.RoundTrip(r)
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestKeyOfAClusterNeedsNoAnswerOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		config := reflectortest.Start(t).Config()
		config.Wrap(func(to http.RoundTripper) http.RoundTripper { return away{to} })
		other, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		nodes, secrets := scoped.New(store.ObjectKey[*corev1.Node]), scoped.New(store.ObjectKey[*corev1.Secret])
		require.NoError(t, scoped.Add(nodes, store.Scope{Cluster: "west"}, w.client.CoreV1().Nodes()))
		require.NoError(t, scoped.Add(nodes, store.Scope{Cluster: "east"}, other.CoreV1().Nodes()))
		require.NoError(t, scoped.Add(secrets, store.Scope{Cluster: "west"}, w.client.CoreV1().Secrets("")))
		w.secrets = secrets.Informer()
		child := secret("s", "owner")
		child.OwnerReferences[0].Kind = "Node"
		w.create(child)
		stopNodes := runMember(t, nodes.Informer())
		synctest.Wait()
		var got list
		began := time.Now()
		stop := w.run(New("test", nodes.Informer(), func(_ context.Context, key store.Key, n *corev1.Node) (Result, error) {
			got.add(fmt.Sprint(key, " ", n != nil, " ", time.Since(began)))
			return Result{}, nil
		}, Owns(w.secrets, schema.GroupKind{Kind: "Node"}), WithCatchUpTimeout(0)))
		<-time.After(time.Minute)
		assert.Equal(t, []string{fmt.Sprint(store.Key{Cluster: "west", Name: "owner"}, " false 0s")}, got.take())
		require.NoError(t, stop())
		require.NoError(t, stopNodes())
	})
}
