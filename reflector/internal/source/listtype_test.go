package source

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "1"}}
}

func TestOneObjectDoesNotKeepItsPageInMemory(t *testing.T) {
	list := &corev1.ConfigMapList{Items: []corev1.ConfigMap{*configMap("kept"), *configMap("freed")}}
	freed := make(chan struct{})
	list.Items[1].BinaryData = map[string][]byte{"x": make([]byte, 1<<10)}
	runtime.AddCleanup(&list.Items[0], func(struct{}) { close(freed) }, struct{}{})
	p, err := NewListType[*corev1.ConfigMap, *corev1.ConfigMapList]().Page(list)
	require.NoError(t, err)
	kept := p.Items[0]
	list, p.Items = nil, nil
	for collections := 0; ; collections++ {
		require.Less(t, collections, 100, "the page is still in memory")
		runtime.GC()
		select {
		case <-freed:
			assert.Equal(t, "kept", kept.Name)
			return
		default:
		}
	}
}

func TestListsThatHoldPointers(t *testing.T) {
	type pointers struct {
		metav1.TypeMeta
		metav1.ListMeta
		Items []*corev1.ConfigMap
	}
	item := configMap("a")
	p, err := NewListType[*corev1.ConfigMap, *pointers]().Page(&pointers{Items: []*corev1.ConfigMap{item}})
	require.NoError(t, err)
	assert.Same(t, item, p.Items[0])
	for _, bad := range []error{
		NewListType[*corev1.ConfigMap, corev1.ConfigMapList]().Err,
		NewListType[*corev1.ConfigMap, *corev1.ConfigMap]().Err,
		NewListType[*corev1.ConfigMap, *corev1.Pod]().Err,
		NewListType[*corev1.ConfigMap, *struct{ Items []corev1.ConfigMap }]().Err,
		NewListType[*corev1.ConfigMap, *struct{ Items string }]().Err,
	} {
		assert.Error(t, bad)
	}
}
