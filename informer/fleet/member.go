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
)

// Reason is why a kind is not served.
type Reason string

const (
	// Unknown means that the server has not said yet what it serves, or does not answer.
	Unknown Reason = "Unknown"
	// NotInstalled means that no CustomResourceDefinition and no API defines the kind. Whether its
	// objects are deleted is another question: the cache has none if they are known to be.
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
	// Unread means that nothing keeps the cache up to date yet: the kind is served again, or in another
	// version, and has not been listed since.
	Unread Reason = "Unread"
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
	text := fmt.Sprintf("%s is not served (%s): %s", nameOf(e.Kind), e.Reason, e.Detail)
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
	// ofOtherDefinition means that the definition was made again since: a watch would mix its objects with
	// those of the earlier one.
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
	made        time.Time
	// reflect makes a reflector for a served resource, and drop removes the objects of a deleted
	// definition, and reports whether that were all.
	reflect func(to resolution, held heldState) (source, error)
	drop    func(end ending) (all bool, err error)
	synced  *lifecycle.Latch

	// The fields below are guarded by Fleet.mu.
	owners int
	idle   *time.Timer        // removes the member; nil while it has owners
	pauses int                // how often it has ceased to have owners
	stop   context.CancelFunc // nil unless the informer runs

	// rechecks has a value if the resolution may have changed.
	rechecks chan struct{}
	changes  lifecycle.Changes
	onChange func() // set before Run; never nil then

	// Only Run uses the next three, which outlive it. filled is what the objects in the cache were read
	// from, or zero if they are dropped; without a resource, only their definition is known. hasFilled is true if
	// there ever was such a thing. logged is the problem that the log says last.
	filled    resolution
	hasFilled bool
	logged    *NotServedError

	mu       sync.Mutex
	working  resolution         // with which Run works; guarded by mu
	version  string             // in which the kind was served last; guarded by mu
	cancel   context.CancelFunc // ends the reflector; nil without one, and once it was called. Guarded by mu
	source   source             // the reflector; nil if the kind is not served. Guarded by mu
	ended    chan struct{}      // closed when source ends; guarded by mu
	unread   *NotServedError    // while no reflector keeps a filled cache up to date; nil unless Run runs. Guarded by mu
	dropped  bool               // the objects are known to be deleted; guarded by mu
	since    time.Time          // since when there is no reflector; guarded by mu
	failed   error              // why Run has ended by itself; guarded by mu
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

// Run implements [feed.Feed].
func (m *member) Run(ctx context.Context) error {
	m.mu.Lock()
	m.failed = nil
	m.outdateLocked()
	m.mu.Unlock()
	err := feed.ErrAbandoned // remains if a function of the program calls runtime.Goexit
	defer func() {
		m.mu.Lock()
		m.failed = err
		m.mu.Unlock()
		m.leaveSource(nil, false)
	}()
	err = m.followKind(ctx)
	return err
}

// followKind follows a kind until ctx ends. Each round takes the newest resolution of the kind, and lasts
// until that changes.
func (m *member) followKind(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		to := m.definitions.resolve(m.identity, m.filled)
		if m.filled.uid != "" && m.filled.uid != to.uid {
			if err := m.dropDeleted(); err != nil {
				return err
			}
		}
		m.enter(to)
		if to.problem != nil {
			m.wait(ctx, 0, to)
			continue
		}
		read, err := m.follow(ctx, to)
		if read {
			pause = firstPause
		}
		if !errors.Is(err, reflector.ErrNotServed) {
			if err != nil {
				return err
			}
			continue // ctx has ended, or the resolution has changed
		}
		m.enter(resolution{kind: to.kind, problem: &NotServedError{Kind: m.identity.kind, Reason: Refused, Detail: "the server answers 404 although the kind is defined"}})
		if to.definition == "" {
			m.definitions.markOutdated() // the answer may have been older than the end of a definition
		}
		if !m.definitions.followsKind(to) {
			pause = pollPause
		}
		m.wait(ctx, pause, to)
		pause = min(2*pause, lastPause)
	}
	return nil
}

// dropDeleted removes the objects of a definition that is deleted.
func (m *member) dropDeleted() error {
	end, deleted := m.definitions.isDeleted(m.filled)
	if !deleted {
		return nil
	}
	all, err := m.drop(end)
	if err != nil {
		return fmt.Errorf("objects of a deleted definition: %w", err)
	}
	later := resolution{definition: m.filled.definition, uid: m.filled.uid} // asked again until the later one is known
	if end.later != nil {
		later.uid = end.later.UID
	}
	m.filled = resolution{}
	if !all {
		m.filled = later
	}
	m.mu.Lock()
	m.dropped = all
	m.mu.Unlock()
	return nil
}

