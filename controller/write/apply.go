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

// Force takes over fields of other managers, which are then no conflict. Kubernetes advises it for
// controllers, because their configuration defines the fields.
func Force() ApplyOption { return func(o *metav1.ApplyOptions) { o.Force = true } }

// Apply applies a configuration by server-side apply, in the name of a field manager, and returns
// the server's object. The server creates the object if it does not exist. A field of another
// manager is a conflict, unless with [Force]. The server writes nothing if nothing changes, but
// Apply still sends the request: see [ApplyChanged].
//
//	write.Apply(ctx, clientset.AppsV1().Deployments("ns"), applyapps.Deployment("web", "ns").WithSpec(...), "foos", write.Force())
//
// With a [Resource] the configuration is the object: its JSON must contain only the intended
// fields, so other fields must be omitted when they are zero.
func Apply[T metav1.Object, C any](ctx context.Context, client Applier[T, C], want C, manager string, opts ...ApplyOption) (T, error) {
	how := metav1.ApplyOptions{FieldManager: manager}
	for _, opt := range opts {
		opt(&how)
	}
	applied, err := client.Apply(ctx, want, how)
	if err != nil {
		return applied, fmt.Errorf("apply as %s: %w", manager, err) // the name in a C is not accessible
	}
	controller.Wrote(ctx, applied)
	return applied, nil
}

// ApplyChanged is [Apply] for a held object. It sends the request only if the fields that the
// manager has applied differ from the wanted ones. extract returns the applied fields; it is
// generated for each kind:
//
//	write.ApplyChanged(ctx, deployments, held, applyapps.ExtractDeployment, want, "foos")
//
// It reads the managed fields of the object, so a cache must not drop them.
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
