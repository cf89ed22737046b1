package reflectortest_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// randomChanges makes n changes to config maps and then one named "last".
func randomChanges(t *testing.T, s *reflectortest.Server, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	alive := map[string]bool{}
	for i := range n {
		cm := configMap(fmt.Sprintf("cm-%d", r.IntN(300)))
		cm.Labels = map[string]string{"change": fmt.Sprint(i)}
		switch {
		case !alive[cm.Name]:
			require.NoError(t, s.Create(cm))
			alive[cm.Name] = true
		case r.IntN(3) == 0:
			require.NoError(t, s.Delete(cm))
			alive[cm.Name] = false
		default:
			require.NoError(t, s.Update(cm))
		}
		if i%1000 == 500 {
			require.NoError(t, s.Compact(s.ResourceVersion()))
		}
	}
	require.NoError(t, s.Create(configMap("last")))
}

// losingItsPlace breaks the informer's first watch and answers the second one with
// 410: by the time that it is let through, its version is compacted away. The informer
// is synced when it has told of "first": a watch that breaks before begins anew.
func losingItsPlace(t *testing.T, s *reflectortest.Server, first <-chan struct{}, release chan<- struct{}) {
	t.Helper()
	require.NoError(t, s.Create(configMap("first")))
	<-first
	for i := range breakAfter + 50 {
		require.NoError(t, s.Create(configMap(fmt.Sprint("early-", i))))
	}
	watches, err := s.WaitForRequests(t.Context(), 2, reflectortest.Verb("watch"))
	require.NoError(t, err)
	require.NotEqual(t, "true", watches[1].Query.Get("sendInitialEvents"), "the reset makes it resume")
	at, err := strconv.ParseUint(watches[1].Query.Get("resourceVersion"), 10, 64)
	require.NoError(t, err)
	for i := range 2 {
		require.NoError(t, s.Delete(configMap(fmt.Sprint("early-", i))))
	}
	require.Less(t, at+1, s.ResourceVersion())
	require.NoError(t, s.Compact(s.ResourceVersion()))
	s.ForgetRequests()
	close(release)
}

// isList picks what gives a client the whole state.
func isList(r reflectortest.Request) bool {
	return r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true"
}

// breakAfter is the number of events after which a watch is reset.
const breakAfter = 400

// TestClientGoInformersEndWithTheServersState runs the three kinds of informer
// while the state changes, streams break and history is lost.
func TestClientGoInformersEndWithTheServersState(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 1000
	}
	for _, kind := range []string{"typed", "protobuf", "dynamic", "metadata"} {
		t.Run(kind, func(t *testing.T) {
			s := reflectortest.Start(t)
			s.Inject(reflectortest.ResetAfterEvents(breakAfter).On("watch", "configmaps").Times(5))
			release := make(chan struct{})
			s.Inject(reflectortest.Stall(release).On("watch", "configmaps").After(1).Times(1))
			informer, shutdown := newInformer(t, s, kind)
			first, last := make(chan struct{}), make(chan struct{})
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				switch obj.(metav1.Object).GetName() {
				case "first":
					close(first)
				case "last":
					close(last)
				}
			}})
			require.NoError(t, err)
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() { informer.Run(stop); close(done) }()
			defer func() { close(stop); <-done; shutdown() }()

			losingItsPlace(t, s, first, release)
			randomChanges(t, s, n)
			<-last
			require.NotEmpty(t, s.Requests(isList), "410 makes it list again")
			want, err := reflectortest.List[*corev1.ConfigMap](s, "")
			require.NoError(t, err)
			require.Equal(t, versions(want), versionsOf(t, informer.GetStore().List()))
		})
	}
}

func newInformer(t *testing.T, s *reflectortest.Server, kind string) (cache.SharedIndexInformer, func()) {
	t.Helper()
	switch kind {
	case "dynamic":
		client, err := dynamic.NewForConfig(s.Config())
		require.NoError(t, err)
		f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		return f.ForResource(configMaps).Informer(), f.Shutdown
	case "metadata":
		client, err := metadata.NewForConfig(s.Config())
		require.NoError(t, err)
		f := metadatainformer.NewSharedInformerFactory(client, 0)
		return f.ForResource(configMaps).Informer(), f.Shutdown
	default:
		config := s.Config()
		if kind == "protobuf" {
			config = protobuf(config)
		}
		f := informers.NewSharedInformerFactory(clientset(t, config), 0)
		return f.Core().V1().ConfigMaps().Informer(), f.Shutdown
	}
}

func versions(objects []*corev1.ConfigMap) map[string]string {
	m := map[string]string{}
	for _, o := range objects {
		m[o.Namespace+"/"+o.Name] = o.ResourceVersion
	}
	return m
}

func versionsOf(t *testing.T, objects []any) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, o := range objects {
		switch o.(type) {
		case *corev1.ConfigMap, *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		default:
			t.Fatalf("a %T in the store", o)
		}
		object := o.(metav1.Object)
		m[object.GetNamespace()+"/"+object.GetName()] = object.GetResourceVersion()
	}
	return m
}
