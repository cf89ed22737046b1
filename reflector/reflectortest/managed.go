package reflectortest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// The server computes managedFields from an object's first apply on, because an update with them
// costs ten times as much. Each record names its writer, so that the first apply can repeat the
// writes before it from the history.

// directManager is the field manager of the methods Create, Update and Seed of Server.
const directManager = "reflectortest"

// writing is how a request writes an object.
type writing struct {
	parts       parts
	subresource string
	manager     string // "" for a write of the server itself, which owns no fields
	applied     bool   // managedFields are up to date
	dryRun      bool
	sent        *record // what the client wrote, if a hook of WithAdmission has changed it
}

// author is the part of a writing that its record keeps.
type author struct {
	manager unique.Handle[string]
	at      int64 // in seconds since 1970
	status  bool  // the write was to the status subresource
	tracked bool  // the object's managedFields are kept up to date
	sent    *record
}

func (w writing) author(tracked bool) author {
	return author{manager: unique.Make(w.manager), at: time.Now().Unix(), status: w.parts == statusOnly, tracked: tracked, sent: w.sent}
}

// subresource is the subresource that was written.
func (a author) subresource() string {
	if a.status {
		return "status"
	}
	return ""
}

// fieldManager returns the field manager for writes to the resource or to its subresource. It needs
// the server's mu.
func (res *resource) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	if m := res.fieldManagers[subresource]; m != nil {
		return m, nil
	}
	types, err := res.types()
	if err != nil {
		return nil, err
	}
	newManager := managedfields.NewDefaultFieldManager
	if !res.typed {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	gvk := res.gvk()
	// The last argument names the fields that a write cannot set, in types of structured-merge-diff,
	// whose major version differs between the versions of client-go that this package supports. So
	// keepStatus and settable leave these fields out of what the manager gets.
	m, err := newManager(types, converter{res.defined}, converter{}, res, gvk, gvk.GroupVersion(), subresource, nil)
	if err != nil {
		return nil, err
	}
	if res.fieldManagers == nil {
		res.fieldManagers = map[string]*managedfields.FieldManager{}
	}
	res.fieldManagers[subresource] = m
	return m, nil
}

// types returns the schema of the kind for field managers. It needs the server's mu.
func (res *resource) types() (types managedfields.TypeConverter, err error) {
	if res.typed {
		return builtinTypes(), nil
	}
	if res.defined != nil {
		return res.defined.types()
	}
	if res.converter == nil {
		res.converter, err = typeConverter(res.Resource)
	}
	return res.converter, err
}

// builtinTypes parses the schemas of the built-in kinds at its first call.
var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// New is for the field manager.
func (res *resource) New(schema.GroupVersionKind) (runtime.Object, error) {
	return res.emptyUnstructured(), nil
}

// converter converts between the versions of a followed definition. Of other kinds each version is a
// collection of its own. It sets no defaults.
type converter struct{ defined *defined }

func (converter) Convert(_, _, _ any) error {
	return runtime.NewNotRegisteredErrForTarget("reflectortest", nil, nil)
}

func (c converter) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	wanted, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk})
	switch {
	case ok && wanted == gvk:
		return in, nil
	case !ok || c.defined == nil || !c.defined.hasVersion(wanted.Version):
		return nil, runtime.NewNotRegisteredGVKErrForTarget("reflectortest", gvk, to)
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(wanted)
	return out, nil
}

func (converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (converter) Default(runtime.Object) {}

func (res *resource) emptyUnstructured() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(res.gvk())
	return u
}

// toUnstructured returns a copy of obj.
func (res *resource) toUnstructured(obj object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if !res.typed {
		u.Object = runtime.DeepCopyJSON(content(obj))
		return u, nil
	}
	var err error
	if u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(res.gvk())
	return u, nil
}

// keepStatus gives next the status of live if the status is a subresource. A write to another part
// cannot change it, so that it takes no ownership of it. A write to the status needs no counterpart:
// it is made of the stored object and the new status alone.
func (res *resource) keepStatus(next, live *unstructured.Unstructured, subresource string) {
	if !res.Status || subresource == "status" {
		return
	}
	delete(next.Object, "status")
	if status, ok := live.Object["status"]; ok {
		next.Object["status"] = status
	}
}

// settable returns the part of an applied configuration that its request can set: everything but the
// status, or, for the status subresource, everything but metadata and spec. The rest must still have
// the right types. It needs the server's mu.
func (res *resource) settable(applied *unstructured.Unstructured, subresource string) (*unstructured.Unstructured, error) {
	config := &unstructured.Unstructured{Object: maps.Clone(applied.Object)}
	switch {
	case subresource == "status":
		delete(config.Object, "spec")
		if metadata, ok := config.Object["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			maps.DeleteFunc(metadata, func(field string, _ any) bool { return !slices.Contains(checkedMetadata, field) })
			config.Object["metadata"] = metadata
		}
	case res.Status:
		delete(config.Object, "status")
	}
	if applied.GroupVersionKind() != res.gvk() || len(applied.GetManagedFields()) > 0 {
		return config, nil // the field manager refuses it, before it looks at types
	}
	types, err := res.types()
	if err != nil {
		return nil, err
	}
	if _, err := types.ObjectToTyped(applied); err != nil {
		return nil, fmt.Errorf("failed to create typed patch object (%s/%s; %s): %w", applied.GetNamespace(), applied.GetName(), applied.GroupVersionKind(), err)
	}
	return config, nil
}

