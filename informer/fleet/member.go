package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Reason is why a kind is not served.
type Reason string

const (
	// Unknown means that the server has not said yet what it serves, or does not answer.
	Unknown Reason = "Unknown"
	// NotInstalled means that no CustomResourceDefinition and no API defines the kind. If one did
	// before, its objects are deleted.
	NotInstalled Reason = "NotInstalled"
	// NotEstablished means that there is a definition that the server has not accepted.
	NotEstablished Reason = "NotEstablished"
	// NoVersion means that the wanted version, or each version, is not served.
	NoVersion Reason = "NoVersion"
	// Unavailable means that the server of an aggregated API does not work.
	Unavailable Reason = "Unavailable"
	// NoWatch means that objects of the kind cannot be listed and watched.
	NoWatch Reason = "NoWatch"
	// NoNamespaces means that a namespace was selected of a kind that has none.
	NoNamespaces Reason = "NoNamespaces"
	// Refused means that the definition says that the kind is served, but the server answers 404.
	Refused Reason = "Refused"
)

// NotServedError says that the server does not serve a kind, so that its informer stands still: the
// cache has the last objects, or none if they are known to be deleted. The informer goes on by itself
// as soon as the kind is served. errors.Is recognizes [reflector.ErrNotServed].
type NotServedError struct {
	// Kind is the wanted kind.
	Kind schema.GroupVersionKind
	// Reason is why it is not served, and Detail says more, such as the message of the server.
	Reason Reason
	Detail string
	// Err is why discovery failed; otherwise nil.
	Err error
}

// Error names the kind, the reason, and what happens next.
func (e *NotServedError) Error() string {
	kind := e.Kind.GroupKind().String()
	if e.Kind.Version != "" {
		kind = e.Kind.Kind + "." + e.Kind.Version + "." + e.Kind.Group
	}
	text := fmt.Sprintf("%s is not served (%s): %s", kind, e.Reason, e.Detail)
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	return text + "; the informer goes on when it is served"
}

// Unwrap returns [reflector.ErrNotServed] and Err.
func (e *NotServedError) Unwrap() []error {
	if e.Err == nil {
		return []error{reflector.ErrNotServed}
	}
	return []error{reflector.ErrNotServed, e.Err}
}

// same reports whether two errors say the same; nil means that the kind is served.
func (e *NotServedError) same(other *NotServedError) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Reason == other.Reason && e.Detail == other.Detail
}

// heldState says what the objects in the cache are to a reflector that begins.
type heldState int

const (
	// current objects were read as the reflector will read them, or there are none: it may resume.
	current heldState = iota
	// ofOtherDefinition means that a watch could show changes of a later definition as if they were of
	// the one from which the objects were read.
	ofOtherDefinition
	// inOtherVersion means that the objects differ from what the server shows now, under the same
	// resource versions and with the same hashes, which leave out the apiVersion.
	inOtherVersion
)

// source is a reflector of any type.
type source interface {
	feed.Feed
	Covers(store.Key) bool
	Lookup(context.Context, store.Key) (types.UID, bool, error)
	Selects(metav1.Object) bool
	ClusterScoped() bool
	CatchUp(context.Context, time.Time) error
	OnChange(func())
}

// member is a wanted informer and the feed of its cache: a reflector while the kind is served, and
// nothing otherwise.
type member struct {
	identity    identity
	definitions *definitions
	logger      *zap.Logger
	informer    informer.Runnable // an *informer.Informer of the form
	runInformer func(context.Context) error
	// reflect makes a reflector for a served resource, and drop removes the objects of a deleted
	// definition, up to a version.
	reflect func(to resolution, held heldState) (source, error)
	drop    func(upTo string) error
	synced  *lifecycle.Latch

	// The fields below are guarded by Fleet.mu.
	owners int
	idle   *time.Timer        // removes the member; nil while it has owners
	stop   context.CancelFunc // nil unless the informer runs

	// poked has a value if the resolution may have changed.
	poked    chan struct{}
	changes  lifecycle.Changes
	onChange func() // set before Run; never nil then

	// Only Run uses the next two, which outlive it: filled is what the objects in the cache were read
	// from, or zero if they are dropped; hasFilled is true if there ever was such a thing.
	filled    resolution
	hasFilled bool

	mu       sync.Mutex
	working  resolution         // with which Run works; guarded by mu
	cancel   context.CancelFunc // ends the reflector; nil without one. Guarded by mu
	source   source             // the reflector; nil if the kind is not served. Guarded by mu
	dropped  bool               // the objects are known to be deleted; guarded by mu
	since    time.Time          // since when there is no reflector; guarded by mu
	lastErr  error              // guarded by mu
	lastTime time.Time          // guarded by mu
}

