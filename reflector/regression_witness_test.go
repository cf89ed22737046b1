package reflector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// deletesWhileStreaming sends a watch-list in which the newest object is deleted before the closing
// bookmark, and breaks the watch after it.
type deletesWhileStreaming struct{}

func (deletesWhileStreaming) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, errors.New("no")
}

func (deletesWhileStreaming) List(_ context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	if o.FieldSelector == "metadata.name=y,metadata.namespace=ns" {
		return listOf("12", "", configMap("y", "u2", "5")), nil
	}
	return listOf("12", ""), nil
}

func (deletesWhileStreaming) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithChanSize(10, false)
	if o.SendInitialEvents != nil {
		w.Add(configMap("y", "u2", "5"))
		w.Add(configMap("x", "u1", "10"))
		w.Delete(configMap("x", "u1", "12"))
		closing := configMap("", "", "12")
		closing.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		w.Action(watch.Bookmark, closing)
		time.AfterFunc(20*time.Second, w.Stop)
	}
	return w, nil
}

func TestDeletionWithinAWatchListIsNoRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var told []error
		r := New(Client[*corev1.ConfigMap, *corev1.ConfigMapList](deletesWhileStreaming{}), newStore(), WithErrorHandler(func(_ context.Context, err error) { told = append(told, err) }))
		require.NoError(t, r.Run(ctx))
		assert.NotErrorIs(t, errors.Join(told...), protocol.ServerBehind)
	})
}

// The probe finds the object that changed last, although it cannot be decoded.
func TestProbeOfAnUndecodableObjectFindsIt(t *testing.T) {
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, nil)}
	r.protocol, _ = r.protocol.Step(protocol.Input{Kind: protocol.Started, Version: "5"})
	r.witness.set(store.Key{Namespace: "ns", Name: "x"}, store.Version{UID: "u", ResourceVersion: "5"}, false)
	assert.True(t, r.contradicted(source.Page[*corev1.ConfigMap]{ResourceVersion: "5"}))
	assert.False(t, r.contradicted(source.Page[*corev1.ConfigMap]{ResourceVersion: "5", Rejections: []store.Rejection{{}}}))
	assert.False(t, r.contradicted(source.Page[*corev1.ConfigMap]{ResourceVersion: "5", Continue: "more"}))
	assert.False(t, r.contradicted(source.Page[*corev1.ConfigMap]{ResourceVersion: "6"}))
}
