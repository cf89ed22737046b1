package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// found is what discovery says of a kind. The zero value says nothing.
type found struct {
	resource   string
	namespaced bool
}

// finder finds the resource of a kind by discovery, and remembers it. All views of a client share
// one finder.
//
// What it remembers may become wrong: a CustomResourceDefinition can be deleted and created with
// another scope, another plural, or another kind for the same plural (kubernetes/kubernetes#105394).
// A request for a resource that the server does not know shows that, and so does an object of another
// kind. But a request that the Resource refuses because of the scope never reaches the server. So the
// Resource passes the remembered answer to find as a doubt before it refuses, and find asks discovery
// again.
type finder struct {
	kind schema.GroupVersionKind
	from directory
	turn chan struct{} // capacity 1: held by the goroutine that asks the directory; protects missed, waits and renewed

	missed  bool           // the last answer was that the kind does not exist
	waits   restguard.Pace // of renewals while the kind does not exist
	renewed time.Time      // the last other renewal, or doubt

	mu    sync.Mutex // protects the fields below
	known found
	gone  found // found earlier, and the server no longer serves it
}

func newFinder(kind schema.GroupVersionKind, from directory) *finder {
	return &finder{kind: kind, from: from, turn: make(chan struct{}, 1)}
}

// directory maps a kind to its resource.
type directory interface {
	// find returns the resource. The error is an ErrNotServed if the kind does not exist. A finder
	// calls find and renew by one goroutine at a time.
	find(ctx context.Context, kind schema.GroupVersionKind) (found, error)
	// renew discards cached answers, so that the next find asks the server again. It returns false
	// if there is nothing to discard.
	renew(ctx context.Context) bool
}

// remembered returns the resource if the finder knows it, and the one that is gone.
func (f *finder) remembered() (known, gone found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known, f.gone
}

func (f *finder) remember(known, gone found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.gone = known, gone
}

// forget records that the server no longer serves a resource. The kind may now have another
// resource.
func (f *finder) forget(resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known.resource == resource {
		f.known, f.gone = found{}, f.known
	}
}

// find returns the resource of the kind, and whether this call asked the directory for it. A doubt
// is an earlier answer that something contradicts: if the finder still remembers it, find asks again,
// unless it asked within resetInterval. Until then the doubted answer stands. If the server does not answer,
// find returns the error, and the finder keeps what it knows.
//
// Only one goroutine at a time asks the directory: client-go's mapper holds a lock during
// discovery, and a goroutine that waits for that lock does not notice the end of ctx. Callers can
// still wait for that lock if the resources of several finders share the mapper.
func (f *finder) find(ctx context.Context, doubt found) (answer found, asked bool, err error) {
	if known, _ := f.remembered(); known != (found{}) && known != doubt {
		return known, false, nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return found{}, false, fmt.Errorf("discovery of %s: %w", f.kind, ctx.Err())
	}
	known, gone := f.remembered()
	if known != (found{}) && known != doubt {
		return known, false, nil
	}
	if known != (found{}) { // and doubted
		if !rested(&f.renewed) {
			return known, false, nil
		}
		gone = known
	}
	answer, err = f.from.find(ctx, f.kind)
	// Another goroutine may have renewed the directory already, so ask it first.
	switch {
	case err == nil && answer == gone && (known != (found{}) || rested(&f.renewed)),
		f.missed && errors.Is(err, protocol.ErrNotServed) && f.waits.Due(time.Now()):
		if f.from.renew(ctx) {
			answer, err = f.from.find(ctx, f.kind)
		}
	}
	f.missed = errors.Is(err, protocol.ErrNotServed)
	switch {
	case f.missed:
		f.remember(found{}, gone)
		return found{}, true, err
	case err != nil:
		if _, named := errors.AsType[*DiscoveryError](err); !named && !errors.Is(err, errSeveralResources) {
			err = &DiscoveryError{Kind: f.kind, Err: stream.Bound(err)}
		}
		return found{}, true, err
	}
	f.waits = restguard.Pace{}
	f.remember(answer, found{})
	return answer, true, nil
}

// rested reports whether an answer of discovery that was last asked for at a time may be asked for
// again, and records that it is. Otherwise the requests of all views would discover everything again
// while they fail.
func rested(last *time.Time) bool {
	now := time.Now()
	if !last.IsZero() && now.Sub(*last) < resetInterval {
		return false
	}
	*last = now
	return true
}

const (
	// resetInterval is the minimum time between two questions about an answer that is doubted.
	resetInterval = 10 * time.Second
	// unknownInterval is the same if there is no answer, which may come at any time, but not if it is forbidden.
	unknownInterval = time.Second
)

// mapped is a directory that uses a REST mapper, which other resources may use as well.
type mapped struct{ meta.RESTMapper }

