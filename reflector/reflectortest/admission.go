package reflectortest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// An Admission is a write that a hook of [WithAdmission] admits, changes or denies.
type Admission[T metav1.Object] struct {
	Operation   admissionv1.Operation // Create, Update or Delete; an apply and a patch are one of the first two
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string // empty if the server will generate it
	DryRun      bool
	// Server is the server of the write. A hook that reads other objects reads them here, with Get and List:
	// a client of the program under test may have to wait until the write is done.
	Server *Server
	Object T // the new state, which the hook may change; the zero value for Delete
	Old    T // the stored state; the zero value for Create
}

// WithAdmission makes the server call hook before it stores a write of the kind of T: a built-in
// type, the type of a prototype, or *unstructured.Unstructured for all kinds. It stands for the
// mutating and the validating webhooks of an operator:
//
//	reflectortest.WithAdmission(func(ctx context.Context, a *reflectortest.Admission[*Site]) error {
//		if a.Operation == admissionv1.Delete {
//			return nil
//		}
//		if err := webhook.Default(ctx, a.Object); err != nil {
//			return err
//		}
//		_, err := webhook.ValidateCreate(ctx, a.Object)
//		return err
//	})
//
// T may lack fields of the object, which stay, except in a list that the hook changes or an object that it
// removes.
//
// The hook gets the object with its defaults, before the server generates its name and checks it.
// It is called for dry runs, for the writes of the test's own methods such as [Server.Create], and
// for those of the garbage collector, too; if the stored object changes meanwhile, it is called
// again. The methods of the test write whole objects, the status included, so a hook for the objects themselves sees all
// that a test, or a player of a simulation, writes by them. Several hooks follow each other in the order of the
// options. Without subresources a hook is for the objects themselves, and with "status" for writes to their status only.
//
// An error denies the write: 403 Forbidden with the message of a webhook's denial, or the error
// itself if it is an API error, with code 400 if its own is below. The server holds no lock during the
// call, so that the hook may read from Admission.Server. Calls may be concurrent. ctx ends when the server is closed.
func WithAdmission[T metav1.Object](hook func(context.Context, *Admission[T]) error, subresources ...string) Option {
	if len(subresources) == 0 {
		subresources = []string{""}
	}
	t := reflect.TypeFor[T]()
	return optionFunc(func(o *options) {
		if t.Kind() != reflect.Pointer {
			o.err = errors.Join(o.err, fmt.Errorf("reflectortest: WithAdmission of %s: name a pointer type", t))
			return
		}
		a := &admission{subresources: subresources, call: func(ctx context.Context, w *admitted) error { return callHook(ctx, hook, w) }}
		prototype := reflect.New(t.Elem()).Interface().(metav1.Object)
		if _, all := prototype.(runtime.Unstructured); !all {
			a.kind = prototype
		}
		o.admissions = append(o.admissions, a)
	})
}

// admission is a hook.
type admission struct {
	kind         metav1.Object // nil for all kinds
	subresources []string
	call         func(context.Context, *admitted) error
}

// admitted is a write on its way through the hooks, which replace its object.
type admitted struct {
	operation       admissionv1.Operation
	resource        *resource
	subresource     string
	namespace, name string
	dryRun          bool
	server          *Server
	object, old     object // nil for a deletion, and for a creation
}

// sent returns the object as the client sent it, or nil if no hook has changed it.
func (w *admitted) sent(obj object) (*record, error) {
	if w.object == obj {
		return nil, nil
	}
	return newRecord(w.resource, obj, 0)
}

// resolveAdmissions finds the resources of the hooks.
func (s *Server) resolveAdmissions() error {
	for _, hook := range s.options.admissions {
		a := hook.(*admission)
		if a.kind == nil {
			for _, r := range s.registry().ordered {
				r.admissions = append(r.admissions, a)
			}
			s.definitions.admissions = append(s.definitions.admissions, a)
			continue
		}
		r, err := s.registry().forObject(a.kind)
		if err != nil {
			return err
		}
		r.admissions = append(r.admissions, a)
	}
	return nil
}

