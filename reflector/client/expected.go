package client

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MismatchError means that the server sent an object of another kind, API group, namespace or name
// than the client requested. The reflector stores nothing more from that list or watch, and lists
// again after a back-off. After another kind, the Resource first asks discovery which kind the
// resource has by now, or which resource the kind has, at most once in ten seconds.
type MismatchError struct {
	// What names the difference: "kind", "API group", "namespace" or "name".
	What string
	// Want is the requested value, and Got is the value that the server sent.
	Want, Got string
}

// Error names both.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("server sent an object whose %s is %q, want %q: the client and the server do not mean the same resource", e.What, e.Got, e.Want)
}

// expected checks whether objects belong to a resource. It accepts other versions of the same
// group, because the object states its version.
type expected struct {
	version schema.GroupVersion // empty if unknown
	// generated means that T is a generated type, so its lists are named after the kind. A custom
	// resource may give its lists any name.
	generated bool
	partial   bool   // T is PartialObjectMetadata, to which the server may convert objects
	given     string // the kind from the caller or from T's name; empty if unknown
	learned   *learned
}

// learned is what the answers of the server say about the kind of a resource. All views share it.
type learned struct {
	kind atomic.Pointer[string] // that of the first object; nil before
	// doubts counts the answers since the last object of the expected kind that were of another
	// kind, or refused a write as malformed. A definition may have been deleted and created with
	// another kind for the same plural.
	doubts atomic.Int32

	mu    sync.Mutex // protects asked
	asked time.Time  // when discovery was last asked for the kind of the resource
}

// rested reports whether discovery may be asked for the kind, and records that it is.
func (l *learned) rested() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return rested(&l.asked)
}

// expect sets the expectations before the first answer. A generated type has the name of its kind.
// The resource name shows whether the resource is of that kind.
func (x *expected) expect(version schema.GroupVersion, resource string, t reflect.Type, generated bool) {
	x.version = version
	x.partial = t == reflect.TypeFor[metav1.PartialObjectMetadata]()
	if x.partial || !generated {
		return
	}
	if plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(t.Name())); plural.Resource == resource {
		x.generated, x.given = true, t.Name()
	}
}

// check returns an error if a kind is not the expected one. It accepts an empty kind.
func (x *expected) check(kind metav1.TypeMeta) error {
	group, _, named := strings.Cut(kind.APIVersion, "/")
	if !named {
		group = ""
	}
	if x.partial && kind.Kind == "PartialObjectMetadata" && group == metav1.GroupName {
		return nil
	}
	if kind.APIVersion != "" && x.version.Version != "" && group != x.version.Group {
		return &MismatchError{What: "API group", Want: x.version.Group, Got: cut.Text(group, cut.MaxName)}
	}
	if kind.Kind == "" {
		return nil
	}
	want := x.given
	if want == "" && kind.Kind != "Status" && len(kind.Kind) <= cut.MaxName {
		learned := x.learned.kind.Load()
		if learned == nil {
			x.learned.kind.CompareAndSwap(nil, &kind.Kind)
			learned = x.learned.kind.Load()
		}
		if learned != nil {
			want = *learned
		}
	}
	if !strings.EqualFold(want, kind.Kind) {
		x.learned.doubts.Add(1)
		return &MismatchError{What: "kind", Want: want, Got: cut.Text(kind.Kind, cut.MaxName)}
	}
	if x.learned.doubts.Load() != 0 {
		x.learned.doubts.Store(0)
	}
	return nil
}

// checkList returns an error if a list is not of the expected kind. bare means that the items do
// not state their kind; the list then determines it.
func (x *expected) checkList(list metav1.TypeMeta, bare bool) error {
	if list.Kind == "List" {
		return nil
	}
	kind := metav1.TypeMeta{APIVersion: list.APIVersion}
	if item, ok := strings.CutSuffix(list.Kind, "List"); ok && (bare || x.generated || x.partial && item == "PartialObjectMetadata") {
		kind.Kind = item
	}
	return x.check(kind)
}

func (r *Resource[T]) checkNamespace(namespace string) error {
	if r.namespace != "" && namespace != r.namespace {
		return &MismatchError{What: "namespace", Want: r.namespace, Got: cut.Text(namespace, cut.MaxName)}
	}
	return nil
}
