package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// DefaultLag is how long an informer goes on without owners, unless [WithLag] says otherwise.
const DefaultLag = 30 * time.Second

var (
	// ErrLeft means that an owner wants a kind, or waits for one, after it has left.
	ErrLeft = errors.New("owner has left the fleet: make a new one with NewOwner")
	// ErrKind means that a wanted kind has no name, or no version although T is the type of one.
	ErrKind = errors.New("kind is incomplete: set Kind and Group, and Version where T is a Go type of one version")
)

// Selection is the part of a kind that an owner wants. The zero value is all of it.
type Selection struct {
	// Namespace limits the objects to one namespace. If the kind has no namespaces, the informer stays
	// empty, and its Ready fails with the reason NoNamespaces.
	Namespace string
	// Labels and Fields select objects; nil selects all of them.
	Labels labels.Selector
	Fields fields.Selector
}

// Option configures [New].
type Option interface{ apply(*Fleet) }

type optionFunc func(*Fleet)

func (f optionFunc) apply(to *Fleet) { f(to) }

// WithLag sets how long an informer goes on after its last owner has left. If somebody wants the kind
// within that time, nothing is listed again. The default is [DefaultLag]; 0 stops it at once.
func WithLag(d time.Duration) Option {
	return optionFunc(func(f *Fleet) { f.lag = d })
}

// WithLogger sets the logger of the fleet and of its informers. The fleet logs one line when a kind
// begins or ceases to be served. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(f *Fleet) {
		if logger != nil {
			f.logger = logger
		}
	})
}

// WithInformerOptions sets options of all informers. The fleet itself sets their names and loggers, and,
// for their reflectors, the selectors and [reflector.WithRetry].
func WithInformerOptions(opts ...informer.Option) Option {
	return optionFunc(func(f *Fleet) { f.informerOptions = append(f.informerOptions, opts...) })
}

// WithClientOptions sets options of the clients of all kinds, such as [client.WithoutManagedFields].
func WithClientOptions(opts ...client.ResourceOption) Option {
	return optionFunc(func(f *Fleet) { f.clientOptions = append(f.clientOptions, opts...) })
}

// Fleet has the informers of all kinds that its owners want. See the package documentation for its
// guarantees. Create one with [New].
type Fleet struct {
	config          *rest.Config
	http            *http.Client // shared by all kinds
	logger          *zap.Logger
	lag             time.Duration
	informerOptions []informer.Option
	clientOptions   []client.ResourceOption
	definitions     *definitions
	running         lifecycle.Running

	// mu protects the fields below it. No informer is called while it is held.
	mu      sync.Mutex
	members map[identity]*member
	forms   map[reflect.Type]bool // that can hold objects
	run     *run                  // nil unless Run runs
}

// run is one call of Run.
type run struct {
	ctx     context.Context
	members sync.WaitGroup
}

// identity tells informers apart: owners share one if all of it is equal.
type identity struct {
	kind                      schema.GroupVersionKind
	form                      reflect.Type
	namespace, labels, fields string
}

// String names the informer in logs and errors.
func (id identity) String() string {
	text := nameOf(id.kind)
	if id.form != reflect.TypeFor[*unstructured.Unstructured]() {
		text += " as " + id.form.String()
	}
	for _, part := range []struct{ name, value string }{{"namespace", id.namespace}, {"labels", id.labels}, {"fields", id.fields}} {
		if part.value != "" {
			text += ", " + part.name + " " + part.value
		}
	}
	return text
}

// nameOf returns the name of a kind, such as Widget.v1.example.com; without a version if it has none.
func nameOf(kind schema.GroupVersionKind) string {
	parts := []string{kind.Kind, kind.Version, kind.Group}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ".")
}

