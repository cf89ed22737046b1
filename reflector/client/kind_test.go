package client

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// The scheme of client-go has all built-in types.
func TestForKnowsTheKindsOfAllBuiltInTypes(t *testing.T) {
	known := 0
	for _, typ := range scheme.Scheme.AllKnownTypes() {
		object := reflect.New(typ)
		if _, ok := object.Interface().(metav1.Object); !ok {
			continue
		}
		kinds, _, err := scheme.Scheme.ObjectKinds(object.Interface().(runtime.Object))
		require.NoError(t, err)
		got, ok := builtIn(typ)
		require.True(t, ok, typ)
		assert.Contains(t, kinds, got)
		known++
	}
	assert.Greater(t, known, 100)
}

func TestInReturnsTheClientOfANamespace(t *testing.T) {
	all, err := For[*corev1.Pod](&rest.Config{Host: "http://localhost"})
	require.NoError(t, err)
	shop := all.In("shop")
	assert.Equal(t, []string{"", "shop"}, []string{all.namespace, shop.namespace})
	assert.Error(t, shop.checkNamespace("stock"))
	assert.NoError(t, all.checkNamespace("stock"))
	assert.Same(t, all.finder, shop.finder, "discovery is of the kind")
	assert.Equal(t, "shop", shop.Namespace())
	var none *Resource[*corev1.Pod]
	assert.Nil(t, none.In("shop"))
	assert.Empty(t, none.Namespace())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