func (m mapped) find(ctx context.Context, kind schema.GroupVersionKind) (found, error) {
	mapping, err := m.mapping(ctx, kind)
	if meta.IsNoMatchError(err) {
		return found{}, fmt.Errorf("%w: %w", protocol.ErrNotServed, err)
	}
	if err != nil {
		return found{}, err
	}
	return found{mapping.Resource.Resource, mapping.Scope.Name() != meta.RESTScopeNameRoot}, nil
}

// mapping passes the context to a mapper that takes one. client-go 0.36 has no name for such a mapper.
func (m mapped) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	with, ok := m.RESTMapper.(interface {
		RESTMappingWithContext(ctx context.Context, kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
	})
	if ok {
		return with.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	}
	return m.RESTMapping(kind.GroupKind(), kind.Version)
}

func (m mapped) renew(ctx context.Context) bool {
	var reset func()
	switch mapper := m.RESTMapper.(type) {
	case interface{ ResetWithContext(ctx context.Context) }:
		reset = func() { mapper.ResetWithContext(ctx) }
	case meta.ResettableRESTMapper:
		reset = mapper.Reset
	}
	if reset == nil || !resets.due(m.RESTMapper) {
		return false
	}
	reset()
	return true
}

// resets has the pace of each mapper that resources share. Without it, a hundred kinds that are not
// installed would make all other users of a mapper wait for discovery all the time.
var resets resetTimes

type resetTimes struct {
	mu    sync.Mutex              // protects paces
	paces map[any]*restguard.Pace // by mapper
}

// due reports whether a mapper may be reset. If so, it records a reset now.
func (r *resetTimes) due(mapper any) bool {
	if !reflect.ValueOf(mapper).Comparable() {
		return true // the map cannot recognize it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	// So that the map does not keep mappers for ever. An idle pace begins anew anyway.
	maps.DeleteFunc(r.paces, func(_ any, p *restguard.Pace) bool { return p.Idle(now) })
	if r.paces == nil {
		r.paces = make(map[any]*restguard.Pace)
	}
	if r.paces[mapper] == nil {
		r.paces[mapper] = &restguard.Pace{}
	}
	return r.paces[mapper].Due(now)
}

// errSeveralResources means that several resources have the same kind.
var errSeveralResources = errors.New("kind is that of several resources: use FromRESTClient or ForResource")

// listed is a directory that uses the server's list of resources in a group and version. It keeps
// the answer, also that there is no such group and version.
type listed struct {
	rest      rest.Interface
	answered  bool
	resources []metav1.APIResource
}

func (l *listed) find(ctx context.Context, kind schema.GroupVersionKind) (found, error) {
	if err := l.ask(ctx, kind); err != nil {
		return found{}, err
	}
	all := slices.DeleteFunc(slices.Clone(l.resources), func(r metav1.APIResource) bool {
		return r.Kind != kind.Kind || strings.Contains(r.Name, "/")
	})
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(r metav1.APIResource) bool { return !slices.Contains(r.Verbs, "list") })
	}
	switch len(all) {
	case 0:
		return found{}, fmt.Errorf("%w: no resource of %s has the kind %s", protocol.ErrNotServed, kind.GroupVersion(), kind.Kind)
	case 1:
		return found{all[0].Name, all[0].Namespaced}, nil
	}
	return found{}, errSeveralResources
}

// resource returns what the list says of a resource. It has no kind if the list does not have the resource.
func (l *listed) resource(ctx context.Context, resource schema.GroupVersionResource) (metav1.APIResource, error) {
	if err := l.ask(ctx, resource.GroupVersion().WithKind("")); err != nil {
		return metav1.APIResource{}, err
	}
	i := slices.IndexFunc(l.resources, func(r metav1.APIResource) bool { return r.Name == resource.Resource })
	if i < 0 {
		return metav1.APIResource{}, nil
	}
	return l.resources[i], nil
}

// ask requests the list unless it is known. client-go's discovery client takes no context in 0.36.
func (l *listed) ask(ctx context.Context, kind schema.GroupVersionKind) error {
	if l.answered {
		return nil
	}
	path := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	var list metav1.APIResourceList
	err := restguard.ReadJSON(ctx, l.rest.Get().AbsPath(path).SetHeader("Accept", mediaJSON), &list)
	if err != nil && !apierrors.IsNotFound(err) {
		return &DiscoveryError{Kind: kind, Path: path, Err: stream.Bound(err)}
	}
	l.answered, l.resources = true, list.APIResources
	return nil
}

func (l *listed) renew(context.Context) bool {
	l.answered, l.resources = false, nil
	return true
}

// DiscoveryError means that discovery gave no answer, so that a client of [For] does not know the
// resource of its kind and cannot send its request. The client asks again with the next request. An
// error of a REST mapper becomes a DiscoveryError as well. apierrors.IsForbidden and similar functions
// recognize the server's answer. LearnScope of a reflector or an informer returns it also for other clients.
//
// If the server answers that it does not serve the kind, the error is [reflector.ErrNotServed]
// instead.
type DiscoveryError struct {
	// Kind is the kind whose resource the client needs. It has no name if only the scope was asked for.
	Kind schema.GroupVersionKind
	// Path is the path that was read, such as "/apis/apps/v1". It is empty if a REST mapper asked.
	Path string
	// Err is why there is no answer.
	Err error
}