// New returns a fleet without informers. It returns an error if the config is invalid. All kinds share
// one HTTP client. Without QPS in the config, requests are not limited.
func New(config *rest.Config, opts ...Option) (*Fleet, error) {
	f := &Fleet{logger: zap.NewNop(), lag: DefaultLag, members: map[identity]*member{}, forms: map[reflect.Type]bool{}}
	for _, opt := range opts {
		opt.apply(f)
	}
	if config == nil {
		return nil, fmt.Errorf("fleet: config: %w", lifecycle.ErrIncomplete)
	}
	f.config = rest.CopyConfig(config)
	if f.config.UserAgent == "" {
		f.config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	http, err := rest.HTTPClientFor(f.config)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	f.http = restguard.Client(http, restguard.FewConnections)
	if f.definitions, err = newDefinitions(f); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return f, nil
}

// Run follows the definitions and runs the informers of wanted kinds until ctx ends. It then lets
// handlers finish, as [informer.Informer.Run] does, and returns when all of them have. Run may be
// called again; what is wanted stays wanted meanwhile.
func (f *Fleet) Run(ctx context.Context) error {
	end, err := f.running.Begin("fleet")
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{ctx: ctx}
	f.mu.Lock()
	f.run = r
	for _, m := range f.members {
		f.startLocked(m)
	}
	f.mu.Unlock()

	f.definitions.run(ctx)

	f.mu.Lock()
	f.run = nil // no further member starts
	f.mu.Unlock()
	r.members.Wait()
	return nil
}

// startLocked runs the informer of a member.
func (f *Fleet) startLocked(m *member) {
	ctx, stop := context.WithCancel(f.run.ctx)
	m.stop = stop
	f.run.members.Go(func() {
		defer stop()
		err := feed.ErrAbandoned // remains if Run calls runtime.Goexit
		defer func() { f.noteEnd(ctx, m, err) }()
		err = m.runInformer(ctx)
	})
}

// noteEnd removes a member whose informer has failed, so that a later Want tries again.
func (f *Fleet) noteEnd(ctx context.Context, m *member, err error) {
	if err == nil {
		return
	}
	f.logger.Error("informer ended", zap.Stringer("kind", m.identity), zap.Error(err))
	if ctx.Err() != nil {
		return // handlers had events left
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members[m.identity] == m {
		delete(f.members, m.identity)
	}
}

// WaitForSync waits until the fleet has the definitions of kinds and APIs, or knows that it may not watch
// them. [Owner.WaitForSync] waits for the objects of the kinds.
func (f *Fleet) WaitForSync(ctx context.Context) error {
	f.definitions.mu.Lock()
	known := f.definitions.known
	f.definitions.mu.Unlock()
	return known.Wait(ctx, f.Ready)
}

// Ready returns nil if the fleet follows which kinds the server serves. It says nothing about single
// kinds: see [Owner.Ready].
func (f *Fleet) Ready() error { return f.definitions.ready() }

// Stopped returns a channel that is closed as long as Run does not fill the caches, as that of
// [informer.Informer.Stopped]. So package manager ends a fleet after the members that read these caches.
func (f *Fleet) Stopped() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == nil {
		return lifecycle.Closed()
	}
	return f.run.ctx.Done()
}

var _ informer.Runnable = (*Fleet)(nil)

// Owner is a part of a program that wants kinds, such as one rule of a policy engine. Create one with
// [Fleet.NewOwner].
type Owner struct {
	fleet *Fleet
	name  string
	stop  func() bool // of the context's AfterFunc

	// The fields below are guarded by Fleet.mu.
	left  bool
	wants map[identity]*want
	round int // calls of EndRound
}

// want is the interest of an owner in a member.
type want struct {
	owner  *Owner
	member *member
	round  int // the owner's round in which Want was called last; guarded by Fleet.mu

	mu            sync.Mutex
	over          chan struct{} // closed at the end, while mu is held
	subscriptions []owned       // guarded by mu
}

// owned is a subscription of an owner.
type owned struct {
	subscription
	handles bool // it has a handler; otherwise its owner pulls
}

// subscription is an [informer.Subscription] of any type.
type subscription interface {
	Close()
	Done() <-chan struct{}
	Synced() <-chan struct{}
}

// NewOwner returns an owner that leaves when ctx ends, or when it calls Leave. The name is for logs and
// errors.
func (f *Fleet) NewOwner(ctx context.Context, name string) *Owner {
	o := &Owner{fleet: f, name: name, wants: map[identity]*want{}}
	o.stop = context.AfterFunc(ctx, o.leaveAll)
	return o
}

// Wanted is an informer in which one owner is interested. Other owners may share it. Subscribe by the
// methods of Wanted: they close the subscription when the owner leaves. The fleet runs the informer.
type Wanted[T any] struct {
	*informer.Informer[T]
	want *want
}

// Want returns the informer of a kind, which begins to work if no other owner has wanted it. T is the
// form of the objects: [*unstructured.Unstructured] for any kind, [*metav1.PartialObjectMetadata] for
// their metadata alone, or the Go type of a version of the kind. Owners share an informer if they want
// the same kind, version, selection and form; otherwise each has a watch and a cache of its own.
//
// If the kind has no version, the server's preferred one is used, and kept as long as the server serves
// it. The kind need not exist: until the server serves it, the informer waits without requests.
//
// A second Want of an owner returns the same informer. Subscribe once: each Handle is another subscriber.
//
// Want may be called before Run, and from a handler. It returns [ErrLeft], [ErrKind], or an error of
// [client.ForResource] if T cannot hold objects.
func Want[T reflector.Object](o *Owner, kind schema.GroupVersionKind, selection Selection) (*Wanted[T], error) {
	if kind.Kind == "" || kind.Version == "" && isTyped[T]() {
		return nil, fmt.Errorf("owner %s wants %s: %w", o.name, nameOf(kind), ErrKind)
	}
	id := identity{kind: kind, form: reflect.TypeFor[T](), namespace: selection.Namespace, labels: textOf(selection.Labels), fields: textOf(selection.Fields)}
	f := o.fleet
	var ended *want // in an informer that ended with an error
	defer func() {
		if ended != nil {
			ended.end()
		}
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.left {
		return nil, fmt.Errorf("owner %s wants %s: %w", o.name, id, ErrLeft)
	}
	w := o.wants[id]
	if w != nil && f.members[id] != w.member {
		delete(o.wants, id)
		w, ended = nil, w
	}
	if w == nil {
		m := f.members[id]
		if m == nil {
			if !f.forms[id.form] {
				// A client that sends nothing: it says whether T can hold objects.
				if _, err := clientOf[T](f, resolution{resource: kind.GroupVersion().WithResource("any"), kind: kind}, ""); err != nil {
					return nil, fmt.Errorf("owner %s: %w", o.name, err)
				}
				f.forms[id.form] = true
			}
			m = newMember[T](f, id, selection)
			f.members[id] = m
			if f.run != nil {
				f.startLocked(m)
			}
		}
		if m.idle != nil {
			m.idle.Stop()
			m.idle = nil
		}
		m.owners++
		w = &want{owner: o, member: m, over: make(chan struct{})}
		o.wants[id] = w
	}
	w.round = o.round
	f.definitions.requestDiscovery()
	return &Wanted[T]{Informer: w.member.informer.(*informer.Informer[T]), want: w}, nil
}

// textOf returns the text of a selector. One that selects nothing gets a text of its own: it must not
// share the informer of one that selects everything. Its informer ends with reflector.ErrNothingSelected.
func textOf(s interface {
	Empty() bool
	String() string
}) string {
	if stream.IsNil(s) || s.Empty() {
		return ""
	}
	if text := s.String(); text != "" {
		return text
	}
	return "(nothing)" // no selector has this text
}

// isTyped reports whether T is the type of one version of a kind.
func isTyped[T any]() bool {
	switch any(*new(T)).(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return false
	}
	return true
}

// Handle is [informer.Informer.Handle] until the owner leaves.
func (w *Wanted[T]) Handle(handler informer.Handler[T], opts ...informer.SubscriptionOption) *informer.Subscription[T] {
	return w.HandleFiltered(nil, handler, opts...)
}

// HandleFiltered is [informer.Informer.HandleFiltered] until the owner leaves.
func (w *Wanted[T]) HandleFiltered(keep func(T) bool, handler informer.Handler[T], opts ...informer.SubscriptionOption) *informer.Subscription[T] {
	over := w.want.over
	s := w.Informer.HandleFiltered(keep, informer.HandlerFunc[T](func(ctx context.Context, event eventqueue.Event[T]) error {
		if lifecycle.IsClosed(over) { // the owner left before add, which closes the subscription
			return nil
		}
		return handler.Handle(ctx, event)
	}), opts...)
	w.want.add(s, true)
	return s
}

// Subscribe is [informer.Informer.Subscribe] until the owner leaves.
func (w *Wanted[T]) Subscribe(opts ...informer.SubscriptionOption) *informer.Subscription[T] {
	return w.SubscribeFiltered(nil, opts...)
}

// SubscribeFiltered is [informer.Informer.SubscribeFiltered] until the owner leaves.
func (w *Wanted[T]) SubscribeFiltered(keep func(T) bool, opts ...informer.SubscriptionOption) *informer.Subscription[T] {
	s := w.Informer.SubscribeFiltered(keep, opts...)
	w.want.add(s, false)
	return s
}

// add makes the end of the interest the end of a subscription.
func (w *want) add(s subscription, handles bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lifecycle.IsClosed(w.over) {
		s.Close()
		return
	}
	if len(w.subscriptions) == cap(w.subscriptions) { // forget those that were closed
		w.subscriptions = slices.DeleteFunc(w.subscriptions, func(one owned) bool { return lifecycle.IsClosed(one.Done()) })
	}
	w.subscriptions = append(w.subscriptions, owned{s, handles})
}

// end closes the subscriptions.
func (w *want) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.over)
	for _, s := range w.subscriptions {
		s.Close()
	}
	w.subscriptions = nil
}

