package recorder

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// run is one run of a recorder: a broadcaster of client-go, which cannot be started twice. It is
// also the broadcaster's sink, so that it sees each write.
type run struct {
	events.EventSink
	logger      *zap.Logger
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder
	happened    chan struct{} // has capacity one: a counter has changed

	// mu protects the fields below it.
	mu      sync.Mutex
	passed  int // Events passed to the broadcaster
	heard   int // Events that the broadcaster's watchers got
	writing int // running requests
	// unsure has the Events whose creation got no answer, by namespace and name. They may exist.
	// client-go creates them again.
	unsure map[string]bool
}

func newRun(ctx context.Context, r *Recorder) (*run, error) {
	n := &run{EventSink: &events.EventSinkImpl{Interface: r.client}, logger: r.logger, happened: make(chan struct{}, 1), unsure: map[string]bool{}}
	n.broadcaster = events.NewBroadcaster(n)
	n.recorder = n.broadcaster.NewRecorder(scheme.Scheme, r.name)
	_, err := n.broadcaster.StartEventWatcher(func(runtime.Object) { n.count(&n.heard, 1) })
	if err == nil {
		err = n.broadcaster.StartRecordingToSinkWithContext(ctx)
	}
	if err != nil {
		n.broadcaster.Shutdown()
		return nil, err
	}
	return n, nil
}

func (n *run) pass(c call) {
	n.count(&n.passed, 1)
	n.recorder.Eventf(c.regarding, c.related, c.kind, c.reason, c.action, "%s", c.message)
}

// count changes one of the counters.
func (n *run) count(counter *int, by int) {
	n.mu.Lock()
	*counter += by
	n.mu.Unlock()
	select {
	case n.happened <- struct{}{}:
	default:
	}
}

// Create implements [events.EventSink].
func (n *run) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	n.count(&n.writing, 1)
	defer n.count(&n.writing, -1)
	event = named(event)
	event.ReportingInstance = cut(event.ReportingInstance, maxText, "") // the names of the controller and of the host
	written, err := n.EventSink.Create(ctx, event)
	unsure := n.settle(event.Namespace+"/"+event.Name, err)
	switch {
	case !apierrors.IsAlreadyExists(err):
		n.note(event, err)
	case event.Series != nil:
		// client-go patches it next: the first of the series was created in between.
	case unsure:
		return event, nil // an earlier attempt created it
	default:
		n.note(event, err)
	}
	return written, err
}

// named returns a copy of an Event with a name of its own. client-go names an Event by its object and its
// time, so that of two in one instant the second would be lost, and its count be that of the first: in a bubble of
// testing/synctest, where time stands still, and where clocks are coarse.
func named(event *eventsv1.Event) *eventsv1.Event {
	event = event.DeepCopy() // client-go keeps it
	hash := fnv.New32a()
	var related corev1.ObjectReference
	if event.Related != nil {
		related = *event.Related
	}
	_, _ = fmt.Fprintf(hash, "%q%q%q%q%q%q", event.ReportingController, event.Type, event.Reason, event.Action, event.Regarding, related)
	suffix := fmt.Sprintf("-%08x", hash.Sum32())
	// The answers of the server have it already, and client-go goes on with them.
	if !strings.HasSuffix(event.Name, suffix) && len(event.Name)+len(suffix) <= validation.DNS1123SubdomainMaxLength {
		event.Name += suffix
	}
	return event
}

// settle records whether the creation of an Event got an answer, and reports whether an earlier one
// got none.
func (n *run) settle(name string, err error) (unsure bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	unsure = n.unsure[name]
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		delete(n.unsure, name)
	} else if len(n.unsure) < earlyLimit {
		n.unsure[name] = true
	}
	return unsure
}

// Patch implements [events.EventSink].
func (n *run) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	n.count(&n.writing, 1)
	defer n.count(&n.writing, -1)
	event = named(event)
	written, err := n.EventSink.Patch(ctx, event, data)
	if !apierrors.IsNotFound(err) { // it is created again then
		n.note(event, err)
	}
	return written, err
}

// note logs an error, because the broadcaster does not return it.
func (n *run) note(event *eventsv1.Event, err error) {
	if err != nil {
		n.logger.Warn("event not written", zap.String("reason", event.Reason), zap.String("kind", event.Regarding.Kind),
			zap.String("key", event.Regarding.Namespace+"/"+event.Regarding.Name), zap.Error(err))
	}
}

// idle reports whether no visible work is running.
func (n *run) idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.passed == n.heard && n.writing == 0
}

// drain waits until all Events are written, the timeout is over, or ctx ends, as it does at a hard stop.
func (n *run) drain(ctx context.Context, timeout time.Duration) error {
	n.mu.Lock()
	silent := n.passed == 0
	n.mu.Unlock()
	if silent {
		return nil
	}
	over, next := time.NewTimer(timeout), time.NewTimer(pause)
	defer over.Stop()
	defer next.Stop()
	for calm := 0; calm < looks; next.Reset(pause) {
		select {
		case <-n.happened:
			calm = 0
		case <-next.C:
			if calm++; !n.idle() {
				calm = 0
			}
		case <-over.C:
			return ErrUnwritten
		case <-ctx.Done():
			return ErrUnwritten
		}
	}
	return nil
}

// close ends the broadcaster after its context has ended, and waits for the requests.
func (n *run) close() {
	n.broadcaster.Shutdown()
	for {
		n.mu.Lock()
		busy := n.writing > 0
		n.mu.Unlock()
		if !busy {
			return
		}
		<-n.happened
	}
}