// admitLocked calls the hooks of a write, if there are any, without the lock. They may replace
// w.object. It needs mu. Afterwards the stored objects may be others.
func (s *Server) admitLocked(w *admitted) error {
	var hooks []*admission
	for _, a := range w.resource.admissions {
		if slices.Contains(a.subresources, w.subresource) {
			hooks = append(hooks, a)
		}
	}
	if len(hooks) == 0 {
		return nil
	}
	w.server = s
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, a := range hooks {
		if err := a.call(s.running, w); err != nil {
			return denied(err)
		}
		if w.object != nil {
			if err := s.fillBuiltin(w.resource, w.object); err != nil {
				return err
			}
		}
	}
	return nil
}

// denied is the answer to a write that a hook denies. As in the real server, its code is one of an error.
func denied(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		denial := status.Status()
		if denial.Code >= http.StatusBadRequest {
			return err
		}
		denial.Status, denial.Code = metav1.StatusFailure, http.StatusBadRequest
		return &apierrors.StatusError{ErrStatus: denial}
	}
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "reflectortest" denied the request: `+err.Error())
}

// callHook calls a hook with the objects in the form of T, and sets what it changed in w.object. T
// may lack fields of the object, which stay.
func callHook[T metav1.Object](ctx context.Context, hook func(context.Context, *Admission[T]) error, w *admitted) error {
	a := &Admission[T]{
		Operation: w.operation, Resource: w.resource.gvr(), Subresource: w.subresource, Namespace: w.namespace, Name: w.name, DryRun: w.dryRun, Server: w.server,
	}
	if w.old != nil {
		if _, err := w.resource.convertTo(w.old, &a.Old); err != nil {
			return notDecoded[T](w, err)
		}
	}
	if w.object == nil {
		return hook(ctx, a)
	}
	whole, err := w.resource.convertTo(w.object, &a.Object)
	if err != nil {
		return notDecoded[T](w, err)
	}
	before, err := json.Marshal(a.Object)
	if err != nil {
		return err
	}
	if err := hook(ctx, a); err != nil {
		return err
	}
	after, err := json.Marshal(a.Object)
	if err != nil {
		return err
	}
	var was, is, all map[string]any
	if err := errors.Join(readExactly(before, &was), readExactly(after, &is), readExactly(whole, &all)); err != nil {
		return err
	}
	switch {
	case is == nil:
		return errors.New("the hook left no object")
	case reflect.DeepEqual(was, is):
		return nil
	}
	setChanges(all, was, is)
	if whole, err = json.Marshal(all); err != nil {
		return err
	}
	w.object, err = w.resource.decodeFields(whole, false)
	return err
}

// readExactly decodes JSON, and keeps all digits of its numbers.
func readExactly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// setChanges makes the changes between two objects in another one. A merge patch could not set a null.
func setChanges(in, before, after map[string]any) {
	for name := range before {
		if _, stays := after[name]; !stays {
			delete(in, name)
		}
	}
	for name, value := range after {
		old, had := before[name]
		if had && reflect.DeepEqual(old, value) {
			continue
		}
		inner, isObject := in[name].(map[string]any)
		was, wasObject := old.(map[string]any)
		is, stays := value.(map[string]any)
		if isObject && stays && (wasObject || !had) { // not had: T omits a zero struct
			setChanges(inner, was, is)
			continue
		}
		in[name] = value
	}
}

// notDecoded is no denial, so that nobody looks for it in the hook.
func notDecoded[T any](w *admitted, err error) error {
	return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError,
		fmt.Sprintf("reflectortest: WithAdmission: %s %s/%s does not decode into %s: %v", w.resource.gr(), w.namespace, w.name, reflect.TypeFor[T](), err))
}

// convertTo decodes an object into a new value of the type that into points to, and returns its JSON.
func (res *resource) convertTo(obj object, into any) ([]byte, error) {
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if b, err = res.withKind(b); err != nil {
		return nil, err
	}
	return b, utiljson.Unmarshal(b, into)
}
