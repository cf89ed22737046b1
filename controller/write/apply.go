package write

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyOption configures [Apply] and [ApplyChanged].
type ApplyOption func(*metav1.ApplyOptions)

// Force takes over fields that other managers have, so that they are no conflict. Kubernetes
// advises it for controllers, whose configuration is what the fields have to be.
func Force() ApplyOption { return func(o *metav1.ApplyOptions) { o.Force = true } }

// Apply applies a configuration by server-side apply, in the name of a field manager, and
// returns the object as the server does. The object is created if it does not exist. A
// field that another manager has is a conflict, unless with [Force]. The server writes
// nothing if nothing changes, but it is asked: see [ApplyChanged].
//
//	write.Apply(ctx, clientset.AppsV1().Deployments("ns"), applyapps.Deployment("web", "ns").WithSpec(...), "foos", write.Force())
//
// With a [Resource] the configuration is the object: its JSON has the fields that are
// meant, so those that are not must be left out when they are zero.
func Apply[T metav1.Object, C any](ctx context.Context, client Applier[T, C], want C, manager string, opts ...ApplyOption) (T, error) {
	how := metav1.ApplyOptions{FieldManager: manager}
	for _, opt := range opts {
		opt(&how)
	}
	applied, err := client.Apply(ctx, want, how)
	if err != nil {
		return applied, fmt.Errorf("apply as %s: %w", manager, err) // there is no telling the name of a C
	}
	controller.Wrote(ctx, applied)
	return applied, nil
}

// ApplyChanged is [Apply] for an object that is held: it asks the server only if what the
// manager has applied to it is something else than what is wanted. What that is, extract
// says, which is generated for each kind:
//
//	write.ApplyChanged(ctx, deployments, held, applyapps.ExtractDeployment, want, "foos")
//
// It reads the managed fields of the object, so a cache must not leave them out.
func ApplyChanged[T metav1.Object, C any](ctx context.Context, client Applier[T, C], held T, extract func(T, string) (C, error), want C, manager string, opts ...ApplyOption) (T, error) {
	have, err := extract(held, manager)
	if err != nil {
		return held, failed("apply", held, err)
	}
	if equality.Semantic.DeepEqual(have, want) {
		return held, nil
	}
	return Apply(ctx, client, want, manager, opts...)
}