// pauses of a member whose kind is defined, while the server answers 404: it may lag behind its
// definition for seconds. If nothing tells of changes of the definition, discovery must not be asked
// more than once a minute.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// Run implements [feed.Feed]. Each round takes the newest resolution of the kind, and lasts until that
// changes.
func (m *member) Run(ctx context.Context) error {
	defer m.leaveSource(nil)
	pause := firstPause
	for ctx.Err() == nil {
		to := m.definitions.resolve(m.identity, m.filled)
		if to.problem != nil && m.filled.uid != "" {
			if upTo, deleted := m.definitions.isDeleted(m.filled); deleted {
				if err := m.drop(upTo); err != nil {
					return fmt.Errorf("objects of a deleted definition: %w", err)
				}
				m.filled = resolution{}
				m.mu.Lock()
				m.dropped = true
				m.mu.Unlock()
			}
		}
		m.enter(to)
		if to.problem != nil {
			m.wait(ctx, 0)
			continue
		}
		err := m.follow(ctx, to)
		if !errors.Is(err, reflector.ErrNotServed) {
			if err != nil {
				return err
			}
			pause = firstPause
			continue // ctx has ended, or the resolution has changed
		}
		m.enter(resolution{kind: to.kind, problem: &NotServedError{Kind: m.identity.kind, Reason: Refused, Detail: "the server answers 404 although the kind is defined"}})
		if to.definition == "" {
			m.definitions.distrust() // the answer may have been older than the end of a definition
		}
		if !m.definitions.follows() {
			pause = pollPause
		}
		m.wait(ctx, pause)
		pause = min(2*pause, lastPause)
	}
	return nil
}

// follow runs a reflector until ctx ends or the resolution changes.
func (m *member) follow(ctx context.Context, to resolution) error {
	held := current
	switch {
	case !m.hasFilled:
	case m.filled.resource != to.resource:
		held = inOtherVersion
	case m.filled.uid != to.uid:
		held = ofOtherDefinition
	}
	from, err := m.reflect(to, held)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from.OnChange(m.onChange)
	m.mu.Lock()
	m.source, m.cancel, m.dropped = from, cancel, false
	m.mu.Unlock()
	m.announce()
	defer m.leaveSource(from)
	if m.takePoke() && !m.definitions.resolve(m.identity, m.filled).same(to) {
		return nil // it changed before there was something to cancel
	}
	m.filled, m.hasFilled = to, true
	if !m.synced.IsSet() {
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer cancel()
		waiting.Go(func() {
			select {
			case <-from.Synced():
				m.synced.Set()
			case <-ctx.Done():
			}
		})
	}
	return from.Run(ctx)
}

// leaveSource records that a reflector has ended.
func (m *member) leaveSource(from source) {
	m.mu.Lock()
	if from != nil {
		if state := from.State(); state.LastErr != nil {
			m.lastErr, m.lastTime = state.LastErr, state.LastErrTime
		}
	}
	m.source, m.cancel, m.since = nil, nil, time.Now()
	m.mu.Unlock()
	m.announce()
}

// enter makes a resolution the current one, and logs it if it says something else than the last one.
func (m *member) enter(to resolution) {
	m.mu.Lock()
	was := m.working
	m.working = to
	if to.problem != nil && !to.problem.same(was.problem) {
		m.lastErr, m.lastTime = to.problem, time.Now()
	}
	m.mu.Unlock()
	if to.problem.same(was.problem) && to.resource == was.resource {
		return
	}
	m.announce()
	m.definitions.wake() // discovery may know more
	kind := zap.Stringer("kind", m.identity)
	if to.problem == nil {
		m.logger.Info("kind is served", kind, zap.String("version", to.resource.Version))
	} else if to.problem.Reason != Unknown || to.problem.Err != nil {
		m.logger.Info("kind is not served", kind, zap.String("reason", string(to.problem.Reason)), zap.Error(to.problem))
	}
}

