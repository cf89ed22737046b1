package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrSame means that [Patch] or [Status] got the same object twice: the cached object was changed
// in place, so the cache is wrong, and there is nothing to compare.
var ErrSame = errors.New("the object that is wanted is the one that is held: change a Copy of it")

// ErrNotStatus means that held and want of [Status] differ outside of the status.
var ErrNotStatus = errors.New("something else than the status differs, which the server would ignore: use Patch for it")

// Patch changes the held object into the wanted one, by a merge patch of their difference in JSON,
// and returns the server's object. Without a difference it returns held and sends no request. For a
// resource with a status subresource, the server ignores differences in the status: see [Status].
//
// Make the wanted object from a [Copy] of held, so that all other fields are equal. It must not
// share changed maps, slices or pointers with held: Patch cannot see such changes. It returns
// [ErrSame] if held and want are the same object.
func Patch[T metav1.Object](ctx context.Context, client Patcher[T], held, want T) (T, error) {
	patch, err := difference(held, want)
	if err != nil {
		return held, failed("patch", held, err)
	}
	return send(ctx, client, held, patch)
}

// Status is [Patch] for the status subresource. It writes only the status, and returns
// [ErrNotStatus] if another field differs. The CustomResourceDefinition of a custom resource has to
// name the subresource.
func Status[T metav1.Object](ctx context.Context, client Patcher[T], held, want T) (T, error) {
	patch, err := difference(held, want)
	if err != nil {
		return held, failed("patch the status of", held, err)
	}
	for field := range patch {
		if field != "status" {
			return held, failed("patch the status of", held, fmt.Errorf("%w: %s", ErrNotStatus, field))
		}
	}
	return send(ctx, client, held, patch, "status")
}

// send sends a merge patch for the held object, unless the patch is empty.
func send[T metav1.Object](ctx context.Context, client Patcher[T], held T, patch map[string]any, subresources ...string) (T, error) {
	if len(patch) == 0 {
		return held, nil
	}
	if held.GetUID() == "" || held.GetResourceVersion() == "" {
		return held, failed("patch", held, ErrNoVersion)
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = held.GetUID(), held.GetResourceVersion()
	data, err := json.Marshal(patch)
	if err != nil {
		return held, failed("patch", held, err)
	}
	client, err = in(client, held)
	if err != nil {
		return held, failed("patch", held, err)
	}
	written, err := client.Patch(ctx, held.GetName(), types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	if len(subresources) > 0 && apierrors.IsNotFound(err) {
		err = fmt.Errorf("the object is gone, or its resource has no subresource %s: %w", subresources[0], err)
	}
	if err != nil {
		return held, failed("patch", held, err)
	}
	ownwrites.Report(ctx, ownwrites.Write{Object: written, Replaced: held.GetResourceVersion()})
	return written, nil
}
