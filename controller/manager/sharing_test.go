package manager

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Paint is what this program wants to know of a ConfigMap.
type Paint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              struct {
		Color string `json:"color"`
	} `json:"data"`
}

func TestWhoeverAsksForTheSameGetsTheSameInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, c := range []*corev1.ConfigMap{configMap("one", "a"), configMap("one", "b"), configMap("two", "c")} {
			c.Labels, c.Data = map[string]string{"name": c.Name}, map[string]string{"color": "red"}
			require.NoError(t, server.Create(c))
		}
		kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		m := New(server.Config())
		all, err := Informer[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		stop := start(t, m)
		named, err := Informer[*corev1.ConfigMap](m, Selection{Kind: kind})
		require.NoError(t, err)
		assert.Same(t, all, named)

		one, err := Informer[*corev1.ConfigMap](m, Selection{Namespace: "one"})
		require.NoError(t, err)
		again, err := Informer[*corev1.ConfigMap](m, Selection{Namespace: "one"})
		require.NoError(t, err)
		assert.Same(t, one, again)
		labelled, err := Informer[*corev1.ConfigMap](m, Selection{LabelSelector: "name in (a, c)"})
		require.NoError(t, err)
		field, err := Informer[*corev1.ConfigMap](m, Selection{FieldSelector: "metadata.name=b"})
		require.NoError(t, err)
		paints, err := Informer[*Paint](m, Selection{Kind: kind})
		require.NoError(t, err)
		resource, err := Informer[*Paint](m, Selection{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "two"})
		require.NoError(t, err)

		require.NoError(t, m.WaitForSync(t.Context()))
		names := func(view *store.View[*corev1.ConfigMap]) string {
			var names []string
			for key := range view.All() {
				names = append(names, key.Name)
			}
			return strings.Join(names, " ")
		}
		assert.Equal(t, "a b c", names(all.Cache()))
		assert.Equal(t, "a b", names(one.Cache()))
		assert.Equal(t, "a c", names(labelled.Cache()))
		assert.Equal(t, "b", names(field.Cache()))
		assert.Equal(t, 3, paints.Cache().Len())
		c, ok := resource.Cache().Get(store.Key{Namespace: "two", Name: "c"})
		require.True(t, ok)
		assert.Equal(t, "red", c.Data.Color)
		assert.Equal(t, 1, resource.Cache().Len(), "those of the namespace")
		assert.Equal(t, "*v1.ConfigMap ConfigMap/v1 with name in (a, c)", labelled.Name())
		assert.Len(t, server.Requests(reflectortest.ForResource("configmaps")), 6, "one watch each")
		discovered := server.Requests(func(r reflectortest.Request) bool { return r.Verb == "" })
		assert.LessOrEqual(t, len(discovered), 2, "one mapper for all: /api and /apis")
		require.NoError(t, stop())
	})
}

func TestInformersThatCannotBe(t *testing.T) {
	_, err := Informer[*corev1.ConfigMap](New(nil), Selection{})
	assert.ErrorIs(t, err, ErrNoConfig)
	m := New(&rest.Config{Host: "http://localhost"})
	_, err = Informer[*Paint](m, Selection{})
	assert.ErrorIs(t, err, client.ErrNoKind)
	assert.ErrorContains(t, err, "informer of *manager.Paint: set Selection.Kind")
	_, err = Informer[*corev1.ConfigMap](m, Selection{LabelSelector: "!!"})
	assert.ErrorContains(t, err, "ConfigMap")
	_, err = Informer[*corev1.ConfigMap](m, Selection{FieldSelector: "!!"})
	assert.Error(t, err)
	_, err = Informer[metav1.Object](m, Selection{})
	assert.Error(t, err)
	assert.NoError(t, m.Alive(), "none of them is a member")
	assert.Empty(t, m.members)
	_, err = Informer[*corev1.ConfigMap](New(&rest.Config{Host: "http://%"}), Selection{})
	assert.Error(t, err)
}

func TestOptionsOfTheManagersClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		managed := configMap("one", "a")
		managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}}
		require.NoError(t, server.Create(managed))
		m := New(server.Config(), WithClientOptions(client.WithoutManagedFields()))
		all, err := For[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		byResource, err := For[*corev1.ConfigMap](m, Selection{Resource: corev1.SchemeGroupVersion.WithResource("configmaps")})
		require.NoError(t, err)
		stop := start(t, m)
		require.NoError(t, m.WaitForSync(t.Context()))
		for _, objects := range []*Objects[*corev1.ConfigMap]{all, byResource} {
			held, ok := objects.Cache().Get(store.Key{Namespace: "one", Name: "a"})
			require.True(t, ok)
			assert.Empty(t, held.ManagedFields)
			read, err := objects.Client.In("one").Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Empty(t, read.ManagedFields)
		}
		require.NoError(t, stop())
	})
}

