package listwatch

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	framework "k8s.io/client-go/tools/cache/testing"
)

type object interface {
	metav1.Object
	runtime.Object
}

// answering is a ListerWatcher with one answer.
func answering(list runtime.Object, err error) cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, err }}
}

func TestListsOfAnyTypeAreRead(t *testing.T) {
	of := metav1.ListMeta{ResourceVersion: "7", Continue: "more"}
	for name, from := range map[string]runtime.Object{
		"a typed list":              &corev1.PodList{ListMeta: of, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}},
		"a list of objects as such": &corev1.List{ListMeta: of, Items: []runtime.RawExtension{{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Client[object](answering(from, nil)).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Equal(t, of, list.ListMeta)
			require.Len(t, list.Items, 1)
			assert.Equal(t, "a", list.Items[0].GetName())
			assert.IsType(t, &corev1.Pod{}, list.Items[0])
		})
	}
}

func TestAnswersThatAreNoListOfObjects(t *testing.T) {
	for name, test := range map[string]struct {
		from runtime.Object
		err  error
		want string
	}{
		"nil":            {nil, nil, errNoList.Error()},
		"a nil pointer":  {(*corev1.PodList)(nil), nil, errNoList.Error()},
		"an object":      {&corev1.Pod{}, nil, "ListerWatcher returned a *v1.Pod"},
		"an error":       {nil, assert.AnError, assert.AnError.Error()},
		"a list of list": {&corev1.List{Items: []runtime.RawExtension{{Object: &corev1.PodList{}}}}, nil, "a list with a *v1.PodList, want a listwatch.object"},
		"a nil item":     {&podList{Items: []*corev1.Pod{nil}}, nil, "a list with a nil *v1.Pod"},
		"no object":      {&secrets{Items: []secret{{"s3"}}}, nil, "a *listwatch.secrets whose items are no objects"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Client[object](answering(test.from, test.err)).List(t.Context(), metav1.ListOptions{})
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "s3", "the error is logged")
		})
	}
}

// podList is a list as some generators write it.
type podList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*corev1.Pod
}

func (l *podList) DeepCopyObject() runtime.Object { return l }

// secrets is a list of what is no object.
type secrets struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []secret
}

type secret struct{ password string }

func (l *secrets) DeepCopyObject() runtime.Object { return l }

func TestNilListerWatcherIsNoClient(t *testing.T) {
	assert.Nil(t, Client[object](nil))
	assert.Nil(t, Client[object]((*cache.ListWatch)(nil)))
	assert.NotNil(t, Client[object](framework.NewFakeControllerSource()))
}

func TestTweakLeavesAnEarlierFieldSelectorInForce(t *testing.T) {
	assert.Nil(t, Both(nil))
	for _, test := range [][3]string{ // asked for, assigned, sent
		{"", "a=b", "a=b"}, {"x=y", "a=b", "x=y,a=b"}, {"x=y", "", "x=y"}, {"x=y", "x=y", "x=y"},
	} {
		o := metav1.ListOptions{FieldSelector: test[0], Limit: 7}
		Both(func(o *metav1.ListOptions) { *o = metav1.ListOptions{FieldSelector: test[1]} })(&o)
		assert.Equal(t, metav1.ListOptions{FieldSelector: test[2]}, o)
	}
}

func TestNames(t *testing.T) {
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
	assert.Equal(t, "Thing.example.com (*unstructured.Unstructured)", Name(thing))
	assert.Equal(t, "*v1.Pod", Name(&corev1.Pod{}))
	assert.Equal(t, "*v1.Pod", Name((*corev1.Pod)(nil)))
	assert.Equal(t, "objects", Name(nil))
}
