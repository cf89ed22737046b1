package reflectortest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/version"
)

// WithCustomResourceDefinitions makes the server follow CustomResourceDefinitions, as kube-apiserver
// does, so that kinds come and go while a test runs. The test and its clients create, update and
// delete the definitions like other objects:
//
//	crd := &unstructured.Unstructured{}
//	err := yaml.Unmarshal(manifest, &crd.Object)
//	err = server.Create(crd) // its kind is served when Create returns
//
// The server accepts the names of a new definition in an update of its own, which also establishes
// it, or says in a condition which name is in use. Then it serves the versions that the definition
// serves. They share their objects, and an answer differs from version to version in its apiVersion
// alone. As in kube-apiserver, each change of the spec ends the watches of all its versions, and a
// client that resumes one gets 410 Expired and lists.
//
// A test takes a kind away for a while with "served: false", or by the conditions NamesAccepted and
// Established: with both False the server answers 404, and goes on to do so until the names or a
// condition change. A definition that is deleted takes its objects along, each with its event; then
// it goes itself, and the watches end. An object with a finalizer holds it, terminating. Created
// again, a definition is another one, with another UID and without objects.
//
// The server also has the APIServices of apiregistration.k8s.io/v1. If one has a service and the
// condition Available is False, its group and version are not available: requests get 503, and
// aggregated discovery calls them stale. Register the kinds behind it with [WithResource].
func WithCustomResourceDefinitions() Option {
	return optionFunc(func(o *options) {
		if !o.definitions {
			o.resources = append(o.resources, definitionsResource, servicesResource)
		}
		o.definitions = true
	})
}

var (
	definitionsResource = Resource{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Status: true,
	}
	servicesResource = Resource{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Plural: "apiservices",
		Categories: []string{"api-extensions"}, Status: true,
	}
	definitionsGVR = schema.GroupVersionResource{Group: definitionsResource.Group, Version: "v1", Resource: definitionsResource.Plural}
	servicesGVR    = schema.GroupVersionResource{Group: servicesResource.Group, Version: "v1", Resource: servicesResource.Plural}
)

// definitions has what the server knows of the definitions that it follows. The server's mu protects
// it.
type definitions struct {
	base       *registry // without them; nil if the server does not follow them
	objects    *resource // the definitions as objects
	services   *resource
	admissions []*admission        // of all kinds
	all        map[string]*defined // by UID, also of deleted ones: Restore may bring them back
	following  bool                // the server writes, and looks again afterwards
}

// defined is a definition that the server serves, or has served. Its versions share one collection.
type defined struct {
	// home is the form in which the objects are stored. It never changes, while versions do.
	home    *resource
	history *history

	// The server's mu protects the fields below.
	key         string        // of the spec and the accepted names
	ended       chan struct{} // of the watches since the key is the same
	live        bool          // the definition exists
	terminating bool
	versions    []Resource  // of the spec
	served      []*resource // the preferred version first
	converter   managedfields.TypeConverter
}

func (d *definitions) init(base *registry) {
	d.base, d.objects, d.services = base, base.byGVR[definitionsGVR], base.byGVR[servicesGVR]
	d.objects.definitions, d.services.tracksGeneration = true, false
	d.all = map[string]*defined{}
}

// with returns a registry that has the resources of definitions, too.
func (g *registry) with(served []*resource, unavailable []schema.GroupVersion) *registry {
	n := &registry{
		ordered: slices.Concat(g.ordered, served), byGVR: maps.Clone(g.byGVR), byGVK: maps.Clone(g.byGVK), byType: g.byType, kinds: g.kinds,
		owners: map[reference]*kind{}, unavailable: unavailable,
	}
	for _, r := range served {
		n.byGVR[r.gvr()] = r
		n.byGVK[r.gvk()] = r
		if !r.unannounced {
			n.owners[reference{r.apiVersion(), r.Kind}] = &kind{namespaced: r.Namespaced, versions: []*resource{r}}
		}
	}
	return n
}