// checkedMetadata are the fields of metadata that the server compares with the object. Nobody owns
// them.
var checkedMetadata = []string{"name", "namespace", "uid", "resourceVersion", "managedFields"}

// track gives obj, which replaces old, the managedFields of an update. The writer owns what it sent: as in
// Kubernetes, which calls webhooks afterwards, nobody owns what a hook has set.
func (res *resource) track(obj, old object, a author) error {
	manager, err := res.fieldManager(a.subresource())
	if err != nil {
		return err
	}
	live, err := res.toUnstructured(old)
	if err != nil {
		return err
	}
	written := obj
	if a.sent != nil {
		written = a.sent.in(res).object()
		if a.status {
			sent := written
			written = old.DeepCopyObject().(object)
			res.copyStatus(written, sent)
		}
		written.SetManagedFields(obj.GetManagedFields())
	}
	next, err := res.toUnstructured(written)
	if err != nil {
		return err
	}
	res.keepStatus(next, live, a.subresource())
	obj.SetManagedFields(managedFieldsOf(manager.UpdateNoErrors(live, next, a.manager.Value())))
	return nil
}

func managedFieldsOf(obj runtime.Object) []metav1.ManagedFieldsEntry {
	return obj.(*unstructured.Unstructured).GetManagedFields()
}

// trackUpdate brings the managedFields of obj up to date before it replaces prior.
func (res *resource) trackUpdate(obj, old object, prior *record, w writing) error {
	if !w.applied {
		if err := res.track(obj, old, w.author(true)); err != nil {
			return err
		}
	}
	return res.keepTimes(obj, prior)
}

// keepTimes takes back the times of managedFields if nothing else changed in obj, so that a write
// without a change makes no version.
func (res *resource) keepTimes(obj object, prior *record) error {
	old, entries := prior.object().GetManagedFields(), obj.GetManagedFields()
	if !slices.EqualFunc(old, entries, sameManager) {
		return nil
	}
	obj.SetManagedFields(old)
	same, err := newRecord(res, obj, prior.version)
	if err != nil {
		return err
	}
	if string(same.stored) != string(prior.stored) {
		obj.SetManagedFields(entries)
	}
	return nil
}

// sameManager reports whether a and b differ in nothing but their times.
func sameManager(a, b metav1.ManagedFieldsEntry) bool {
	fields := a.FieldsV1 == nil && b.FieldsV1 == nil || a.FieldsV1 != nil && b.FieldsV1 != nil && a.FieldsV1.Equal(*b.FieldsV1)
	return fields && a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// isReset reports whether a request asks for an empty list of managedFields.
func isReset(obj object) bool {
	entries := obj.GetManagedFields()
	return len(entries) == 1 && entries[0] == metav1.ManagedFieldsEntry{} || entries != nil && len(entries) == 0
}

// trackedLocked returns the object of a record with up-to-date managedFields. It needs mu.
func (s *Server) trackedLocked(res *resource, rec *record) (*unstructured.Unstructured, error) {
	if rec.author.tracked {
		return res.toUnstructured(rec.in(res).object())
	}
	var live object = res.newObject()
	versions := res.history.versionsOf(rec)
	for i, version := range versions {
		next := version.in(res).object()
		sent := next.GetManagedFields()
		switch {
		case i == 0 && len(sent) > 0: // a test or a dump gave them
			live = next
			continue
		case i > 0 && (len(sent) == 0 || slices.EqualFunc(sent, versions[i-1].object().GetManagedFields(), sameManager)):
			next.SetManagedFields(live.GetManagedFields())
		}
		if version.author.manager.Value() != "" {
			before := next.GetManagedFields()
			if err := res.track(next, live, version.author); err != nil {
				return nil, err
			}
			version.author.setTimes(next, before)
		}
		live = next
	}
	return res.toUnstructured(live)
}

// setTimes sets the time of a's own entry, if the write changed it.
func (a author) setTimes(obj object, before []metav1.ManagedFieldsEntry) {
	entries := obj.GetManagedFields()
	for i, e := range entries {
		own := e.Manager == a.manager.Value() && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == a.subresource()
		if own && !slices.ContainsFunc(before, func(b metav1.ManagedFieldsEntry) bool { return sameManager(b, e) && b.Time.Equal(e.Time) }) {
			entries[i].Time = new(metav1.Unix(a.at, 0))
		}
	}
	obj.SetManagedFields(entries)
}

// versionsOf returns the versions of an object that are still known, oldest first, up to rec.
func (h *history) versionsOf(rec *record) []*record {
	versions := []*record{rec}
	for _, c := range slices.Backward(h.log) {
		if c.object != versions[len(versions)-1] {
			continue
		}
		if c.prior == nil {
			break
		}
		versions = append(versions, c.prior)
	}
	slices.Reverse(versions)
	return versions
}
