package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

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

// isUnapplied reports whether a JSON patch failed before the server validated the object: an operation
// did not apply. That 422 names no object.
func isUnapplied(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	status := answer.Status()
	return status.Code == http.StatusUnprocessableEntity && (status.Details == nil || status.Details.Name == "")
}

// review reads the object after the server could not apply a plan. If the object has another version,
// that is a conflict. Otherwise the server's document decides, which only some clients return.
func (p *patching[T]) review(ctx context.Context, plan *planner, cause error) (none T, err error) {
	switch client := p.client.(type) {
	case jsonGetter:
		data, err := client.GetJSON(ctx, p.held.GetName(), metav1.GetOptions{})
		if err != nil {
			return none, err
		}
		live, err := p.sameVersion(data)
		if err != nil {
			return none, err
		}
		if plan, err = p.plan(live); err != nil {
			return none, err
		}
		return p.patch(ctx, types.JSONPatchType, p.stated(plan.steps))
	case getter[T]:
		live, err := client.Get(ctx, p.held.GetName(), metav1.GetOptions{})
		if err != nil {
			return none, err
		}
		if err := p.checkVersion(live); err != nil {
			return none, err
		}
		if err := p.checkLists(live); err != nil {
			return none, err
		}
		if !replacesLists(p.shape, p.before, p.after) {
			return p.merge(ctx) // the server has none of these lists
		}
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

// sameVersion returns a document of the server, if it is the object and the version that is held, and
// has the lists that held shows.
func (p *patching[T]) sameVersion(data []byte) (map[string]any, error) {
	shown := reflect.New(reflect.TypeOf(p.held).Elem()).Interface().(T)
	if err := json.Unmarshal(data, shown); err != nil {
		return nil, err
	}
	if err := p.checkVersion(shown); err != nil {
		return nil, err
	}
	if err := p.checkLists(shown); err != nil {
		return nil, err
	}
	return decodeDocument(data)
}

func (p *patching[T]) checkVersion(live T) error {
	if live.GetUID() == p.held.GetUID() && live.GetResourceVersion() == p.held.GetResourceVersion() {
		return nil
	}
	resource := schema.GroupResource{Resource: fmt.Sprintf("%T", p.held)}
	return apierrors.NewConflict(resource, p.held.GetName(), fmt.Errorf("it has the version %s and the UID %s, and the held one %s and %s: reconcile the key again",
		live.GetResourceVersion(), live.GetUID(), p.held.GetResourceVersion(), p.held.GetUID()))
}

// checkLists compares the lists that change with those of the server.
func (p *patching[T]) checkLists(live T) error {
	document, err := documentOf(p.shape, live)
	if err != nil {
		return err
	}
	return checkLists(nil, p.shape, p.before, p.after, document)
}

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
	if !hasNull(d.after) {
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
