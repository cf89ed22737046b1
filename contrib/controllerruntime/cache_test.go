package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
	siteKind   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Site"}
)

// mapper knows the kinds of the tests.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(podKind, meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("PodList"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(secretKind, meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("SecretList"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMapList"), meta.RESTScopeNamespace)
	m.Add(siteKind, meta.RESTScopeNamespace)
	return m
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}

// newServer has two pods of namespace "a", one of "b", and a node.
func newServer(t *testing.T, opts ...reflectortest.Option) *reflectortest.Server {
	t.Helper()
	server := reflectortest.Start(t, opts...)
	for _, object := range []metav1.Object{pod("a", "one"), pod("a", "two"), pod("b", "one"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}} {
		require.NoError(t, server.Create(object))
	}
	return server
}

// started makes a cache with NewCache and starts it until the test ends.
func started(t *testing.T, config *rest.Config, opts cache.Options) cache.Cache {
	t.Helper()
	return startedWith(t, Options{}, config, opts)
}

func startedWith(t *testing.T, with Options, config *rest.Config, opts cache.Options) cache.Cache {
	t.Helper()
	if opts.Mapper == nil {
		opts.Mapper = mapper()
	}
	c, err := with.NewCache(config, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	require.True(t, c.WaitForCacheSync(t.Context()))
	return c
}

func TestCacheReadsTypedObjects(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{})
	var got corev1.Pod
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &got))
	assert.Equal(t, podKind, got.GroupVersionKind())
	assert.Equal(t, pod("a", "one").Spec, got.Spec)

	got.Labels["app"] = "changed"
	var again corev1.Pod
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(&got), &again))
	assert.Equal(t, "web", again.Labels["app"], "Get returns a copy")

	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods, client.InNamespace("a"), client.MatchingLabels{"app": "web"}))
	assert.Len(t, pods.Items, 2)
	var nodes corev1.NodeList
	require.NoError(t, c.List(t.Context(), &nodes))
	assert.Len(t, nodes.Items, 1)
}

func TestCacheReadsUnstructuredObjectsAndMetadata(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{})
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(podKind)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, whole))
	node, _, err := unstructured.NestedString(whole.Object, "spec", "nodeName")
	require.NoError(t, err)
	assert.Equal(t, "node", node)

	only := &metav1.PartialObjectMetadata{}
	only.SetGroupVersionKind(podKind)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, only))
	assert.Equal(t, "web", only.Labels["app"])
	assert.Equal(t, podKind, only.GroupVersionKind())
}

func TestCacheFollowsChanges(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{})
	i, err := c.GetInformer(t.Context(), &corev1.Node{})
	require.NoError(t, err)
	events := make(chan string, 10)
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { events <- "add " + object.(*corev1.Node).Kind + object.(*corev1.Node).Name }, // without a kind
		UpdateFunc: func(_, object any) { events <- "update " + object.(*corev1.Node).Labels["zone"] },
		DeleteFunc: func(object any) { events <- "delete " + object.(*corev1.Node).Name },
	})
	require.NoError(t, err)
	assert.Equal(t, "add node", <-events)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "west"}}}
	require.NoError(t, server.Update(node))
	assert.Equal(t, "update west", <-events)
	require.NoError(t, server.Delete(node))
	assert.Equal(t, "delete node", <-events)
}

// The namespace and the selectors of the options reach the server, though the constructor of an
// informer does not get them.
func TestCacheRequestsNamespacesAndSelectors(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{
		DefaultFieldSelector: fields.OneTermNotEqualSelector("metadata.name", "other"),
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Namespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: labels.SelectorFromSet(labels.Set{"app": "none"})}},
		}},
	})
	assert.Empty(t, server.Requests(), "no request before the first read")
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Len(t, pods.Items, 2)

	asked := map[string]string{}
	for _, r := range server.Requests() {
		asked[r.Namespace+" "+r.Query.Get("labelSelector")] = r.Query.Get("fieldSelector")
		assert.Contains(t, r.Header.Get("Accept"), "protobuf")
	}
	assert.Equal(t, map[string]string{"a ": "metadata.name!=other", "b app=none": "metadata.name!=other"}, asked)
}

// A field selector on metadata.namespace restricts the path of requests, as in controller-runtime.
func TestCacheRequestsTheNamespaceOfAFieldSelector(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", "b")})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Len(t, pods.Items, 1)
	for _, r := range server.Requests() {
		assert.Equal(t, "b", r.Namespace)
	}
}

