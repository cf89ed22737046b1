package reflectortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Create stores an object without HTTP, and sets the fields in obj that the server sets. It is for
// the test itself: unlike a client it writes the status too.
//
// obj is a non-nil pointer to a built-in type or to a registered prototype's type, or an
// *unstructured.Unstructured. That also holds for the methods below.
func (s *Server) Create(obj metav1.Object) error {
	res, in, err := s.convert(obj)
	if err != nil {
		return err
	}
	rec, err := s.createObject(res, obj.GetNamespace(), in, writing{manager: directManager})
	if err != nil {
		return err
	}
	return rec.in(res).into(obj)
}

// Update replaces an object, including its status. As for a client, a resource version in obj must
// be the current one. Without one, Update replaces any version.
func (s *Server) Update(obj metav1.Object) error {
	res, in, err := s.convert(obj)
	if err != nil {
		return err
	}
	rec, err := s.updateObject(res, in)
	if err != nil {
		return err
	}
	return rec.in(res).into(obj)
}

// updateObject replaces a whole object. Without a version in in, it replaces any version.
func (s *Server) updateObject(res *resource, in object) (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	anyVersion := in.GetResourceVersion() == ""
	return s.updateLocked(res, in.GetNamespace(), in.GetName(), writing{parts: whole, manager: directManager}, func(prior *record) (object, error) {
		if anyVersion {
			in.SetResourceVersion(fmt.Sprint(prior.version))
		}
		return in, checkUID(prior, in)
	})
}

// Delete deletes the object that obj names, at once unless finalizers hold it. A Namespace always has one,
// so it is only marked. Without a policy, Delete orphans no dependents, also if obj is a Job, whose deletion
// by a client without a policy does. policy is at most one, as of kubectl delete --cascade; the error of an unknown one
// is that of an API server.
func (s *Server) Delete(obj metav1.Object, policy ...metav1.DeletionPropagation) error {
	res, err := s.registry().forObject(obj)
	if err != nil {
		return err
	}
	options := metav1.NewDeleteOptions(0)
	switch {
	case len(policy) > 1:
		return errors.New("reflectortest: Delete takes one policy at most")
	case len(policy) == 1:
		options.PropagationPolicy = &policy[0]
	case res.orphans:
		options.PropagationPolicy = new(metav1.DeletePropagationBackground)
	}
	if err := validate(options); err != nil {
		return err
	}
	_, _, err = s.deleteObject(res, obj.GetNamespace(), obj.GetName(), options, false)
	return err
}

// Get fills obj with the stored object of its namespace and name.
func (s *Server) Get(obj metav1.Object) error {
	res, err := s.registry().forObject(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	rec, ok := res.history.current.Get(res.key(obj.GetNamespace(), obj.GetName()))
	s.mu.Unlock()
	if !ok {
		return apierrors.NewNotFound(res.gr(), obj.GetName())
	}
	return rec.in(res).into(obj)
}

// WaitFor calls done at once, and again after changes of the stored objects, until it returns true.
// done reads the server with Get and List. It can miss states between two changes. WaitFor returns
// an error if the context ends first.
func (s *Server) WaitFor(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		if s.written == nil {
			s.written = make(chan struct{})
		}
		written := s.written
		s.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-written:
		case <-ctx.Done():
			return fmt.Errorf("reflectortest: the awaited state has not come by version %d: %w", s.ResourceVersion(), context.Cause(ctx))
		}
	}
}

// wakeLocked wakes the callers of WaitFor and the garbage collector after a change. It needs mu.
func (s *Server) wakeLocked() {
	if s.written != nil {
		close(s.written)
		s.written = nil
	}
	s.uncollected = true
	select {
	case s.garbage <- struct{}{}:
	default: // it has not taken the last one, or there is none
	}
}

// Seed creates many objects. Unlike Create it does not write back into them. Use it to fill a large
// cluster.
func (s *Server) Seed(objects iter.Seq[metav1.Object]) error {
	for obj := range objects {
		res, in, err := s.convert(obj)
		if err != nil {
			return err
		}
		if _, err = s.createObject(res, in.GetNamespace(), in, writing{manager: directManager}); err != nil {
			return err
		}
	}
	return nil
}

// List returns the stored objects of type T in a namespace, or in all namespaces if it is empty, in
// the order of a list. T is a pointer type, such as *corev1.Pod, or a pointer to a prototype's
// type.
func List[T metav1.Object](s *Server, namespace string) ([]T, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("reflectortest: List of %s: name a pointer type", t)
	}
	res, err := s.registry().forObject(reflect.New(t.Elem()).Interface().(T))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	p := cut(res.history.current.Copy(), s.version, selection{namespace: namespace}, "", 0)
	s.mu.Unlock()
	items := make([]T, len(p.records))
	for i, rec := range p.records {
		items[i] = reflect.New(t.Elem()).Interface().(T)
		if err := rec.into(items[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// ListKind returns the objects of a kind in a namespace, or in all namespaces if it is empty, in the
// order of a list. It is for kinds without a Go type; see [List] for others.
func (s *Server) ListKind(gvk schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	named := &unstructured.Unstructured{}
	named.SetGroupVersionKind(gvk)
	res, err := s.registry().forObject(named)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	p := cut(res.history.current.Copy(), s.version, selection{resource: res, namespace: namespace}, "", 0)
	s.mu.Unlock()
	items := make([]*unstructured.Unstructured, len(p.records))
	for i, rec := range p.records {
		items[i] = &unstructured.Unstructured{}
		if err := rec.into(items[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// convert makes a copy of a caller's object in its internal form.
func (s *Server) convert(obj metav1.Object) (*resource, object, error) {
	res, err := s.registry().forObject(obj)
	if err != nil {
		return nil, nil, err
	}
	if same, ok := obj.(object); ok && res.typed {
		if _, unstructured := obj.(runtime.Unstructured); !unstructured {
			in := same.DeepCopyObject().(object)
			in.GetObjectKind().SetGroupVersionKind(emptyKind)
			return res, in, res.checkJSON(in)
		}
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, nil, err
	}
	// A prototype's value may omit its kind: its type identifies it.
	if b, err = res.withKind(b); err != nil {
		return nil, nil, err
	}
	in, err := res.decodeJSON(b, false)
	return res, in, err
}

func (res *resource) withKind(b []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	fields["kind"] = json.RawMessage(strconv.Quote(res.Kind))
	fields["apiVersion"] = json.RawMessage(strconv.Quote(res.apiVersion()))
	return json.Marshal(fields)
}

// into overwrites a caller's object with the record.
func (rec *record) into(obj metav1.Object) error {
	v := reflect.ValueOf(obj).Elem()
	fresh := reflect.New(v.Type())
	if _, unstructured := obj.(runtime.Unstructured); rec.resource.typed && !unstructured {
		stored := rec.object()
		v.Set(reflect.ValueOf(stored).Elem())
		return nil
	}
	if err := utiljson.Unmarshal(encoding{}.appendObject(nil, rec), fresh.Interface()); err != nil {
		return fmt.Errorf("reflectortest: %s %s does not decode into %T: %w", rec.resource.Kind, rec.key, obj, err)
	}
	v.Set(fresh.Elem())
	return nil
}
