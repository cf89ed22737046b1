package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrSame means that [Patch] or [Status] was given one object twice: it was changed where it
// is held, so that the cache is wrong, and nothing can be compared.
var ErrSame = errors.New("the object that is wanted is the one that is held: change a Copy of it")

// ErrNotStatus means that [Status] was to change something else than the status.
var ErrNotStatus = errors.New("something else than the status differs, which the server would ignore: use Patch for it")

// Patch makes the object that is held the one that is wanted, by a merge patch of what
// differs in JSON, and returns it as the server does. If nothing differs it returns what is
// held, and asks nothing. Of a resource that has a status of its own, the server ignores
// what differs in the status: see [Status].
//
// What is wanted is to be made from a [Copy] of what is held, so that all that it does not
// mean to change is the same. It must not share maps, slices or pointers that were changed:
// of such changes Patch sees nothing. It returns [ErrSame] if the two are one object.
func Patch[T metav1.Object](ctx context.Context, client Patcher[T], held, want T) (T, error) {
	patch, err := difference(held, want)
	if err != nil {
		return held, failed("patch", held, err)
	}
	return send(ctx, client, held, patch)
}

// Status is [Patch] for the status subresource. It writes the status alone, and returns
// [ErrNotStatus] if something else differs.
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

// send sends a merge patch of the object that is held, if there is something in it.
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
	written, err := client.Patch(ctx, held.GetName(), types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return held, failed("patch", held, err)
	}
	controller.Wrote(ctx, written)
	return written, nil
}