// site is a custom resource.
type site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image string `json:"image"`
	} `json:"spec"`
}

func (s *site) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

type siteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []site `json:"items"`
}

func (l *siteList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = append([]site(nil), l.Items...)
	return &out
}

func siteScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(siteKind, &site{})
	s.AddKnownTypeWithName(siteKind.GroupVersion().WithKind("SiteList"), &siteList{})
	metav1.AddToGroupVersion(s, siteKind.GroupVersion())
	return s
}

// siteCount is the number of sites of siteServer: enough for decoders to share equal labels.
const siteCount = 20

func siteServer(t *testing.T) *reflectortest.Server {
	t.Helper()
	server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
		Group: siteKind.Group, Version: siteKind.Version, Kind: siteKind.Kind, Plural: "sites", Namespaced: true, Prototype: &site{},
	}))
	for i := range siteCount {
		name := fmt.Sprint("site-", i)
		s := &site{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"app": "web"}}}
		s.TypeMeta.SetGroupVersionKind(siteKind)
		s.Spec.Image = "web:1"
		require.NoError(t, server.Create(s))
	}
	return server
}

// Objects with equal labels share them. A transform may change its object all the same.
func TestTransformsChangeOneObject(t *testing.T) {
	server := siteServer(t)
	c := started(t, server.Config(), cache.Options{
		Scheme:                       siteScheme(),
		DefaultUnsafeDisableDeepCopy: new(true),
		DefaultTransform: func(in any) (any, error) {
			s := in.(*site)
			s.Labels["name"] = s.Name
			return s, nil
		},
	})
	var sites siteList
	require.NoError(t, c.List(t.Context(), &sites))
	require.Len(t, sites.Items, siteCount)
	for _, s := range sites.Items {
		assert.Equal(t, map[string]string{"app": "web", "name": s.Name}, s.Labels)
		assert.Equal(t, "web:1", s.Spec.Image)
	}
}

func TestTransformedObjectsShareWhatIsEqual(t *testing.T) {
	c := started(t, siteServer(t).Config(), cache.Options{
		Scheme:                       siteScheme(),
		DefaultUnsafeDisableDeepCopy: new(true),
		DefaultTransform:             cache.TransformStripManagedFields(),
	})
	var sites siteList
	require.NoError(t, c.List(t.Context(), &sites))
	require.Len(t, sites.Items, siteCount)
	labels := map[uintptr]bool{}
	for _, s := range sites.Items {
		labels[reflect.ValueOf(s.Labels).Pointer()] = true
	}
	assert.Less(t, len(labels), siteCount)
}

func TestIndexedFields(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{})
	require.NoError(t, c.IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	}))
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods, client.MatchingFields{"spec.nodeName": "node"}))
	assert.Len(t, pods.Items, 3)
	require.NoError(t, c.List(t.Context(), &pods, client.MatchingFields{"spec.nodeName": "other"}))
	assert.Empty(t, pods.Items)
}

// authorizing adds a header, as a transport with credentials does.
type authorizing struct{ http.RoundTripper }

func (a authorizing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer of the client")
	return a.RoundTripper.RoundTrip(r)
}

func TestRequestsUseTheHTTPClientOfTheOptions(t *testing.T) {
	server := newServer(t)
	own, err := rest.HTTPClientFor(server.Config())
	require.NoError(t, err)
	own.Transport = authorizing{own.Transport}
	c := started(t, server.Config(), cache.Options{HTTPClient: own})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	require.NotEmpty(t, server.Requests())
	for _, r := range server.Requests() {
		assert.Equal(t, "Bearer of the client", r.Header.Get("Authorization"))
	}
	assert.True(t, informerOf(t, c, &corev1.Pod{}).copies, "decoded here")
}

// redirecting is a server that redirects every request, and knows which hosts were sent credentials.
type redirecting struct{ trusting map[string]bool }

func (r redirecting) RoundTrip(request *http.Request) (*http.Response, error) {
	r.trusting[request.URL.Host] = r.trusting[request.URL.Host] || request.Header.Get("Authorization") != ""
	return &http.Response{StatusCode: http.StatusFound, Request: request, Header: http.Header{"Location": {"http://elsewhere/"}}, Body: http.NoBody}, nil
}

