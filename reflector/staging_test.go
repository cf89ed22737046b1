package reflector

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// breaking is a client whose lists break off after some items.
type breaking struct{}

func (breaking) List(_ context.Context, _ metav1.ListOptions, w source.Wants[*corev1.ConfigMap]) (source.Page[*corev1.ConfigMap], error) {
	for n := range 3 {
		w.Take(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n), ResourceVersion: "5"}})
	}
	return source.Page[*corev1.ConfigMap]{}, errors.New("broken off")
}

func (breaking) Watch(context.Context, metav1.ListOptions, source.Wants[*corev1.ConfigMap]) (source.Stream[*corev1.ConfigMap], error) {
	return &source.ClientStream[*corev1.ConfigMap]{Watch: watch.NewFake()}, nil
}

func (breaking) Check() error { return nil }

func (breaking) About() source.About { return source.About{} }

// The next attempt may be minutes away.
func TestNothingIsKeptOfAListThatBrokeOff(t *testing.T) {
	c := store.New(store.ObjectKey[*corev1.ConfigMap])
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, c)}
	r.source, r.staging.to = breaking{}, c
	assert.Equal(t, protocol.Failed, r.askPage(t.Context(), protocol.Action{Do: protocol.AskPage}).Kind)
	assert.Equal(t, staging[*corev1.ConfigMap]{to: c}, r.staging)
}

// A server that is busy may break off a watch-list, and ask for ten minutes of patience.
func TestNothingIsKeptOfAWatchListWhileItsFailureIsWaitedFor(t *testing.T) {
	c := store.New(store.ObjectKey[*corev1.ConfigMap])
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, c)}
	r.staging.to = c
	r.staging.take(&source.Event[*corev1.ConfigMap]{Type: watch.Added, Object: configMap("a", "u", "5")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	streaming := protocol.New(protocol.Options{WatchLists: true})
	streaming, _ = streaming.Step(protocol.Input{Kind: protocol.Started})
	streaming, _ = streaming.Step(protocol.Input{Kind: protocol.Accepted})
	_, todo := streaming.Step(protocol.Input{Kind: protocol.Failed, Err: apierrors.NewTooManyRequests("busy", 600)})
	for _, a := range todo {
		_, err := r.do(ctx, a)
		require.NoError(t, err)
	}
	assert.Equal(t, staging[*corev1.ConfigMap]{to: c}, r.staging)
}