// wait waits for a poke, for the end of ctx, or for a pause unless it is 0.
func (m *member) wait(ctx context.Context, pause time.Duration) {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-m.poked:
	case <-over:
	case <-ctx.Done():
	}
}

// poke makes the member resolve its kind again, because something has changed. The value in poked comes
// first: if Run is between its look and the start of a reflector, it finds the value there.
func (m *member) poke() {
	select {
	case m.poked <- struct{}{}:
	default:
	}
	to := m.definitions.resolve(m.identity, m.workingResolution())
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel != nil && !to.same(m.working) {
		m.cancel()
	}
}

func (m *member) takePoke() bool {
	select {
	case <-m.poked:
		return true
	default:
		return false
	}
}

func (m *member) workingResolution() resolution {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.working
}

// isServed reports whether the member knows what to read.
func (m *member) isServed() bool {
	to := m.workingResolution()
	return to.problem == nil && to.resource.Resource != ""
}

// State implements [feed.Feed]. Without a reflector, the phase is Stopped, and Err says why.
func (m *member) State() reflector.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stateLocked()
}

func (m *member) stateLocked() reflector.State {
	if m.source != nil {
		return m.source.State()
	}
	s := reflector.State{Phase: reflector.Stopped, Since: m.since, LastErr: m.lastErr, LastErrTime: m.lastTime}
	if m.working.problem != nil {
		s.Err = m.working.problem
	}
	return s
}

// Changed implements [feed.Feed].
func (m *member) Changed(seen reflector.State) <-chan struct{} {
	changed := m.changes.Next() // before the look, so that no change in between is missed
	m.mu.Lock()
	now, from := m.stateLocked(), m.source
	m.mu.Unlock()
	same := now
	same.ResourceVersion, same.LastContact = seen.ResourceVersion, seen.LastContact // they change all the time
	if same != seen {
		return lifecycle.Closed()
	}
	if from != nil {
		return from.Changed(now) // it changes when it ends, too
	}
	return changed
}

// OnChange sets a function that is called after each change of the state.
func (m *member) OnChange(fn func()) { m.onChange = fn }

// announce tells those who follow the state that it has changed.
func (m *member) announce() {
	m.changes.Announce()
	m.onChange()
}

// Synced implements [feed.Feed].
func (m *member) Synced() <-chan struct{} { return m.synced.Done() }

// serving returns the reflector, or why there is none.
func (m *member) serving() (from source, dropped bool, problem error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.source == nil && m.working.problem != nil {
		return nil, m.dropped, m.working.problem
	}
	return m.source, m.dropped, nil
}

// Covers reports whether the cache would hold an existing object: see informer.Covers. After the
// definition was deleted, no object exists.
func (m *member) Covers(key store.Key) bool {
	from, dropped, _ := m.serving()
	return from == nil && dropped || from != nil && from.Covers(key)
}

// Lookup asks the server for an object: see informer.Gone.
func (m *member) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	from, dropped, problem := m.serving()
	switch {
	case from != nil:
		return from.Lookup(ctx, key)
	case dropped:
		return "", false, nil
	case problem != nil:
		return "", false, problem
	}
	return "", false, errNotRunning
}

var errNotRunning = errors.New("fleet does not run")

// Selects reports whether the cache may come to hold an object.
func (m *member) Selects(object metav1.Object) bool {
	from, _, _ := m.serving()
	return from == nil || from.Selects(object)
}

// ClusterScoped reports whether the objects are known to have no namespaces.
func (m *member) ClusterScoped() bool {
	return m.isServed() && !m.workingResolution().namespaced
}

// CatchUp waits until the cache is current: see informer.CatchUp.
func (m *member) CatchUp(ctx context.Context, since time.Time) error {
	from, dropped, problem := m.serving()
	switch {
	case from != nil:
		return from.CatchUp(ctx, since)
	case dropped:
		return nil
	}
	return problem
}

// isNewer reports whether a resource version is newer than another one. Versions that cannot be
// compared are not.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