func TestDiscoveryByControllerRuntimeFollowsNoRedirectToAnotherServer(t *testing.T) {
	server := redirecting{map[string]bool{}}
	c, err := NewCache(&rest.Config{Host: "http://apiserver", Transport: server, BearerToken: "token", QPS: -1}, cache.Options{})
	require.NoError(t, err)
	_, err = c.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	assert.ErrorContains(t, err, "redirect")
	assert.Equal(t, map[string]bool{"apiserver": true}, server.trusting)
}

// informerOf returns the informer of a cache for the type of an object.
func informerOf(t *testing.T, c cache.Cache, object client.Object) *sharedInformer {
	t.Helper()
	i, err := c.GetInformer(t.Context(), object)
	require.NoError(t, err)
	require.IsType(t, &sharedInformer{}, i)
	return i.(*sharedInformer)
}

// All kinds of objects are decoded here, and not by controller-runtime.
func TestCacheDecodesObjects(t *testing.T) {
	c := started(t, newServer(t).Config(), cache.Options{})
	whole, only := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	whole.SetGroupVersionKind(podKind)
	only.SetGroupVersionKind(podKind)
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.Node{}, whole, only} {
		assert.True(t, informerOf(t, c, object).copies, "%T", object)
	}
}

// Options that this package cannot serve are served by controller-runtime's own requests.
func TestKindsWithoutBookmarksAreDecodedByControllerRuntime(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{DefaultEnableWatchBookmarks: new(false)})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Len(t, pods.Items, 3)
	watches, err := server.WaitForRequests(t.Context(), 1, reflectortest.Verb("watch"))
	require.NoError(t, err)
	assert.NotEqual(t, "true", watches[0].Query.Get("allowWatchBookmarks"))
	assert.False(t, informerOf(t, c, &corev1.Pod{}).copies, "decoded by controller-runtime")
}

func TestConstructorOfTheOptionsWins(t *testing.T) {
	server := newServer(t)
	asked := 0
	c := started(t, server.Config(), cache.Options{
		NewInformer: func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			asked++
			return toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
		},
	})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Equal(t, 1, asked)
}

func TestKindThatTheSchemeDoesNotKnow(t *testing.T) {
	server := siteServer(t)
	c := started(t, server.Config(), cache.Options{})
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &site{})
	assert.True(t, runtime.IsNotRegisteredError(err), "%v", err)
}

func TestReadBeforeTheStart(t *testing.T) {
	c, err := NewCache(newServer(t).Config(), cache.Options{Mapper: mapper()})
	require.NoError(t, err)
	err = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{})
	var notStarted *cache.ErrCacheNotStarted
	assert.True(t, errors.As(err, &notStarted), "%v", err)
}

func TestInformersAreRemoved(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{ReaderFailOnMissingInformer: true})
	_, err := c.GetInformer(t.Context(), &corev1.Pod{})
	require.NoError(t, err)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{}))
	require.NoError(t, c.RemoveInformer(t.Context(), &corev1.Pod{}))
	var notCached *cache.ErrResourceNotCached
	err = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{})
	assert.True(t, errors.As(err, &notCached), "%v", err)
}

func TestContentTypeOfTheConfig(t *testing.T) {
	for name, test := range map[string]struct {
		contentType, accepted string
		protobuf              bool
	}{
		"JSON":                    {contentType: runtime.ContentTypeJSON},
		"JSON is accepted":        {accepted: runtime.ContentTypeJSON},
		"JSON, protobuf accepted": {runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, true},
		"protobuf":                {contentType: runtime.ContentTypeProtobuf, protobuf: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			config := server.Config()
			config.ContentType, config.AcceptContentTypes = test.contentType, test.accepted
			c := started(t, config, cache.Options{})
			var pods corev1.PodList
			require.NoError(t, c.List(t.Context(), &pods))
			require.NotEmpty(t, server.Requests())
			for _, r := range server.Requests() {
				assert.Equal(t, test.protobuf, strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf), "%s", r.Header)
			}
		})
	}
}