// Leave ends the interest of the owner in this informer alone.
func (w *Wanted[T]) Leave() { w.want.owner.leave(func(one *want) bool { return one == w.want }, false) }

// Leave ends the interest of the owner in all kinds, closes its subscriptions, and returns at once: a
// handler may still be running. It may be called from a handler, and more than once.
func (o *Owner) Leave() {
	o.stop()
	o.leaveAll()
}

func (o *Owner) leaveAll() { o.leave(func(*want) bool { return true }, true) }

// EndRound ends a round of an owner that finds out what it wants each time that it works, such as a
// reconcile function for one object. If err is nil, the owner leaves each kind that it has not wanted in
// this round. After an error it keeps them all, because the round may not have come far enough.
func (o *Owner) EndRound(err error) {
	o.fleet.mu.Lock()
	round := o.round
	o.round++
	o.fleet.mu.Unlock()
	if err == nil {
		o.leave(func(w *want) bool { return w.round < round }, false)
	}
}

// leave ends those wants of the owner that a function chooses.
func (o *Owner) leave(chosen func(*want) bool, forGood bool) {
	f := o.fleet
	f.mu.Lock()
	var ended []*want
	o.left = o.left || forGood
	for id, w := range o.wants {
		if chosen(w) {
			ended = append(ended, w)
			delete(o.wants, id)
		}
	}
	f.mu.Unlock()
	// The subscriptions end first, so that an informer without owners has none.
	for _, w := range ended {
		w.end()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range ended {
		m := w.member
		if m.owners--; m.owners == 0 {
			m.pauses++
			pause := m.pauses
			m.idle = time.AfterFunc(f.lag, func() { f.remove(m, pause) })
		}
	}
}

// remove stops a member that nobody has wanted for the lag. A timer of an earlier pause may fire while Want stops it.
func (f *Fleet) remove(m *member, pause int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.owners > 0 || m.pauses != pause || f.members[m.identity] != m {
		return
	}
	delete(f.members, m.identity)
	if m.stop != nil {
		m.stop()
	}
}

// all returns the members.
func (f *Fleet) all() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.members))
}

