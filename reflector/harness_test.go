package reflector_test

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// mirror is a reflector of the ConfigMaps of a server, as regression tests use it: what they need
// of the API is here alone.
type mirror struct {
	*reflector.KubernetesResourceReflector[*corev1.ConfigMap]
	held *store.Cache[*corev1.ConfigMap]
	errs chan error // what was told
	stop func()
}

// mirrored runs a reflector with a generated client, or with a Resource.
func mirrored(t *testing.T, server *reflectortest.Server, generated bool, opts ...reflector.Option) *mirror {
	m := &mirror{held: store.New(store.ObjectKey[*corev1.ConfigMap]), errs: make(chan error, 10_000)}
	opts = append(opts, reflector.WithErrorHook(func(_ context.Context, err error) { m.errs <- err }))
	if generated {
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		m.KubernetesResourceReflector = reflector.New(clientset.CoreV1().ConfigMaps("default"), m.held, opts...)
	} else {
		client, err := reflector.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "default")
		require.NoError(t, err)
		m.KubernetesResourceReflector = reflector.New(client, m.held, opts...)
	}
	m.stop = start(t, m.KubernetesResourceReflector)
	return m
}

// told returns what was told so far.
func (m *mirror) told() []error {
	var all []error
	for len(m.errs) > 0 {
		all = append(all, <-m.errs)
	}
	return all
}

// requestsOf counts the requests of a verb.
func requestsOf(server *reflectortest.Server, verb string) int {
	n := 0
	for _, r := range server.Requests() {
		if r.Verb == verb {
			n++
		}
	}
	return n
}

func eachClient(t *testing.T, test func(t *testing.T, generated bool)) {
	for name, generated := range map[string]bool{"generated": true, "resource": false} {
		t.Run(name, func(t *testing.T) { test(t, generated) })
	}
}