// Error names the kind, the path and the cause. If the server forbids the request, it names the
// missing permission.
func (e *DiscoveryError) Error() string {
	text, instead := "discovery of "+e.Kind.String(), ", or use ForResource"
	if e.Kind.Kind == "" { // a client of ForResource
		text, instead = "discovery of "+e.Kind.GroupVersion().String(), ""
	}
	if e.Path != "" {
		text += ": get " + e.Path
	}
	text = cut.Text(fmt.Sprintf("%s: %v", text, e.Err), discoveryText)
	switch {
	case !apierrors.IsForbidden(e.Err):
		return text
	case e.Path == "":
		return text + ": allow the verb get on the nonResourceURLs of discovery, as the ClusterRole system:discovery does" + instead
	}
	return text + fmt.Sprintf(": allow the verb get on the nonResourceURL %s, as the ClusterRole system:discovery does", cut.Text(e.Path, cut.MaxName)) + instead
}

// discoveryText is the most bytes of the error without the advice, so that both have 1 KiB.
const discoveryText = 512

// Unwrap returns Err.
func (e *DiscoveryError) Unwrap() error { return e.Err }

// consistentMinor is the minor version of Kubernetes 1 from which the API server answers lists of
// the newest state in pages from its watch cache (KEP-4988). Before, such a list with a limit cost a
// read of etcd.
const consistentMinor = 34

// listsConsistently asks a server for its version. A server that refuses or says something else counts
// as an older one. An error means that the server did not answer, for example because it is about to
// start. Of an aggregated API, this is the version of the API server in front of it: if the extension
// server itself is older, its lists are consistent all the same, and only cost more.
func listsConsistently(ctx context.Context, client rest.Interface) (bool, error) {
	const most = 64 << 10
	answer, err := client.Get().AbsPath("/version").SetHeader("Accept", mediaJSON).MaxRetries(0).Stream(ctx)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && !apierrors.IsTooManyRequests(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Close() }()
	var info apiversion.Info
	if json.NewDecoder(io.LimitReader(answer, most)).Decode(&info) != nil {
		return false, nil
	}
	// A server that emulates an older version also behaves like it.
	major, known := number(cmp.Or(info.EmulationMajor, info.Major))
	minor, ok := number(cmp.Or(info.EmulationMinor, info.Minor))
	return known && ok && (major > 1 || major == 1 && minor >= consistentMinor), nil
}

// number reads a part of a version, such as "34" or the "34+" of some vendors.
func number(part string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(part, "+"))
	return n, err == nil && n >= 0
}

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
	// scope is the stream.Scope that LearnScope has asked for; a finder knows better. It is written under mu.
	scope atomic.Int32
	turn  chan struct{} // capacity 1: held by the goroutine that asks for the scope

	mu    sync.Mutex // protects the fields below it
	asked time.Time  // when discovery was last asked for the kind of the resource
	// unknown is why the last question about the scope had no answer. It is not asked again before until.
	unknown error
	until   time.Time
	misses  int // calls of forget
}

// learnScope asks for the scope, unless the last answer is recent: each key without an object may ask, so one
// goroutine asks for all. A scope is asked for again, because the kind may have been defined again without a
// failure that would show that.
func (l *learned) learnScope(ctx context.Context, ask func() (stream.Scope, error)) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fmt.Errorf("discovery of a scope: %w", ctx.Err())
	}
	l.mu.Lock()
	unknown, until, misses := l.unknown, l.until, l.misses
	l.mu.Unlock()
	if time.Now().Before(until) {
		return unknown
	}
	began := time.Now()
	scope, err := ask()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.misses != misses { // the answer may be about a definition that was deleted since
		return err
	}
	// The end of one caller is no answer for the others, unless it waited for long without one. err may be the cause
	// of the end, or the timeout of a client, so it does not tell.
	if err != nil && ctx.Err() != nil && (ctx.Err() == context.Canceled || scope != stream.UnknownScope || time.Since(began) < unknownInterval) {
		return err
	}
	rest := resetInterval
	switch {
	case err == nil:
		l.scope.Store(int32(scope))
		if scope == stream.UnknownScope {
			rest = unknownInterval
		}
	case !apierrors.IsForbidden(err):
		rest = unknownInterval
	}
	l.unknown, l.until = err, time.Now().Add(rest)
	return err
}

// forget discards what is known about the kind.
func (l *learned) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kind.Store(nil)
	l.scope.Store(int32(stream.UnknownScope))
	l.unknown, l.until = nil, time.Time{}
	l.misses++
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
