package wire

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

// patience is how long anything may take before the scenario fails. A back-off alone can be half a minute.
const patience = 90 * time.Second

// world is a server and client-go's clients of it: what they read is what has to be in the mirrors.
type world struct {
	*testing.T
	server    *apiserver.Server
	dynamic   dynamic.Interface
	typed     kubernetes.Interface // speaks protobuf
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, server: shared.Server(t)}
	w.namespace = w.server.Namespace(t)
	config := w.server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	// Those of all clients of the server, since their configurations are equal: client-go keeps one transport for them.
	t.Cleanup(client.CloseIdleConnections)
	w.dynamic, err = dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	w.typed, err = kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return w
}

// within returns the world of a subtest.
func (w *world) within(t *testing.T) *world {
	inner := *w
	inner.T = t
	return &inner
}

// insist does something until the server does not refuse it: one that was just started again may for a moment.
func (w *world) insist(what string, do func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = do()
		return last == nil, nil
	})
	require.NoError(w, err, "%s: %v", what, last)
}

// population is the objects of one resource, which are written as JSON by client-go's dynamic client.
type population struct {
	resource schema.GroupVersionResource
	size     int
	make     func(i int) any
	next     int // the number of the object that is changed next
	fences   int
}

func (p *population) create(w *world, name string, i int) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: asRead(p.make(i))}
	object.SetName(name)
	return w.dynamic.Resource(p.resource).Namespace(w.namespace).Create(w.Context(), object, metav1.CreateOptions{})
}

// fill makes all objects.
func (p *population) fill(w *world) {
	w.Helper()
	var writes errgroup.Group
	writes.SetLimit(16)
	for i := range p.size {
		writes.Go(func() error {
			_, err := p.create(w, p.name(i), i)
			return err
		})
	}
	require.NoError(w, writes.Wait())
}

func (p *population) name(i int) string { return fmt.Sprintf("%06d", i) }

// changed is how many objects a call of change changes in one of three ways.
const changed = 30

// change lets a few objects have each fate: changed, deleted, deleted and made anew with other content, and new. They are others at each call. It
// returns the version of the last write.
func (p *population) change(w *world) string {
	w.Helper()
	client := w.dynamic.Resource(p.resource).Namespace(w.namespace)
	var writes errgroup.Group
	writes.SetLimit(8)
	for range changed {
		i := p.next
		p.next += 3
		writes.Go(func() error {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"},"annotations":{"example.com/note":null}}}`, i)
			_, err := client.Patch(w.Context(), p.name(i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		writes.Go(func() error { return p.remove(w, p.name(i+1)) })
		writes.Go(func() error {
			if err := p.remove(w, p.name(i+2)); err != nil {
				return err
			}
			_, err := p.create(w, p.name(i+2), p.size+i)
			return err
		})
		writes.Go(func() error {
			_, err := p.create(w, fmt.Sprintf("new-%06d", i), 2*p.size+i)
			return err
		})
	}
	require.NoError(w, writes.Wait())
	return p.fence(w)
}

func (p *population) remove(w *world, name string) error {
	now := int64(0)
	return w.dynamic.Resource(p.resource).Namespace(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// fence writes one more object and returns its version: whoever has it has everything before it.
func (p *population) fence(w *world) (version string) {
	w.Helper()
	p.fences++
	name := fmt.Sprintf("fence-%d", p.fences)
	w.insist("a write", func() error {
		object, err := p.create(w, name, 0)
		if apierrors.IsAlreadyExists(err) {
			object, err = w.dynamic.Resource(p.resource).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		}
		if err == nil {
			version = object.GetResourceVersion()
		}
		return err
	})
	return version
}