// Kinds returns what the owner wants, in words, sorted.
func (o *Owner) Kinds() []string {
	o.fleet.mu.Lock()
	defer o.fleet.mu.Unlock()
	var all []string
	for id := range o.wants {
		all = append(all, id.String())
	}
	slices.Sort(all)
	return all
}

// WaitForSync waits until the caches of all kinds that the owner wants are filled, and its own handlers
// have got their objects. When ctx ends, the error names each kind that is missing, and why: it is not
// installed, not served, forbidden, or its lists fail. Give ctx a deadline: a kind may never come. If the owner
// leaves, the error is [ErrLeft].
func (o *Owner) WaitForSync(ctx context.Context) error {
	waited := map[*want]bool{}
	var err error
	for before := -1; err == nil && len(waited) > before; { // what it wants meanwhile counts, too
		before = len(waited)
		err = o.each(func(w *want) error {
			if waited[w] {
				return nil
			}
			waited[w] = true
			return w.waitForSync(ctx)
		})
	}
	o.fleet.mu.Lock()
	defer o.fleet.mu.Unlock()
	if o.left {
		return fmt.Errorf("owner %s: %w", o.name, ErrLeft)
	}
	return err
}

// Ready returns nil if the program can rely on the caches of all kinds that the owner wants, and all
// subscribers of their informers have got the first objects: see [informer.Informer.Ready]. A kind that is
// not served is not ready, and the error says why.
func (o *Owner) Ready() error {
	return o.each(func(w *want) error { return errors.Join(w.member.failure(), w.member.informer.Ready()) })
}

