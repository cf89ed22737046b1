package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// definition is what the fleet reads of a CustomResourceDefinition. The types of
// apiextensions-apiserver would be a new dependency, and have the schemas, which are large.
type definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Group    string              `json:"group"`
		Names    names               `json:"names"`
		Scope    string              `json:"scope"`
		Versions []definitionVersion `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions    []condition `json:"conditions"`
		AcceptedNames names       `json:"acceptedNames"`
	} `json:"status"`
}

type names struct {
	Kind   string `json:"kind"`
	Plural string `json:"plural"`
}

type definitionVersion struct {
	Name   string `json:"name"`
	Served bool   `json:"served"`
}

// apiService is what the fleet reads of an APIService. One with a Service is an aggregated API.
type apiService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Group   string    `json:"group"`
		Version string    `json:"version"`
		Service *struct{} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func find(all []condition, name string) condition {
	n := slices.IndexFunc(all, func(c condition) bool { return c.Type == name })
	if n < 0 {
		return condition{}
	}
	return all[n]
}

// groupKind returns the kind that the definition defines. Accepted names count: spec may ask for the name
// of another definition.
func (d *definition) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.Spec.Group, Kind: cmp.Or(d.Status.AcceptedNames.Kind, d.Spec.Names.Kind)}
}

func (d *definition) isEstablished() bool {
	return find(d.Status.Conditions, "Established").Status == "True"
}

// resolution is how to read a kind, or the problem why it cannot be read.
type resolution struct {
	kind       schema.GroupVersionKind // with the version
	resource   schema.GroupVersionResource
	namespaced bool
	definition string    // the name of the CustomResourceDefinition; empty for another API
	uid        types.UID // of that definition
	problem    *NotServedError
}

func (r resolution) same(other resolution) bool {
	return r.problem.same(other.problem) && r.kind == other.kind && r.resource == other.resource &&
		r.namespaced == other.namespaced && r.uid == other.uid
}

// definitions knows which kinds the server serves: from the CustomResourceDefinitions and APIServices,
// which it watches if it may, and from discovery for all other kinds.
type definitions struct {
	fleet    *Fleet
	logger   *zap.Logger
	rest     rest.Interface // for discovery
	crds     *informer.Informer[*definition]
	byKind   *store.Index[string, *definition]
	services *informer.Informer[*apiService]
	woken    chan struct{} // has a value if discovery may be needed

	mu        sync.Mutex
	known     *lifecycle.Latch                 // of this Run, or of the next: followErr is complete. Guarded by mu
	followErr map[string]error                 // by the name of the informer: why it cannot follow; nil if it does. Guarded by mu
	deleted   map[types.UID]string             // versions at which definitions were gone, empty if unknown; at most mostDeleted. Guarded by mu
	deletedAt map[schema.GroupKind]time.Time   // when definitions of kinds were seen deleted, as many; guarded by mu
	found     map[schema.GroupKind]*discovered // by discovery; nil before. Guarded by mu
	failed    map[schema.GroupVersion]bool     // versions that did not answer the last discovery. Guarded by mu
	askedAt   time.Time                        // when the last discovery began. Guarded by mu
	outdated  bool                             // something says that discovery has changed since. Guarded by mu
	changed   map[string]time.Time             // when an APIService of a group last changed; about mostChanged. Guarded by mu
	custom    bool                             // found has the kinds of definitions, too, because they could not be watched then. Guarded by mu
	notBefore time.Time                        // of the next discovery. Guarded by mu
	err       error                            // of the last discovery. Guarded by mu
}

// pollPause is the time between two discoveries if the fleet may not watch definitions, and the longest
// time until it tries whether it may by now.
const pollPause = time.Minute

// maxObeyed is how many answers of discovery with a Retry-After cause only that pause: a server that starts asks
// for a second.
const maxObeyed = 10

var (
	crdResource     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	serviceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

func newDefinitions(f *Fleet) (*definitions, error) {
	d := &definitions{fleet: f, logger: f.logger, woken: make(chan struct{}, 1), known: lifecycle.NewLatch(), followErr: map[string]error{}, deleted: map[types.UID]string{}, deletedAt: map[schema.GroupKind]time.Time{}, changed: map[string]time.Time{}}
	own := rest.CopyConfig(f.config)
	own.GroupVersion, own.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	own.ContentType, own.AcceptContentTypes = "", ""
	if own.QPS == 0 && own.RateLimiter == nil {
		own.QPS = -1
	}
	var err error
	if d.rest, err = rest.UnversionedRESTClientForConfigAndClient(own, restguard.Client(f.http, restguard.Transport)); err != nil {
		return nil, err
	}
	crds, err := client.ForResource[*definition](f.config, crdResource, "", client.WithHTTPClient(f.http), client.WithoutManagedFields())
	if err != nil {
		return nil, err
	}
	services, err := client.ForResource[*apiService](f.config, serviceResource, "", client.WithHTTPClient(f.http), client.WithoutManagedFields())
	if err != nil {
		return nil, err
	}
	d.crds = informer.New(crds, d.options("definitions of kinds")...)
	if d.byKind, err = store.AddIndex(d.crds.Cache(), "kind", func(crd *definition) []string { return []string{crd.groupKind().String()} }); err != nil {
		return nil, err
	}
	d.crds.Handle(informer.HandlerFuncs[*definition]{
		OnAdd:    func(crd *definition, _ bool) { d.defined(crd.groupKind()) },
		OnUpdate: func(prior, crd *definition) { d.defined(prior.groupKind(), crd.groupKind()) },
		OnDelete: func(crd *definition, final bool) {
			d.noteDeleted(crd, final)
			d.defined(crd.groupKind())
		},
	})
	d.services = informer.New(services, d.options("definitions of APIs")...)
	d.services.Handle(informer.HandlerFuncs[*apiService]{
		OnAdd: func(s *apiService, _ bool) { d.serviceChanged(s) },
		OnUpdate: func(prior, s *apiService) {
			if find(prior.Status.Conditions, "Available").Status != find(s.Status.Conditions, "Available").Status || (prior.Spec.Service == nil) != (s.Spec.Service == nil) {
				d.serviceChanged(s)
			}
		},
		OnDelete: func(s *apiService, _ bool) { d.serviceChanged(s) },
	})
	return d, nil
}

// options are those of the informers of definitions. A refused list ends Run: see followOne.
func (d *definitions) options(name string) []informer.Option {
	retry := func(err error) bool { return !isRefused(err) }
	return []informer.Option{informer.WithName(name), informer.WithLogger(d.logger), informer.WithReflector(reflector.WithRetry(retry))}
}

// run follows definitions until ctx ends.
func (d *definitions) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { followOne(ctx, d, d.crds) })
	running.Go(func() { followOne(ctx, d, d.services) })
	d.discoverWhenNeeded(ctx)
	running.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.followErr) // the next Run must not begin with what the server had before
	if d.known.IsSet() {
		d.known = lifecycle.NewLatch()
	}
	d.outdated = true
}

// followOne runs an informer of definitions. If the program may not list or watch them, it tries again, soon at
// first, because kube-apiserver also refuses while it starts, and then every minute: permissions come and go.
func followOne[T any](ctx context.Context, d *definitions, one *informer.Informer[T]) {
	pause := firstPause
	for ctx.Err() == nil {
		ended := make(chan error, 1)
		go func() { ended <- one.Run(ctx) }()
		var err error
		for running := true; running; {
			state, synced := one.State(), one.Synced()
			if lifecycle.IsClosed(synced) {
				synced = nil
				if state.Phase == reflector.Watching || state.Phase == reflector.Polling {
					d.setFollowErr(one.Name(), nil)
					pause = firstPause
				}
			}
			select {
			case err = <-ended:
				running = false
			case <-one.Changed(state):
			case <-synced:
			}
		}
		if ctx.Err() != nil {
			return
		}
		d.setFollowErr(one.Name(), cmp.Or(err, errEnded))
		timer := time.NewTimer(pause)
		pause = min(2*pause, pollPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

var errEnded = errors.New("watch ended")

// setFollowErr records why an informer of definitions does not follow them, or nil if it does.
func (d *definitions) setFollowErr(name string, err error) {
	d.mu.Lock()
	was, known := d.followErr[name]
	d.followErr[name] = err
	if !known && err != nil || known && (was == nil) != (err == nil) {
		d.outdated = true // discovery tells other things then
	}
	if len(d.followErr) == 2 {
		d.known.Set()
	}
	d.mu.Unlock()
	if known && (was == nil) == (err == nil) {
		return
	}
	if err != nil {
		d.logger.Warn("definitions cannot be watched: discovery is asked instead, once a minute while a wanted kind is not served", zap.String("informer", name), zap.Error(err))
	}
	d.recheckAll()
	d.requestDiscovery()
}

// follows reports whether every change of a definition is an event.
func (d *definitions) follows() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.followsLocked()
}

// followsKind reports whether every change of what a resolution depends on is an event.
func (d *definitions) followsKind(of resolution) bool {
	if of.definition == "" {
		return d.follows()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err, answered := d.followErr[d.crds.Name()]
	return answered && err == nil
}

func (d *definitions) followsLocked() bool {
	if len(d.followErr) < 2 {
		return false
	}
	for _, err := range d.followErr {
		if err != nil {
			return false
		}
	}
	return true
}

// mostDeleted bounds the memory of deleted definitions. One that is forgotten matters only if it was made
// again before its members have looked.
const mostDeleted = 1000

// mostChanged bounds the memory of changed APIs, unless more change within discoveryLag.
const mostChanged = 1000

// noteDeleted records at which version a definition was gone. Without its final state, that is unknown: a list
// did not have it.
func (d *definitions) noteDeleted(crd *definition, final bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.deleted) >= mostDeleted {
		clear(d.deleted)
		clear(d.deletedAt)
	}
	d.deleted[crd.UID], d.deletedAt[crd.groupKind()] = "", time.Now()
	if final {
		d.deleted[crd.UID] = crd.ResourceVersion
	}
}

// defined makes members of kinds resolve them again. What discovery said about them is outdated: it also
// names kinds of CustomResourceDefinitions, without saying so. If it counts nevertheless, it is asked again.
func (d *definitions) defined(kinds ...schema.GroupKind) {
	d.mu.Lock()
	d.outdated = d.outdated || d.custom
	for _, kind := range kinds {
		if !d.custom {
			delete(d.found, kind)
		}
	}
	d.mu.Unlock()
	for _, m := range d.fleet.all() {
		if slices.Contains(kinds, m.identity.kind.GroupKind()) {
			m.recheck()
		}
	}
	d.requestDiscovery()
}

// serviceChanged makes members of an API resolve their kinds again. The API may have other kinds now, also for
// those who will want them later.
func (d *definitions) serviceChanged(s *apiService) {
	d.mu.Lock()
	if len(d.changed) >= mostChanged {
		maps.DeleteFunc(d.changed, func(_ string, at time.Time) bool { return time.Since(at) >= discoveryLag })
		d.outdated = true // one of these may be wanted
	}
	d.changed[s.Spec.Group] = time.Now()
	d.mu.Unlock()
	for _, m := range d.fleet.all() {
		if m.identity.kind.Group == s.Spec.Group {
			m.recheck()
		}
	}
	d.requestDiscovery()
}

// markOutdated makes the next discovery due.
func (d *definitions) markOutdated() {
	d.mu.Lock()
	d.outdated = true
	d.mu.Unlock()
	d.requestDiscovery()
}

func (d *definitions) recheckAll() {
	for _, m := range d.fleet.all() {
		m.recheck()
	}
}

func (d *definitions) requestDiscovery() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// ready returns nil if the fleet knows what the server serves.
func (d *definitions) ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.followErr) < 2:
		return errors.New("fleet does not know yet which kinds the server defines")
	case d.err != nil:
		return fmt.Errorf("fleet: %w", d.err)
	}
	return nil
}

// definitionOf returns the CustomResourceDefinition of a kind, or nil. If several want the name, it is
// the established one.
func (d *definitions) definitionOf(kind schema.GroupKind) *definition {
	var best *definition
	for _, crd := range d.byKind.Get(kind.String()) {
		if best == nil || !best.isEstablished() && crd.isEstablished() {
			best = crd
		}
	}
	return best
}

// ending tells the objects of a deleted definition from those of one that was made later under the same name,
// which a watch may show before the watch of definitions does.
type ending struct {
	upTo  string      // a version at which the earlier definition was gone; empty if unknown
	later *definition // nil if none is known
}

// before reports whether an object belongs to the earlier definition, as all do if neither a version nor a later
// definition is known. If nobody knows when the earlier one was gone, the time of creation tells. It has seconds:
// an object of the second of the later definition is taken for its own.
func (e ending) before(object metav1.Object) bool {
	if e.upTo != "" || e.later == nil {
		return !versions.Later(object.GetResourceVersion(), e.upTo)
	}
	created := object.GetCreationTimestamp()
	return created.Before(&e.later.CreationTimestamp)
}

// isDeleted reports whether the definition is gone from which objects were read.
func (d *definitions) isDeleted(from resolution) (end ending, deleted bool) {
	if !lifecycle.IsClosed(d.crds.Synced()) {
		return ending{}, false
	}
	now := d.crds.Cache().Snapshot()
	later, exists := now.Get(store.Key{Name: from.definition})
	if !exists {
		return ending{upTo: now.ResourceVersion()}, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	upTo, deleted := d.deleted[from.uid]
	return ending{upTo, later}, deleted
}

// resolve says how to read a kind now. before is how it was read last: its version is kept while the
// server serves it.
func (d *definitions) resolve(id identity, before resolution) resolution {
	to := d.resolveKind(id.kind, before.resource.Version)
	if to.problem == nil && !to.namespaced && id.namespace != "" {
		return unserved(id.kind, NoNamespaces, "its objects have no namespaces, but one was selected: select none", nil)
	}
	return to
}

func unserved(kind schema.GroupVersionKind, why Reason, detail string, err error) resolution {
	return resolution{problem: &NotServedError{Kind: kind, Reason: why, Detail: cut.Text(detail, cut.MaxText), Err: err}}
}

func (d *definitions) resolveKind(kind schema.GroupVersionKind, before string) resolution {
	d.mu.Lock()
	defer d.mu.Unlock()
	refused, answered := d.followErr[d.crds.Name()]
	crd := d.definitionOf(kind.GroupKind()) // not before: if it has answered, the definitions are here
	of := d.found[kind.GroupKind()]
	if crd != nil && answered && (refused == nil || !d.custom) { // else the definition may have changed since the program could read it
		return resolveDefinition(crd, kind, before)
	}
	switch {
	case !answered:
		return unserved(kind, Unknown, "the server has not sent its CustomResourceDefinitions yet", nil)
	case of == nil && d.found == nil:
		return unserved(kind, Unknown, "the server has not answered discovery yet", d.err)
	case of == nil && d.isFailedLocked(kind):
		return unserved(kind, Unavailable, "the API does not answer discovery", nil)
	case of == nil && refused != nil:
		return unserved(kind, NotInstalled, "discovery does not name it, and is asked once a minute", nil)
	case of == nil:
		return unserved(kind, NotInstalled, "no CustomResourceDefinition and no API defines it", nil)
	}
	name, ok := choose(of.versions, kind.Version, before)
	if !ok {
		return unserved(kind, NoVersion, fmt.Sprintf("the served versions are %v", of.versions), nil)
	}
	if problem, down := d.unavailable(kind, name); down {
		return problem
	}
	as := of.resource[name]
	if !as.watchable {
		return unserved(kind, NoWatch, "its objects cannot be listed and watched", nil)
	}
	version := schema.GroupVersion{Group: kind.Group, Version: name}
	return resolution{kind: version.WithKind(kind.Kind), resource: version.WithResource(as.plural), namespaced: as.namespaced}
}

func (d *definitions) isFailedLocked(kind schema.GroupVersionKind) bool {
	for version := range d.failed {
		if version.Group == kind.Group && (kind.Version == "" || kind.Version == version.Version) {
			return true
		}
	}
	return false
}

// unavailable reports whether an aggregated API says that it does not work. It needs mu.
func (d *definitions) unavailable(kind schema.GroupVersionKind, version string) (problem resolution, down bool) {
	s, ok := d.services.Cache().Get(store.Key{Name: version + "." + kind.Group})
	if !ok || s.Spec.Service == nil || d.followErr[d.services.Name()] != nil { // it may work by now
		return resolution{}, false
	}
	available := find(s.Status.Conditions, "Available")
	if available.Status != "False" {
		return resolution{}, false
	}
	return unserved(kind, Unavailable, fmt.Sprintf("APIService %s: %s: %s", s.Name, available.Reason, available.Message), nil), true
}

// resolveDefinition says how to read the kind of a CustomResourceDefinition.
func resolveDefinition(crd *definition, kind schema.GroupVersionKind, before string) resolution {
	if !crd.isEstablished() {
		detail := "CustomResourceDefinition " + crd.Name + " is not established"
		for _, name := range []string{"NamesAccepted", "Established", "NonStructuralSchema"} {
			if c := find(crd.Status.Conditions, name); c.Message != "" {
				detail += "; " + name + ": " + c.Message
			}
		}
		return unserved(kind, NotEstablished, detail, nil)
	}
	var served []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	// As discovery orders them: v2, v1, v1beta1.
	slices.SortFunc(served, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	name, ok := choose(served, kind.Version, before)
	if !ok {
		return unserved(kind, NoVersion, fmt.Sprintf("CustomResourceDefinition %s serves the versions %v", crd.Name, served), nil)
	}
	group := schema.GroupVersion{Group: kind.Group, Version: name}
	return resolution{
		kind: group.WithKind(kind.Kind), resource: group.WithResource(cmp.Or(crd.Status.AcceptedNames.Plural, crd.Spec.Names.Plural)),
		namespaced: crd.Spec.Scope == "Namespaced", definition: crd.Name, uid: crd.UID,
	}
}

// choose returns the wanted one of the served versions. Without one, it is the version of before, or
// else the first.
func choose(served []string, wanted, before string) (string, bool) {
	for _, name := range []string{wanted, before} {
		if slices.Contains(served, name) {
			return name, true
		}
		if name == wanted && wanted != "" {
			return "", false
		}
	}
	if len(served) == 0 {
		return "", false
	}
	return served[0], true
}

// isRefused reports whether the program may not list or watch a kind, or the server does not have it.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.Is(err, reflector.ErrNotServed)
}
