package reflectortest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// settleLocked makes one step towards what a definition asks for. It needs mu.
func (s *Server) settleLocked(rec *record) {
	def := parseStored(rec)
	if def.Metadata.DeletionTimestamp != nil && slices.Contains(def.Metadata.Finalizers, cleanupFinalizer) {
		s.finalizeDefinitionLocked(rec, def)
		return
	}
	obj := rec.object()
	accepted := def.is(namesAccepted)
	if !reflect.DeepEqual(def.Spec.Names, def.Status.AcceptedNames) {
		names, reason, message := s.acceptNamesLocked(rec, def)
		accepted = reason == ""
		setStatus(obj, names, "acceptedNames")
		if accepted {
			setCondition(obj, namesAccepted, metav1.ConditionTrue, "NoConflicts", "no conflicts found")
		} else {
			setCondition(obj, namesAccepted, metav1.ConditionFalse, reason, message)
			if !hasCondition(def, established) {
				setCondition(obj, established, metav1.ConditionFalse, "NotAccepted", "not all names are accepted")
			}
		}
	}
	if accepted && !def.is(established) {
		setCondition(obj, established, metav1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted")
	}
	s.replaceDefinitionLocked(rec, obj)
}

func hasCondition(def *definition, condition string) bool {
	return slices.ContainsFunc(def.Status.Conditions, func(c struct{ Type, Status, Reason, Message string }) bool { return c.Type == condition })
}

func (s *Server) replaceDefinitionLocked(rec *record, obj object) *record {
	now, err := s.replaceLocked(s.definitions.objects, rec, obj, writing{parts: statusOnly}.author(rec.author.tracked), false)
	if err != nil {
		panic(fmt.Sprintf("reflectortest: the status of definition %s does not encode: %v", rec.name, err))
	}
	return now
}

// acceptNamesLocked returns the names that a definition gets: those of its spec, but for those that
// another definition or resource of the group has. reason is empty if there are none of these. It
// needs mu.
func (s *Server) acceptNamesLocked(rec *record, def *definition) (names definedNames, reason, message string) {
	resources, kinds := map[string]bool{}, map[string]bool{}
	use := func(n definedNames) {
		for _, name := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
			resources[name] = true
		}
		kinds[n.Kind], kinds[n.ListKind] = true, true
	}
	for _, other := range s.definitions.objects.history.current.Values() {
		if o := parseStored(other); other.uid != rec.uid && o.Spec.Group == def.Spec.Group {
			use(o.Status.AcceptedNames)
		}
	}
	for _, r := range s.definitions.base.ordered {
		if r.Group == def.Spec.Group {
			use(definedNames{Plural: r.Plural, Singular: r.Singular, ShortNames: r.ShortNames, Kind: r.Kind, ListKind: r.Kind + "List"})
		}
	}
	wanted, names := def.Spec.Names, def.Status.AcceptedNames
	accept := func(why string, used map[string]bool, into *string, name string) {
		if name != *into && used[name] {
			reason, message = why, fmt.Sprintf("%q is already in use", name)
			return
		}
		*into = name
	}
	accept("PluralConflict", resources, &names.Plural, wanted.Plural)
	accept("SingularConflict", resources, &names.Singular, wanted.Singular)
	free := true
	for _, name := range wanted.ShortNames {
		if !slices.Contains(names.ShortNames, name) && resources[name] {
			free, reason, message = false, "ShortNamesConflict", fmt.Sprintf("%q is already in use", name)
		}
	}
	if free {
		names.ShortNames = wanted.ShortNames
	}
	accept("KindConflict", kinds, &names.Kind, wanted.Kind)
	accept("ListKindConflict", kinds, &names.ListKind, wanted.ListKind)
	names.Categories = wanted.Categories
	return names, reason, message
}

// terminateDefinition marks a definition at the first request to delete it.
func terminateDefinition(obj object) {
	obj.SetDeletionTimestamp(new(metav1.NewTime(time.Now().Truncate(time.Second))))
	if !slices.Contains(obj.GetFinalizers(), cleanupFinalizer) {
		obj.SetFinalizers(append(obj.GetFinalizers(), cleanupFinalizer))
	}
	setCondition(obj, terminating, metav1.ConditionTrue, "InstanceDeletionPending",
		"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
}

// finalizeDefinitionLocked deletes the objects of a definition, and then the definition. It needs mu.
func (s *Server) finalizeDefinitionLocked(rec *record, def *definition) {
	obj := rec.object()
	setCondition(obj, terminating, metav1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
	rec = s.replaceDefinitionLocked(rec, obj)
	reason, message := "NeverEstablished", "resource was never established"
	if d := s.definitions.all[rec.uid]; d != nil && def.is(established) {
		reason, message = "InstanceDeletionCompleted", "removed all instances"
		unhooked := *d.home // webhooks are not asked
		unhooked.admissions = nil
		for _, each := range d.history.current.Values() {
			_, _, _ = s.deleteLocked(&unhooked, each.namespace, each.name, &metav1.DeleteOptions{}, false)
		}
		if d.history.current.Len() > 0 {
			return // finalizers hold them
		}
	}
	obj = rec.object()
	obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == cleanupFinalizer }))
	if len(obj.GetFinalizers()) > 0 {
		setCondition(obj, terminating, metav1.ConditionFalse, reason, message)
		s.replaceDefinitionLocked(rec, obj)
		return
	}
	if _, err := s.removeLocked(s.definitions.objects, rec); err != nil {
		panic(fmt.Sprintf("reflectortest: definition %s does not encode: %v", rec.name, err))
	}
}

