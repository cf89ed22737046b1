package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

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

// errNil is an ErrNoVersion with its reason.
var errNil = fmt.Errorf("object is nil: %w", ErrNoVersion)

// Patch changes the held object into the wanted one, and returns the server's object. It sends only
// what differs in JSON, so everything that T does not show stays, as write-W7 says. Without a
// difference it returns held and sends no request. For a resource with a status subresource, the
// server ignores differences in the status: see [Status].
//
// Make the wanted object from a [Copy] of held, so that all other fields are equal. It must not
// share changed maps, slices or pointers with held: Patch cannot see such changes. It returns
// [ErrSame] if held and want are the same object.
func Patch[T metav1.Object](ctx context.Context, client Patcher[T], held, want T) (T, error) {
	d, err := differenceOf(held, want)
	if err != nil {
		return held, failed("patch", held, err)
	}
	return send(ctx, client, held, d)
}

// Status is [Patch] for the status subresource. It writes only the status, and returns
// [ErrNotStatus] if another field differs. The CustomResourceDefinition of a custom resource has to
// name the subresource.
func Status[T metav1.Object](ctx context.Context, client Patcher[T], held, want T) (T, error) {
	d, err := differenceOf(held, want)
	if err != nil {
		return held, failed("patch the status of", held, err)
	}
	for name := range union(d.before, d.after) {
		if name != "status" && !reflect.DeepEqual(d.before[name], d.after[name]) {
			return held, failed("patch the status of", held, fmt.Errorf("%w: %s", ErrNotStatus, name))
		}
	}
	return send(ctx, client, held, d, "status")
}

// send sends a difference of the held object, unless it is none: as a merge patch, or as a JSON patch
// if lists change.
func send[T metav1.Object](ctx context.Context, client Patcher[T], held T, d difference, subresources ...string) (T, error) {
	if reflect.DeepEqual(d.before, d.after) {
		return held, nil // nil beside empty, or quantities in another form
	}
	if held.GetUID() == "" || held.GetResourceVersion() == "" {
		return held, failed("patch", held, ErrNoVersion)
	}
	client, err := in(client, held)
	if err != nil {
		return held, failed("patch", held, err)
	}
	p := &patching[T]{client: client, held: held, difference: d, subresources: subresources}
	written, err := p.send(ctx)
	if len(subresources) > 0 && apierrors.IsNotFound(err) {
		err = fmt.Errorf("the object is gone, or its resource has no subresource %s: %w", subresources[0], err)
	}
	if err != nil {
		return held, failed("patch", held, err)
	}
	ownwrites.Report(ctx, ownwrites.Write{Object: written, Replaced: held.GetResourceVersion()})
	if err := d.checkNulls(written); err != nil {
		return held, failed("patch", held, err)
	}
	return written, nil
}

// sendMetadata sends the difference of a list in the metadata, as [Patch] would.
func sendMetadata[T metav1.Object, X any](ctx context.Context, client Patcher[T], held T, name string, before, after []X) (T, error) {
	d := difference{shape: shapeOf(reflect.TypeOf(held))}
	for _, side := range []struct {
		items []X
		to    *map[string]any
	}{{before, &d.before}, {after, &d.after}} {
		metadata := map[string]any{"uid": held.GetUID()} // so that it is known to exist
		if len(side.items) > 0 {
			metadata[name] = side.items
		}
		data, err := json.Marshal(map[string]any{"metadata": metadata})
		if err == nil {
			*side.to, err = decodeDocument(data)
		}
		if err != nil {
			return held, failed("patch", held, err)
		}
	}
	return send(ctx, client, held, d)
}

// patching is one change of one held object.
type patching[T metav1.Object] struct {
	client Patcher[T]
	held   T
	difference
	subresources []string
}

func (p *patching[T]) send(ctx context.Context) (written T, err error) {
	if !needsOperations(p.shape, p.before, p.after) {
		return p.merge(ctx)
	}
	plan, err := p.plan(nil)
	if err == nil {
		written, err = p.patch(ctx, types.JSONPatchType, p.stated(plan.steps))
		if !isUnapplied(err) {
			return written, err
		}
	} else if !errors.Is(err, errUnclear) {
		return written, err
	}
	return p.review(ctx, plan, err)
}

func (p *patching[T]) merge(ctx context.Context) (T, error) {
	patch := mergePatch(p.shape, p.before, p.after)
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = p.held.GetUID(), p.held.GetResourceVersion()
	return p.patch(ctx, types.MergePatchType, patch)
}

// stated puts the UID and the resource version of held before operations. A failed test would be a
// 422, while the server answers a replaced version that is not its own with a conflict, as for a merge
// patch.
func (p *patching[T]) stated(steps []operation) []operation {
	version, _ := json.Marshal(p.held.GetResourceVersion())
	uid, _ := json.Marshal(p.held.GetUID())
	return append([]operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: version},
		{Op: "replace", Path: "/metadata/uid", Value: uid},
	}, steps...)
}

func (p *patching[T]) patch(ctx context.Context, kind types.PatchType, patch any) (none T, err error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return none, err
	}
	return p.client.Patch(ctx, p.held.GetName(), kind, data, metav1.PatchOptions{}, p.subresources...)
}
