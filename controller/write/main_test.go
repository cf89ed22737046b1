package write

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Bucket is a custom resource.
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              BucketSpec   `json:"spec"`
	Status            BucketStatus `json:"status,omitzero"`
}

type BucketSpec struct {
	Size int `json:"size,omitempty"`
}

type BucketStatus struct {
	Used int `json:"used,omitempty"`
}

var (
	buckets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "buckets"}
	bucketKind = buckets.GroupVersion().WithKind("Bucket")
)

type world struct {
	t          *testing.T
	server     *reflectortest.Server
	configMaps corev1client.ConfigMapInterface
	buckets    *client.Resource[*Bucket] // in all namespaces
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, server: reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
		Group: buckets.Group, Version: buckets.Version, Kind: bucketKind.Kind, Plural: buckets.Resource,
		Namespaced: true, Status: true, Prototype: &Bucket{},
	}))}
	clientset, err := kubernetes.NewForConfig(w.server.Config())
	require.NoError(t, err)
	w.configMaps = clientset.CoreV1().ConfigMaps("ns")
	w.buckets, err = client.ForResource[*Bucket](w.server.Config(), buckets, "", client.WithKind(bucketKind))
	require.NoError(t, err)
	return w
}

// configMap creates a ConfigMap, and returns it as it is in caches.
func (w *world) configMap(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	w.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	change(c)
	require.NoError(w.t, w.server.Create(c))
	return w.get()
}

// resource returns the client that reports its writes by itself.
func (w *world) resource() *client.Resource[*corev1.ConfigMap] {
	w.t.Helper()
	all, err := client.For[*corev1.ConfigMap](w.server.Config())
	require.NoError(w.t, err)
	return all
}

// get returns the ConfigMap that the server has.
func (w *world) get() *corev1.ConfigMap {
	w.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	require.NoError(w.t, w.server.Get(c))
	return c
}

// writes returns how many requests there were that write, since it was called last.
func (w *world) writes() (n int) {
	for _, r := range w.server.Requests() {
		switch r.Verb {
		case "create", "update", "patch", "delete":
			n++
		}
	}
	w.server.ForgetRequests()
	return n
}

// assertTold asserts that what a function writes is told to the reconciler whose context
// it gets: although the key of the one ConfigMap is to be reconciled again, it is not,
// since the cache does not come to show it.
func (w *world) assertTold(write func(ctx context.Context)) {
	w.t.Helper()
	// The ConfigMap, and the bookmark that ends the first list.
	defer w.server.Inject(reflectortest.StallAfterEvents(2, nil).On("watch", "configmaps")).Remove()
	informed := informer.New(w.configMaps)
	var calls atomic.Int32
	r := reconcile.New("test", informed, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		if calls.Add(1) == 1 {
			write(ctx)
		}
		return reconcile.Result{RequeueAfter: time.Second}, nil
	})
	all := manager.New(nil)
	all.Add(informed)
	all.Add(r)
	ctx, cancel := context.WithCancel(w.t.Context())
	result := make(chan error, 1)
	go func() { result <- all.Run(ctx) }()
	<-time.After(10 * time.Second)
	assert.EqualValues(w.t, 1, calls.Load(), "nothing was told")
	cancel()
	<-result // that something is left is not of interest
}