func setStatus(obj object, value any, path ...string) {
	if status, ok := content(obj)["status"].(map[string]any); !ok || status == nil {
		content(obj)["status"] = map[string]any{}
	}
	b, err := json.Marshal(value)
	if err == nil {
		var plain any
		if err = json.Unmarshal(b, &plain); err == nil {
			err = unstructured.SetNestedField(content(obj), plain, append([]string{"status"}, path...)...)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("reflectortest: status of definition %s: %v", obj.GetName(), err)) // validateDefinition has read it
	}
}

// setCondition sets a condition, and the time if the condition's status changes.
func setCondition(obj object, kind string, status metav1.ConditionStatus, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(content(obj), "status", "conditions")
	condition := map[string]any{
		"type": kind, "status": string(status), "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}
	i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == kind })
	if i < 0 {
		setStatus(obj, append(conditions, condition), "conditions")
		return
	}
	if old := conditions[i].(map[string]any); old["status"] == string(status) && old["lastTransitionTime"] != nil {
		condition["lastTransitionTime"] = old["lastTransitionTime"]
	}
	conditions[i] = condition
	setStatus(obj, conditions, "conditions")
}

// completeDefinition sets the defaults of a definition, and the versions in which objects are stored.
func completeDefinition(obj object) {
	def, err := readDefinition(obj)
	if err != nil {
		return // validateDefinition says so
	}
	c := content(obj)
	for _, absent := range []struct {
		is    bool
		value any
		path  []string
	}{
		{def.Spec.Names.Singular == "", strings.ToLower(def.Spec.Names.Kind), []string{"spec", "names", "singular"}},
		{def.Spec.Names.ListKind == "", def.Spec.Names.Kind + "List", []string{"spec", "names", "listKind"}},
	} {
		if absent.is && def.Spec.Names.Kind != "" {
			_ = unstructured.SetNestedField(c, absent.value, absent.path...)
		}
	}
	if _, ok, err := unstructured.NestedFieldNoCopy(c, "spec", "conversion"); !ok && err == nil {
		_ = unstructured.SetNestedField(c, map[string]any{"strategy": "None"}, "spec", "conversion")
	}
	for _, v := range def.Spec.Versions {
		if v.Storage && !slices.Contains(def.Status.StoredVersions, v.Name) {
			setStatus(obj, append(def.Status.StoredVersions, v.Name), "storedVersions")
			break
		}
	}
}

func readDefinition(obj object) (*definition, error) {
	b, err := json.Marshal(content(obj))
	if err != nil {
		return nil, err
	}
	def := &definition{}
	return def, json.Unmarshal(b, def)
}

// validateDefinition checks what the server needs of a definition, and what the real server does not
// let change.
func validateDefinition(obj, old object) (errs field.ErrorList) {
	at := field.NewPath("spec")
	def, err := readDefinition(obj)
	if err != nil {
		return append(errs, field.Invalid(at, "", err.Error()))
	}
	spec := def.Spec
	for _, required := range []struct {
		value string
		at    *field.Path
	}{
		{spec.Group, at.Child("group")},
		{spec.Names.Plural, at.Child("names", "plural")},
		{spec.Names.Kind, at.Child("names", "kind")},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(required.at, ""))
		}
	}
	if def.Metadata.Name != spec.Names.Plural+"."+spec.Group {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), def.Metadata.Name, `must be spec.names.plural+"."+spec.group`))
	}
	if spec.Scope != "Namespaced" && spec.Scope != "Cluster" {
		errs = append(errs, field.NotSupported(at.Child("scope"), spec.Scope, []string{"Cluster", "Namespaced"}))
	}
	stored := 0
	names := map[string]bool{}
	for i, v := range spec.Versions {
		if v.Storage {
			stored++
		}
		names[v.Name] = true
		r := def.resource(v, spec.Names)
		err := r.checkSchema()
		if err == nil {
			_, err = newCustomResource(r)
		}
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("versions").Index(i).Child("schema"), "", err.Error()))
		}
	}
	if len(names) != len(spec.Versions) || names[""] {
		errs = append(errs, field.Invalid(at.Child("versions"), "", "must contain unique version names"))
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(at.Child("versions"), "", "must have exactly one version marked as storage version"))
	}
	for i, v := range def.Status.StoredVersions {
		if !names[v] {
			errs = append(errs, field.Invalid(field.NewPath("status", "storedVersions").Index(i), v, "missing from spec.versions; "+v+
				" was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "+v+
				" and removes "+v+" from status.storedVersions"))
		}
	}
	if old == nil {
		return errs
	}
	before, err := readDefinition(old)
	if err != nil {
		return append(errs, field.Invalid(at, "", err.Error()))
	}
	for _, constant := range []struct {
		now, was string
		from     bool // it is constant
		at       *field.Path
	}{
		{spec.Group, before.Spec.Group, true, at.Child("group")},
		{spec.Names.Plural, before.Spec.Names.Plural, true, at.Child("names", "plural")},
		{spec.Names.Kind, before.Spec.Names.Kind, before.is(established), at.Child("names", "kind")},
		{spec.Scope, before.Spec.Scope, before.is(established), at.Child("scope")},
	} {
		if constant.from && constant.now != constant.was {
			errs = append(errs, field.Invalid(constant.at, constant.now, "field is immutable"))
		}
	}
	return errs
}