func TestObjectsReadsTheCacheAndWritesInTheNamespaceOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("one", "a")))
		m := New(server.Config())
		all, err := For[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		shared, err := Informer[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		assert.Same(t, shared, all.Informer)
		again, err := For[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		assert.Same(t, all, again)
		stop := start(t, m)
		require.NoError(t, m.WaitForSync(t.Context()))
		held, ok := all.Cache().Get(store.Key{Namespace: "one", Name: "a"})
		require.True(t, ok)
		want := held.DeepCopy()
		want.Data = map[string]string{"color": "red"}
		_, err = write.Patch(t.Context(), all.Client, held, want)
		require.NoError(t, err)
		synctest.Wait()
		held, _ = all.Cache().Get(store.Key{Namespace: "one", Name: "a"})
		assert.Equal(t, "red", held.Data["color"])
		require.NoError(t, stop())
	})
}

func TestByReferenceHoldsMetadataAndGetsObjectsAtTheirFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"used", "other"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: name}, Data: map[string][]byte{"key": []byte(name)}}
			require.NoError(t, server.Create(secret))
		}
		m := New(server.Config())
		secrets, metadata, err := ByReference[*corev1.Secret](m, Selection{})
		require.NoError(t, err)
		stop := start(t, m)
		require.NoError(t, m.WaitForSync(t.Context()))
		assert.Equal(t, 2, metadata.Cache().Len())
		for range 2 {
			secret, err := secrets.Get(t.Context(), store.Key{Namespace: "one", Name: "used"})
			require.NoError(t, err)
			assert.Equal(t, "used", string(secret.Data["key"]))
		}
		assert.Len(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")), 1)
		_, err = secrets.Get(t.Context(), store.Key{Namespace: "one", Name: "missing"})
		assert.True(t, apierrors.IsNotFound(err), err)
		for _, list := range server.Requests(reflectortest.ForResource("secrets"), reflectortest.Verb("watch")) {
			assert.Contains(t, list.Header.Get("Accept"), "PartialObjectMetadata")
		}
		require.NoError(t, stop())
	})
}

func TestByReferenceHoldsOwnedObjectsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		secret := func(app, value string) *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a", Labels: map[string]string{"app": app, "kept": "yes"}},
				Data:       map[string][]byte{"key": []byte(value)},
			}
		}
		require.NoError(t, server.Create(secret("red", "0")))
		m := New(server.Config())
		secrets, _, err := ByReference[*corev1.Secret](m, Selection{LabelSelector: "kept"}, "app=red", "app=blue")
		require.NoError(t, err)
		stop := start(t, m)
		require.NoError(t, m.WaitForSync(t.Context()))
		read := func(want string) {
			t.Helper()
			got, err := secrets.Get(t.Context(), store.Key{Namespace: "one", Name: "a"})
			require.NoError(t, err)
			assert.Equal(t, want, string(got.Data["key"]))
		}
		for n, app := range []string{"red", "blue", "red", "blue", "blue"} {
			require.NoError(t, server.Update(secret(app, strconv.Itoa(n))))
			synctest.Wait()
			read(strconv.Itoa(n))
		}
		assert.Empty(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")))

		require.NoError(t, server.Update(secret("green", "5")))
		synctest.Wait()
		read("5")
		assert.Len(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")), 1)
		green, err := Informer[*corev1.Secret](m, Selection{LabelSelector: "app=green"})
		require.NoError(t, err)
		remove := secrets.AddOwned(green.Cache())
		synctest.Wait()
		require.NoError(t, server.Update(secret("green", "6")))
		synctest.Wait()
		read("6")
		assert.Len(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")), 1)
		remove()
		read("6")
		assert.Len(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")), 2)
		require.NoError(t, stop())
	})
}

func TestObjectsThatCannotBe(t *testing.T) {
	_, err := For[*corev1.ConfigMap](New(nil), Selection{})
	assert.ErrorIs(t, err, ErrNoConfig)
	_, _, err = ByReference[*corev1.Secret](New(nil), Selection{})
	assert.ErrorIs(t, err, ErrNoConfig)
	m := New(&rest.Config{Host: "http://localhost"})
	_, _, err = ByReference[*Paint](m, Selection{})
	assert.ErrorIs(t, err, client.ErrNoKind)
	_, _, err = ByReference[*corev1.Secret](m, Selection{LabelSelector: "!!"})
	assert.Error(t, err)
	known := Selection{Resource: corev1.SchemeGroupVersion.WithResource("secrets")} // which needs no discovery
	_, _, err = ByReference[*corev1.Secret](m, known, "app=red", "!!")
	assert.ErrorContains(t, err, "!!")
	assert.Empty(t, m.members)
}