// collectionsLocked returns a resource of each collection, also of the deleted definitions. It needs
// mu.
func (s *Server) collectionsLocked() []*resource {
	all := slices.Clone(s.registry().ordered)
	for _, d := range s.definitions.all {
		all = append(all, d.home)
	}
	return all
}

// writtenLocked looks at the definitions after a write that may concern them. It needs mu.
func (s *Server) writtenLocked(res *resource) {
	d := &s.definitions
	if res == d.objects || res == d.services || res.defined != nil && res.defined.terminating {
		s.followDefinitionsLocked()
	}
}

// followDefinitionsLocked does what the controllers of kube-apiserver do about the definitions, until
// nothing is left to do, and serves the result. It needs mu.
func (s *Server) followDefinitionsLocked() {
	d := &s.definitions
	if d.base == nil || d.following {
		return
	}
	d.following = true
	defer func() { d.following = false }()
	for before := uint64(0); before != s.version; {
		before = s.version
		s.serveDefinitionsLocked()
		for _, rec := range d.objects.history.current.Values() {
			s.settleLocked(rec)
		}
	}
}

func parseStored(rec *record) *definition {
	d := &definition{}
	if err := json.Unmarshal(rec.stored, d); err != nil {
		panic(fmt.Sprintf("reflectortest: a stored definition does not decode: %v", err)) // it was decoded before it was stored
	}
	return d
}

// The types of a definition's conditions, and the finalizer of its deletion.
const (
	namesAccepted    = "NamesAccepted"
	established      = "Established"
	terminating      = "Terminating"
	cleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io"
)

func (d *definition) is(condition string) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == condition {
			return c.Status == string(metav1.ConditionTrue)
		}
	}
	return false
}

// serveDefinitionsLocked makes the registry of the present definitions. It needs mu.
func (s *Server) serveDefinitionsLocked() {
	d := &s.definitions
	var served []*resource
	live := map[string]bool{}
	for _, rec := range d.objects.history.current.Values() {
		def := parseStored(rec)
		live[rec.uid] = true
		served = append(served, s.serveDefinitionLocked(rec, def)...)
	}
	for uid, each := range d.all {
		if !live[uid] {
			each.end()
		}
	}
	slices.SortStableFunc(served, func(a, b *resource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version), cmp.Compare(a.Plural, b.Plural))
	})
	var unavailable []schema.GroupVersion
	for _, rec := range d.services.history.current.Values() {
		if gv, ok := unavailableService(rec); ok {
			unavailable = append(unavailable, gv)
		}
	}
	s.registered.Store(d.base.with(served, unavailable))
}

// serveDefinitionLocked returns the resources of a definition, which are none until its names are
// accepted. It needs mu.
func (s *Server) serveDefinitionLocked(rec *record, def *definition) []*resource {
	d := s.definitions.all[rec.uid]
	if !def.is(namesAccepted) && !def.is(established) {
		return nil
	}
	if d == nil {
		d = &defined{history: newHistory()}
		s.definitions.all[rec.uid] = d
	}
	d.live = true
	var stored struct{ Spec json.RawMessage } // def has a part of it
	if err := json.Unmarshal(rec.stored, &stored); err != nil {
		panic(fmt.Sprintf("reflectortest: a stored definition does not decode: %v", err))
	}
	if key := fmt.Sprintf("%s %q", stored.Spec, def.Status.AcceptedNames); key != d.key {
		d.end()
		d.live, d.key, d.ended = true, key, make(chan struct{})
		// The real server has a new cache, which knows nothing older.
		d.history.oldest = s.version
		d.define(def, &s.definitions)
	}
	d.terminating = def.is(terminating)
	announced := def.is(established)
	for i, r := range d.served {
		if r.terminating == d.terminating && r.unannounced == !announced {
			continue
		}
		changed := *r // requests have r
		changed.terminating, changed.unannounced = d.terminating, !announced
		d.served[i] = &changed
	}
	return d.served
}

