package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/missing"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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
// Make the wanted object from a [Copy] of held, so that all other fields are equal. Its UID and resource
// version do not count: held's are the precondition. It must not share changed maps, slices or pointers
// with held: Patch cannot see such changes. It returns [ErrSame] if held and want are the same object.
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
	if len(subresources) > 0 && apierrors.IsNotFound(err) && !missing.Denial(err) {
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

// patching is one change of one held object.
type patching[T metav1.Object] struct {
	client Patcher[T]
	held   T
	difference
	subresources []string
}

func (p *patching[T]) send(ctx context.Context) (written T, err error) {
	if !needsOperations(p.shape, p.before, p.after, isNullOrList) {
		return p.merge(ctx)
	}
	plan, err := p.plan(nil)
	if err == nil {
		written, err = p.apply(ctx, plan)
		if !isUnapplied(err) && !errors.Is(err, errTooMany) {
			return written, err
		}
	} else if !errors.Is(err, errUnclear) {
		return written, err
	}
	return p.review(ctx, plan, err)
}

// maxOperations is how many operations of a JSON patch a server takes.
const maxOperations = 10_000

// errTooMany means that a plan has more operations.
var errTooMany = fmt.Errorf("change of lists takes more than the %d operations of a JSON patch: change fewer items at once, or Update the object", maxOperations)

// apply sends a plan.
func (p *patching[T]) apply(ctx context.Context, plan *planner) (none T, err error) {
	steps := p.stated(plan.steps)
	if len(steps) > maxOperations {
		return none, errTooMany
	}
	return p.patch(ctx, types.JSONPatchType, steps)
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

// ErrAmbiguous means that held and want do not say whether an item of a list is another item or the
// same one after a change, and that the server's item has members that the struct does not name, which
// the change might lose. The error names the path. Nothing was written.
var ErrAmbiguous = errors.New("it has members that the struct does not name, and may be another item or the same one after a change: " +
	"name the fields in the struct, or Apply or Update the object")

// ErrTransformed means that a list of the held object is not the list that the server has at held's
// resource version. A transform of an informer can cause that. The error names the path. Nothing was
// written.
var ErrTransformed = errors.New("held does not show the server's list, maybe because of an informer's transform: " +
	"read the object with Get and change that, or Apply the list")

// ErrNullDropped means that the server wrote the object, but without a null that is wanted.
var ErrNullDropped = errors.New("the server does not store the null: leave out the member")

// listError is one of the errors above, with its path.
type listError struct {
	at  path
	err error
}

func (e *listError) Error() string { return e.at.String() + ": " + e.err.Error() }

func (e *listError) Unwrap() error { return e.err }

// jsonGetter is a client that returns what T does not show, as a client.Resource does.
type jsonGetter interface {
	GetJSON(ctx context.Context, name string, opts metav1.GetOptions) ([]byte, error)
}

// getter is a client that reads, as generated clients do.
type getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// subresourceGetter is one of client-go's dynamic and metadata clients.
type subresourceGetter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
}

// isUnapplied reports whether a JSON patch failed because an operation did not apply. That 422 names no
// object and no cause. The server also answers 422 if the result has another type, with the cause, or if a
// webhook says so.
func isUnapplied(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	status := answer.Status()
	return status.Code == http.StatusUnprocessableEntity && !missing.Denial(err) &&
		(status.Details == nil || status.Details.Name == "" && len(status.Details.Causes) == 0)
}

// review reads the object after the server could not apply a plan, or because the plan has too many tests.
// If the object has another version, that is a conflict. Otherwise the server's document decides, which
// only some clients return.
func (p *patching[T]) review(ctx context.Context, plan *planner, cause error) (none T, err error) {
	live, document, err := p.read(ctx)
	if err == nil {
		if err := p.checkHeld(live); err != nil {
			return none, err
		}
		if document != nil {
			if plan, err = p.plan(document); err != nil {
				return none, err
			}
			return p.apply(ctx, plan)
		}
		if !needsOperations(p.shape, p.before, p.after, isNull) {
			return p.merge(ctx) // the server has none of these lists
		}
	} else if !errors.Is(err, stream.ErrNoGet) {
		return none, fmt.Errorf("read the object, since only that shows how to change its lists: %w (%v)", err, cause) // a 422 would seem permanent
	}
	if errors.Is(cause, errTooMany) {
		return none, cause
	}
	at := plan.unclear
	if len(at) == 0 {
		at = plan.lists
	}
	texts := make([]string, len(at))
	for i := range at {
		texts[i] = at[i].String()
	}
	return none, fmt.Errorf("%s: %w (%w)", strings.Join(texts, ", "), ErrAmbiguous, cause)
}

// read reads the object, and also returns its document if the client shows all of it.
func (p *patching[T]) read(ctx context.Context) (live T, document map[string]any, err error) {
	switch client := p.client.(type) {
	case jsonGetter:
		data, err := client.GetJSON(ctx, p.held.GetName(), metav1.GetOptions{})
		if err != nil {
			return live, nil, err
		}
		live = reflect.New(reflect.TypeOf(p.held).Elem()).Interface().(T)
		if err := utiljson.Unmarshal(data, live); err != nil { // as its client does
			return live, nil, discreet.Error(err)
		}
		document, err = decodeDocument(data)
		return live, document, err
	case getter[T]:
		live, err = client.Get(ctx, p.held.GetName(), metav1.GetOptions{})
	case subresourceGetter[T]:
		live, err = client.Get(ctx, p.held.GetName(), metav1.GetOptions{})
	default:
		err = stream.ErrNoGet
	}
	if _, showsAll := any(live).(runtime.Unstructured); err == nil && showsAll {
		document, err = documentOf(p.shape, live)
	}
	return live, document, err
}

// checkHeld returns an error unless the server's object is the one and the version that is held, and has
// the lists that held shows.
func (p *patching[T]) checkHeld(live T) error {
	if live.GetUID() != p.held.GetUID() || live.GetResourceVersion() != p.held.GetResourceVersion() {
		resource := schema.GroupResource{Resource: fmt.Sprintf("%T", p.held)}
		return apierrors.NewConflict(resource, p.held.GetName(), fmt.Errorf("it has the version %s and the UID %s, and the held one %s and %s: reconcile the key again",
			live.GetResourceVersion(), live.GetUID(), p.held.GetResourceVersion(), p.held.GetUID()))
	}
	document, err := documentOf(p.shape, live)
	if err != nil {
		return err
	}
	return checkLists(nil, p.shape, p.before, p.after, document)
}

// checkLists compares the lists that change with those of the server.
func checkLists(at path, s shape, before, after, live map[string]any) error {
	for m := range s.changes(before, after) {
		old, _ := m.old.(map[string]any)
		if value, isObject := m.value.(map[string]any); isObject && (old != nil || !m.had) {
			below, _ := live[m.name].(map[string]any)
			if err := checkLists(at.with(m.name), m.shape, old, value, below); err != nil {
				return err
			}
		}
		current, _ := live[m.name].([]any)
		if items, _, ok := m.lists(); ok && len(items)+len(current) > 0 && !reflect.DeepEqual(items, current) {
			return &listError{at.with(m.name), ErrTransformed}
		}
	}
	return nil
}

// checkNulls reports a wanted null that the server's answer does not have. Otherwise each call would
// send it again.
func (d *difference) checkNulls(written metav1.Object) error {
	if !contains(d.after, isNull) {
		return nil
	}
	document, err := documentOf(d.shape, written)
	if err != nil {
		return err
	}
	if lost := lostNull(nil, d.before, d.after, document); lost != nil {
		return &listError{lost, ErrNullDropped}
	}
	return nil
}
