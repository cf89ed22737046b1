package reflector_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestForTypeReadsTheObjectsOfTheTypedResource(t *testing.T) {
	t.Run("protobuf", func(t *testing.T) { sameAsTyped(t, &corev1.ConfigMap{}) })
	t.Run("JSON", func(t *testing.T) { sameAsTyped(t, &corev1.ConfigMap{}, client.WithoutProtobuf()) })
	t.Run("nil example", func(t *testing.T) { sameAsTyped(t, (*corev1.ConfigMap)(nil)) })
	t.Run("unstructured", func(t *testing.T) { sameAsTyped(t, &unstructured.Unstructured{}) })
	t.Run("metadata", func(t *testing.T) { sameAsTyped(t, &metav1.PartialObjectMetadata{}) })
	t.Run("options", func(t *testing.T) {
		sameAsTyped(t, &corev1.ConfigMap{}, client.WithoutInterning(), client.WithoutManagedFields())
	})
}

// sameAsTyped compares the objects of a client for T with those of a client for an interface.
func sameAsTyped[T object](t *testing.T, example T, opts ...client.ResourceOption) {
	for name, how := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList(), reflector.WithPageSize(1)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(paint("a", "red")))
				require.NoError(t, server.Create(paint("b", "red")))
				typed, err := client.ForResource[T](server.Config(), configMapResource, "", opts...)
				require.NoError(t, err)
				untyped, err := client.ForType[metav1.Object](server.Config(), configMapResource, example, opts...)
				require.NoError(t, err)
				want, got := store.New(store.ObjectKey[T]), store.New(store.ObjectKey[metav1.Object])
				defer start(t, reflector.New(typed, want, how...))()
				defer start(t, reflector.New(untyped, got, how...))()
				equal := func() {
					t.Helper()
					synctest.Wait()
					assert.NotZero(t, want.Len())
					assert.Equal(t, want.Len(), got.Len())
					for key, w := range want.All() {
						g, _ := got.Get(key)
						assert.Equal(t, any(w), any(g))
					}
				}
				equal()
				require.NoError(t, server.Create(paint("c", "blue")))
				require.NoError(t, server.Update(paint("a", "green")))
				require.NoError(t, server.Delete(paint("b", "red")))
				equal()

				one, err := typed.In("default").Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				other, err := untyped.In("default").Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				assert.Equal(t, any(one), any(other))
			})
		})
	}
}

func TestForTypeFindsTheResourceOfTheExample(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	stated := &unstructured.Unstructured{}
	stated.SetGroupVersionKind(kind)
	for name, tc := range map[string]struct {
		example runtime.Object
		opts    []client.ResourceOption
	}{
		"of a built-in type":        {example: &corev1.ConfigMap{}},
		"that states its kind":      {example: stated},
		"of metadata":               {example: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}},
		"whose kind the caller has": {example: &unstructured.Unstructured{}, opts: []client.ResourceOption{client.WithKind(kind)}},
		"of a scheme":               {example: &corev1.ConfigMap{}, opts: []client.ResourceOption{client.WithScheme(scheme.Scheme)}},
	} {
		t.Run(name, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(paint("a", "red")))
			maps, err := client.ForType[metav1.Object](server.Config(), schema.GroupVersionResource{}, tc.example, tc.opts...)
			require.NoError(t, err)
			list, err := maps.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.IsType(t, tc.example, list.Items[0])
			assert.Equal(t, "a", list.Items[0].GetName())
		})
	}
}

// The server sends only metadata, of the kind PartialObjectMetadata.
func TestMetadataStatesTheKindOfTheResource(t *testing.T) {
	example := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	for name, opts := range map[string][]client.ResourceOption{"protobuf": nil, "JSON": {client.WithoutProtobuf()}} {
		for how, asks := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList()}} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					require.NoError(t, server.Create(paint("a", "red")))
					config := server.Config()
					config.Wrap(func(to http.RoundTripper) http.RoundTripper {
						return roundTrip(func(r *http.Request) (*http.Response, error) {
							assert.Contains(t, r.Header.Get("Accept"), "as=PartialObjectMetadata")
							return to.RoundTrip(r)
						})
					})
					metadata, err := client.ForType[metav1.Object](config, configMapResource, example, opts...)
					require.NoError(t, err)
					cache := store.New(store.ObjectKey[metav1.Object])
					defer start(t, reflector.New(metadata, cache, asks...))()
					require.NoError(t, server.Create(paint("b", "red")))
					synctest.Wait()
					assert.Equal(t, 2, cache.Len())
					for _, o := range cache.All() {
						assert.Equal(t, example.TypeMeta, o.(*metav1.PartialObjectMetadata).TypeMeta)
					}
					one, err := metadata.In("default").Get(t.Context(), "a", metav1.GetOptions{})
					require.NoError(t, err)
					assert.Equal(t, example.TypeMeta, one.(*metav1.PartialObjectMetadata).TypeMeta)
				})
			})
		}
	}
}

func TestForTypeRefusesAnExampleOfAnotherType(t *testing.T) {
	deployment := schema.FromAPIVersionAndKind("apps/v1", "Deployment")
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(deployment)
	for name, tc := range map[string]struct {
		example runtime.Object
		opts    []client.ResourceOption
		want    error
	}{
		"nothing":                   {nil, nil, client.ErrExample},
		"a list":                    {&corev1.ConfigMapList{}, nil, client.ErrExample},
		"a status":                  {&metav1.Status{}, nil, client.ErrExample},
		"a struct of another group": {&appsv1.Deployment{}, nil, client.ErrExample},
		"an object that says so":    {other, nil, client.ErrExample},
		"the caller says so":        {&unstructured.Unstructured{}, []client.ResourceOption{client.WithKind(deployment)}, client.ErrExample},
		"half a kind":               {&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap"}}, nil, client.ErrNoKind},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.ForType[metav1.Object](localhost(nil), configMapResource, tc.example, tc.opts...)
			require.ErrorIs(t, err, tc.want)
		})
	}
	_, err := client.ForType[*corev1.Secret](localhost(nil), configMapResource, &corev1.ConfigMap{})
	require.ErrorIs(t, err, client.ErrExample)
	_, err = client.ForType[metav1.Object](localhost(nil), schema.GroupVersionResource{}, &unstructured.Unstructured{})
	require.ErrorIs(t, err, client.ErrNoKind)
	_, err = client.ForType[metav1.Object](&rest.Config{Host: "http://%"}, configMapResource, &corev1.ConfigMap{})
	require.Error(t, err)
}

// badObject is a BadPaint that may be an example.
type badObject BadPaint

func (b *badObject) GetObjectKind() schema.ObjectKind { return &b.TypeMeta }

func (b *badObject) DeepCopyObject() runtime.Object { c := *b; return &c }

func TestForTypeNamesTheExamplesTypeInErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		bad, err := client.ForType[metav1.Object](server.Config(), configMapResource, &badObject{})
		require.NoError(t, err)
		_, err = bad.In("default").Get(context.Background(), "a", metav1.GetOptions{})
		var failure *client.DecodeError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "*reflector_test.badObject", failure.Type)
	})
}
