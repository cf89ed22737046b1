package reflector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

func TestReflectorsThatCannotWorkSaySo(t *testing.T) {
	var noClient *script
	var noStore *store.Cache[*corev1.ConfigMap]
	assert.ErrorIs(t, New(noClient, newStore()).Run(t.Context()), ErrNoClient)
	assert.ErrorIs(t, New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, newStore()).Run(t.Context()), ErrNoClient)
	assert.ErrorIs(t, New(new(script), noStore).Run(t.Context()), ErrNoStore)
	assert.ErrorIs(t, New(new(script), nil).Run(t.Context()), ErrNoStore)
	assert.ErrorIs(t, New(new(script), newStore(), WithLabelSelector(labels.Nothing())).Run(t.Context()), ErrNothingSelected)
	assert.ErrorIs(t, New(new(script), newStore(), WithFieldSelector(fields.Nothing())).Run(t.Context()), ErrNothingSelected)
	assert.Equal(t, Stopped, New(new(script), nil).State().Phase)
	var listType *ListTypeError
	assert.ErrorAs(t, New[*corev1.ConfigMap, *corev1.SecretList](oddClient{}, newStore()).Run(t.Context()), &listType)
	assert.Equal(t, "*v1.SecretList is no list of *v1.ConfigMap: want a pointer to a struct with list metadata and a field Items", listType.Error())
}

type oddClient struct{}

func (oddClient) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, nil
}
func (oddClient) List(context.Context, metav1.ListOptions) (*corev1.SecretList, error) {
	return nil, nil
}
func (oddClient) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, nil }

func TestClientThatReturnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.lists = append(api.lists, func() (*corev1.ConfigMapList, error) { return nil, nil })
		api.list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return nil, nil })
		var errs []error
		stop := running(t, New(api, newStore(), WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		require.Len(t, errs, 2)
		assert.ErrorIs(t, errs[0], source.ErrNoList)
		assert.ErrorIs(t, errs[1], source.ErrNoWatch)
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