// end ends the watches.
func (d *defined) end() {
	if d.ended != nil {
		close(d.ended)
	}
	d.live, d.key, d.ended, d.served, d.terminating = false, "", nil, nil, false
}

// define makes the resources of the versions.
func (d *defined) define(def *definition, all *definitions) {
	d.versions, d.converter = nil, nil
	names := def.Status.AcceptedNames
	for _, v := range def.Spec.Versions {
		r, err := newCustomResource(def.resource(v, names))
		if err != nil {
			panic(fmt.Sprintf("reflectortest: the schema of a stored definition cannot be read: %v", err))
		}
		r.defined, r.history, r.ended, r.kinds, r.admissions = d, d.history, d.ended, all.base.kinds, all.admissions
		if d.home == nil {
			home := *r
			home.shape, home.selectable, home.ended = nil, nil, nil
			d.home = &home
		}
		d.versions = append(d.versions, r.Resource)
		if v.Served {
			d.served = append(d.served, r)
		}
	}
	d.home.fieldManagers = nil // they know the versions of before
	slices.SortStableFunc(d.served, func(a, b *resource) int { return version.CompareKubeAwareVersionStrings(b.Version, a.Version) })
	for i, r := range d.served {
		r.secondary = i > 0
	}
}

func (d *defined) hasVersion(name string) bool {
	return slices.ContainsFunc(d.versions, func(r Resource) bool { return r.Version == name })
}

// types returns the schemas of all versions.
func (d *defined) types() (managedfields.TypeConverter, error) {
	var err error
	if d.converter == nil {
		d.converter, err = typeConverter(d.versions...)
	}
	return d.converter, err
}

// checkServed reports whether the definition of a resource is gone since the request began. It needs
// the server's mu.
func (res *resource) checkServed() error {
	if res.defined != nil && !res.defined.live {
		return errPageNotFound
	}
	return nil
}

// checkCreatable refuses an object of a definition that is gone or about to go. It needs the server's
// mu.
func checkCreatable(res *resource, obj object) error {
	if res.defined != nil && res.defined.terminating {
		return apierrors.NewForbidden(res.gr(), obj.GetName(), errors.New("create not allowed while custom resource definition is terminating"))
	}
	return res.checkServed()
}

// in returns the record of an object in a version of its definition.
func (rec *record) in(res *resource) *record {
	if res == nil || res.defined == nil || rec.resource == res {
		return rec
	}
	known := rec.versions.Load()
	if known != nil {
		for _, v := range *known {
			if v.resource == res {
				return v
			}
		}
	}
	obj := rec.object()
	obj.GetObjectKind().SetGroupVersionKind(res.gvk())
	res.shape.setDefaults(content(obj))
	stored, err := res.encode(obj)
	if err != nil {
		panic(fmt.Sprintf("reflectortest: stored %s %s does not encode: %v", res.gvr(), rec.key, err))
	}
	shown := &record{
		resource: res, key: rec.key, namespace: rec.namespace, name: rec.name, uid: rec.uid, version: rec.version,
		labels: rec.labels, author: rec.author, links: rec.links, stored: stored,
	}
	all := []*record{shown}
	if known != nil {
		all = append(all, *known...)
	}
	if len(all) > 4 {
		all = all[:4] // the others are of specs of before
	}
	rec.versions.CompareAndSwap(known, &all)
	return shown
}

// unavailableService returns the group and version of an APIService that is not available.
func unavailableService(rec *record) (schema.GroupVersion, bool) {
	var service struct {
		Spec struct {
			Group, Version string
			Service        *struct{}
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(rec.stored, &service); err != nil || service.Spec.Service == nil {
		return schema.GroupVersion{}, false
	}
	for _, c := range service.Status.Conditions {
		if c.Type == "Available" && c.Status == string(metav1.ConditionFalse) {
			return schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}, true
		}
	}
	return schema.GroupVersion{}, false
}