// follow runs a reflector until ctx ends or the resolution changes, and reports whether it has read the kind.
func (m *member) follow(ctx context.Context, to resolution) (read bool, err error) {
	held := current
	switch {
	case !m.hasFilled:
	case m.filled == (resolution{}): // the objects are dropped
		held = ofOtherDefinition
	case m.filled.resource != to.resource:
		held = inOtherVersion
	case m.filled.uid != to.uid:
		held = ofOtherDefinition
	}
	from, err := m.reflect(to, held)
	if err != nil {
		return false, err
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	from.OnChange(func() { m.note(from) })
	ended := make(chan struct{})
	m.mu.Lock()
	m.source, m.ended, m.cancel, m.dropped = from, ended, cancel, false
	m.mu.Unlock()
	m.announce()
	defer close(ended)
	defer func() { m.leaveSource(from, ctx.Err() == nil) }()
	if m.takeRecheck() && !m.definitions.resolve(m.identity, m.filled).same(to) {
		return false, nil // it changed before there was something to cancel
	}
	err = from.Run(within)
	read = lifecycle.IsClosed(from.Synced())
	if read { // else the cache is as it was
		m.filled, m.hasFilled = to, true
	}
	return read, err
}

// note records what the state of a reflector says, after each of its changes.
func (m *member) note(from source) {
	if lifecycle.IsClosed(from.Synced()) {
		m.mu.Lock()
		if m.source == from && m.cancel != nil {
			m.unread = nil
		}
		m.mu.Unlock()
		m.synced.Set()
	}
	m.announce()
}

// outdateLocked records that nothing keeps the cache up to date until a reflector has read the kind again.
// Without that, the state between two reflectors would have no error, and a reader of the cache would take
// objects for current that may be deleted.
func (m *member) outdateLocked() {
	if m.synced.IsSet() && m.unread == nil { // else there are no objects
		m.unread = &NotServedError{Kind: m.identity.kind, Reason: Unread, Detail: "its objects have not been read again yet"}
	}
}

// leaveSource records that a reflector has ended, and whether Run goes on.
func (m *member) leaveSource(from source, goesOn bool) {
	m.mu.Lock()
	if from != nil {
		if state := from.State(); state.LastErr != nil {
			m.lastErr, m.lastTime = state.LastErr, state.LastErrTime
		}
	}
	m.source, m.cancel, m.since = nil, nil, time.Now()
	if goesOn {
		m.outdateLocked()
	} else {
		m.unread = nil
	}
	m.mu.Unlock()
	m.announce()
}

// enter makes a resolution the current one, and logs it if it says something else than the last one. A
// kind that is refused again and again is logged once.
func (m *member) enter(to resolution) {
	m.mu.Lock()
	was := m.working
	m.working = to
	if to.problem == nil {
		m.version = to.resource.Version
	}
	if to.problem != nil && !to.problem.same(was.problem) {
		m.lastErr, m.lastTime = to.problem, time.Now()
	}
	m.mu.Unlock()
	if to.problem.same(was.problem) && to.resource == was.resource {
		return
	}
	m.announce()
	if to.problem != nil {
		m.definitions.requestDiscovery() // it may know more
	}
	kind := zap.Stringer("kind", m.identity)
	switch {
	case to.problem == nil:
		if m.logged == nil || m.logged.Reason != Refused {
			m.logger.Info("kind is served", kind, zap.String("version", to.resource.Version))
			m.logged = nil
		}
	case to.problem.Reason == Unknown && to.problem.Err == nil, to.problem.same(m.logged):
	default:
		m.logger.Info("kind is not served", kind, zap.String("reason", string(to.problem.Reason)), zap.Error(to.problem))
		m.logged = to.problem
	}
}

// wait waits until the kind is resolved in another way or the objects in the cache are known to be deleted,
// until a pause is over unless it is 0, or for the end of ctx. A definition may be deleted and made again
// with the same problem.
func (m *member) wait(ctx context.Context, pause time.Duration, than resolution) {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-m.rechecks:
			if !m.definitions.resolve(m.identity, m.filled).same(than) {
				return
			}
			if _, deleted := m.definitions.isDeleted(m.filled); deleted && m.filled.uid != "" {
				return
			}
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// recheck makes the member resolve its kind again, because something may have changed. The value in
// rechecks comes first: if Run is between its look and the start of a reflector, it finds the value there.
func (m *member) recheck() {
	select {
	case m.rechecks <- struct{}{}:
	default:
	}
	to := m.definitions.resolve(m.identity, m.workingResolution())
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel != nil && !to.same(m.working) {
		m.cancel()
		m.cancel, m.since = nil, time.Now()
		m.outdateLocked()
	}
}

func (m *member) takeRecheck() bool {
	select {
	case <-m.rechecks:
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

// lastVersion returns the version of the objects in the cache, also while the kind is not served.
func (m *member) lastVersion() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// failure returns why Run has ended by itself, or nil.
func (m *member) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
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
	if m.source != nil && m.unread == nil {
		return m.source.State()
	}
	s := reflector.State{Phase: reflector.Stopped, Since: m.since, LastErr: m.lastErr, LastErrTime: m.lastTime}
	switch {
	case m.source != nil:
		s.Err = m.unread
		if now := m.source.State(); now.LastErr != nil {
			s.LastErr, s.LastErrTime = now.LastErr, now.LastErrTime
		}
	case m.failed != nil:
		s.Err = m.failed
	case m.working.problem != nil:
		s.Err = m.working.problem
	case m.unread != nil:
		s.Err = m.unread
	}
	return s
}

// Changed implements [feed.Feed].
func (m *member) Changed(seen reflector.State) <-chan struct{} {
	changed := m.changes.Next() // before the look, so that no change in between is missed
	now := m.State()
	now.ResourceVersion, now.LastContact = seen.ResourceVersion, seen.LastContact // they change all the time
	if now != seen {
		return lifecycle.Closed()
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

// serving returns the reflector, once it has brought the cache up to date, and its end, or why there is none.
// dropped means that no object of the kind exists: its definition was deleted, and there is no later one, whose objects
// the cache would lack.
func (m *member) serving() (from source, ended <-chan struct{}, dropped bool, problem error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.source != nil && m.unread == nil:
		return m.source, m.ended, false, nil
	case m.source == nil && m.failed != nil:
		return nil, nil, false, m.failed
	case m.source == nil && m.working.problem != nil:
		return nil, nil, m.dropped && m.working.problem.Reason == NotInstalled, m.working.problem
	}
	return nil, nil, false, nil
}

// Dropped reports whether all objects that the cache has shown were deleted with their definition. A later definition
// may have others of the same names.
func (m *member) Dropped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped
}

// Covers reports whether the cache would hold an existing object: see informer.Covers.
func (m *member) Covers(key store.Key) bool {
	from, _, dropped, _ := m.serving()
	return from == nil && dropped || from != nil && from.Covers(key)
}

// Lookup asks the server for an object: see informer.Gone.
func (m *member) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	from, _, dropped, problem := m.serving()
	switch {
	case from != nil:
		return from.Lookup(ctx, key)
	case dropped:
		return "", false, nil
	case problem != nil:
		return "", false, problem
	}
	return "", false, errUnread
}

var errUnread = errors.New("fleet does not run, or has not read the kind yet")

// Selects reports whether the cache may come to hold an object.
func (m *member) Selects(object metav1.Object) bool {
	from, _, _, _ := m.serving()
	return from == nil || from.Selects(object)
}

// ClusterScoped reports whether the objects are known to have no namespaces.
func (m *member) ClusterScoped() bool {
	return m.isServed() && !m.workingResolution().namespaced
}

// CatchUp waits until the cache is current: see informer.CatchUp. The reflector may be replaced meanwhile.
// An empty cache of a deleted definition is current if no later definition exists.
func (m *member) CatchUp(ctx context.Context, since time.Time) error {
	for {
		changed := m.changes.Next()
		var again <-chan time.Time
		from, ended, dropped, problem := m.serving()
		switch {
		case from != nil:
			err := catchUp(ctx, from, ended, since)
			if still, _, _, _ := m.serving(); err == nil || ctx.Err() != nil || still == from {
				return err
			}
			continue
		case dropped:
			if err := m.definitions.crds.CatchUp(ctx, since); err != nil {
				return err
			}
			// The cache of definitions may have one of which this member has not heard yet.
			if _, _, still, _ := m.serving(); still && m.definitions.definitionOf(m.identity.kind.GroupKind()) == nil {
				return nil
			}
			again = time.After(time.Second) // it may go before the member hears of it, and then nothing changes
		case problem != nil:
			return problem
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// catchUp catches up with one reflector, until that ends.
func catchUp(ctx context.Context, from source, ended <-chan struct{}, since time.Time) error {
	within, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-ended:
			cancel()
		case <-within.Done():
		}
	})
	return from.CatchUp(within, since)
}