func (o *Owner) each(ask func(*want) error) error {
	o.fleet.mu.Lock()
	wants := slices.Collect(maps.Values(o.wants))
	o.fleet.mu.Unlock()
	slices.SortFunc(wants, func(a, b *want) int { return strings.Compare(a.member.identity.String(), b.member.identity.String()) })
	var errs []error
	for _, w := range wants {
		if err := ask(w); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("owner %s: %w", o.name, err)
	}
	return nil
}

// waitForSync waits for the cache, and for the owner's own handlers: those of other owners may be slow. It waits
// no longer than the owner wants the kind.
func (w *want) waitForSync(ctx context.Context) error {
	m := w.member
	for {
		state := m.State()
		if err := m.failure(); err != nil {
			return err
		}
		synced := m.synced.Done()
		if m.synced.IsSet() {
			if state.Phase != reflector.Stopped || !errors.Is(state.Err, reflector.ErrNotServed) {
				break
			}
			synced = nil // it was filled before, and is not served now
		}
		select {
		case <-synced:
		case <-m.Changed(state):
		case <-w.over:
			return nil
		case <-ctx.Done():
			if synced == nil {
				return errors.Join(m.informer.Ready(), context.Cause(ctx))
			}
			return m.informer.WaitForSync(ctx)
		}
	}
	w.mu.Lock()
	own := slices.Clone(w.subscriptions)
	w.mu.Unlock()
	for _, s := range own {
		if !s.handles {
			continue
		}
		select {
		case <-s.Synced():
		case <-s.Done():
		case <-ctx.Done():
			return m.informer.WaitForSync(ctx)
		}
	}
	return nil
}

// newMember returns the informer of an identity, which does not run.
func newMember[T reflector.Object](f *Fleet, id identity, selection Selection) *member {
	m := &member{identity: id, definitions: f.definitions, logger: f.logger, rechecks: make(chan struct{}, 1), synced: lifecycle.NewLatch(), made: time.Now()}
	opts := append(slices.Clone(f.informerOptions), informer.WithName(id.String()), informer.WithLogger(f.logger))
	made := informer.NewFed(nil, store.ObjectKey[T], func(target feed.Target[T]) feed.Group {
		m.reflect = func(to resolution, held heldState) (source, error) {
			from, err := clientOf[T](f, to, id.namespace)
			if err != nil {
				return nil, err
			}
			own := append(slices.Clone(target.Reflector),
				reflector.WithLabelSelector(selection.Labels), reflector.WithFieldSelector(selection.Fields),
				reflector.WithRetry(func(err error) bool { return !errors.Is(err, reflector.ErrNotServed) }))
			into := target.Into
			if held != current {
				own = append(own, reflector.WithInitialList())
			}
			if held == inOtherVersion {
				into = unhashed[T]{into}
			}
			return reflector.New(from, store.Store[T](into), own...), nil
		}
		m.drop = func(end ending) (bool, error) { return drop(target, end) }
		return feed.New(m)
	}, opts...)
	m.informer, m.runInformer = made, made.Run
	return m
}

// unhashed is a store that compares all objects by their contents. The hashes by which a reflector and a
// cache spare that leave out the apiVersion.
type unhashed[T any] struct{ store.BatchStore[T] }

func (s unhashed[T]) Has(store.Key, store.Version, uint64) bool { return false }

func (s unhashed[T]) BeginBatch(_ store.Store[T], replace bool) store.Batch[T] {
	return unhashedBatch[T]{s.BatchStore.BeginBatch(s.BatchStore, replace)}
}

type unhashedBatch[T any] struct{ store.Batch[T] }

func (b unhashedBatch[T]) Write(w store.Write[T]) error {
	w.Hash = 0
	return b.Batch.Write(w)
}

// clientOf returns the client of a resource.
func clientOf[T reflector.Object](f *Fleet, to resolution, namespace string) (*client.Resource[T], error) {
	opts := append([]client.ResourceOption{client.WithHTTPClient(f.http)}, f.clientOptions...)
	if to.kind.Version != "" {
		opts = append(opts, client.WithKind(to.kind))
	}
	return client.ForResource[T](f.config, to.resource, namespace, opts...)
}

// drop removes the objects of a deleted definition. all reports whether there were no others.
func drop[T reflector.Object](target feed.Target[T], end ending) (all bool, err error) {
	var kept []T
	for _, object := range target.Cache.All() {
		if !end.before(object) {
			kept = append(kept, object)
		}
	}
	return len(kept) == 0, target.Into.Replace(kept, target.Cache.ResourceVersion())
}