// A list states no kind, so the cache makes the example without one.
func TestTypeWithKindsInSeveralVersions(t *testing.T) {
	server := siteServer(t)
	types := siteScheme()
	old := schema.GroupVersion{Group: siteKind.Group, Version: "v1beta1"}
	types.AddKnownTypeWithName(old.WithKind(siteKind.Kind), &site{})
	k := &kinds{config: server.Config(), scheme: types}
	kind, err := k.kind(&site{}, siteKind.GroupVersion())
	require.NoError(t, err)
	assert.Equal(t, siteKind, kind)
	kind, err = k.kind(&site{}, old)
	require.NoError(t, err)
	assert.Equal(t, old.WithKind(siteKind.Kind), kind)
	_, err = k.kind(&site{}, schema.GroupVersion{Group: siteKind.Group, Version: "v2"})
	assert.ErrorContains(t, err, "has no kind in example.com/v2")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestInformerOfAListerWatcherServesACache leaves requests to controller-runtime.
func TestInformerOfAListerWatcherServesACache(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{NewInformer: clientgo.NewSharedIndexInformer})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Len(t, pods.Items, 3)
	i, err := c.GetInformer(t.Context(), &corev1.Pod{})
	require.NoError(t, err)
	assert.IsType(t, &clientgo.SharedIndexInformer[clientgo.Object]{}, i)
}

func TestObjectsOfAnotherTypeThanTheExampleAreRejected(t *testing.T) {
	i := newInformer(&toolscache.ListWatch{}, &corev1.Node{}, 0, nil)
	_, err := i.prepare(&corev1.Pod{})
	wrong, ok := errors.AsType[*clientgo.TypeError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "object is a *v1.Pod, not a *v1.Node", wrong.Error())
	_, err = i.prepare(&corev1.Node{})
	assert.NoError(t, err)
}

func TestIndexersAreAdded(t *testing.T) {
	i := newInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	assert.Contains(t, i.GetIndexer().GetIndexers(), toolscache.NamespaceIndex)
	assert.Panics(t, func() {
		newInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{"none": nil})
	})
}

func TestPathsOfResources(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	sites := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sites"}
	for path, want := range map[string]request{
		"/api/v1/pods":                                     {resource: pods},
		"/api/v1/namespaces/a/pods":                        {resource: pods, namespace: "a"},
		"/api/v1/namespaces":                               {resource: corev1.SchemeGroupVersion.WithResource("namespaces")},
		"/apis/example.com/v1/sites":                       {resource: sites},
		"/apis/example.com/v1/namespaces/a/sites":          {resource: sites, namespace: "a"},
		"/a/prefix/api/v1/namespaces/a/pods":               {resource: pods, namespace: "a"},
		"/k8s/clusters/c-1/apis/example.com/v1/sites":      {resource: sites},
		"/apis/example.com/v1/namespaces/namespaces/sites": {resource: sites, namespace: "namespaces"},
	} {
		got, err := parse(path)
		require.NoError(t, err, path)
		assert.Equal(t, want, got, path)
	}
	for _, path := range []string{"", "/", "/pods", "/v1/pods", "/other/v1/pods"} {
		_, err := parse(path)
		assert.ErrorContains(t, err, "want one of a resource", path)
	}
}

func TestListerWatcherWithoutRequests(t *testing.T) {
	_, err := requested(&toolscache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		return watch.NewFake(), nil
	}})
	assert.ErrorIs(t, err, errNotCaptured)
}

// A program without a manager, or with a cache beside it, calls cache.New itself.
func TestNewCacheStandsForCacheNew(t *testing.T) {
	for name, newCache := range map[string]func(*rest.Config, cache.Options) (cache.Cache, error){"cache.New": cache.New, "NewCache": NewCache} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			c, err := newCache(server.Config(), cache.Options{Mapper: mapper(), DefaultNamespaces: map[string]cache.Config{"a": {}}})
			require.NoError(t, err)
			require.NoError(t, c.IndexField(t.Context(), &corev1.Pod{}, "name", func(o client.Object) []string { return []string{o.GetName()} }))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Start(ctx) }()
			require.True(t, c.WaitForCacheSync(ctx))
			var one corev1.Pod
			require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "one"}, &one))
			var found corev1.PodList
			require.NoError(t, c.List(ctx, &found, client.MatchingFields{"name": "one"}))
			assert.Len(t, found.Items, 1)
			informer, err := c.GetInformer(ctx, &corev1.Pod{})
			require.NoError(t, err)
			assert.True(t, informer.HasSynced())
			cancel()
			require.NoError(t, <-ended)
		})
	}
}
