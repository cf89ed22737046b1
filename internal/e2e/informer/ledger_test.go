package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
)

type (
	configMap    = corev1.ConfigMap
	event        = eventqueue.Event[*configMap]
	subscription = informer.Subscription[*configMap]
)

// ledger is a subscriber that holds what it is told to what it knows.
type ledger struct {
	name string
	keep func(*configMap) bool // nil for everything
	opts []informer.SubscriptionOption

	// pace is how long an event takes, until hurry is closed; wait is what has to be closed for the first one to be taken. Each may be missing.
	pace  time.Duration
	hurry <-chan struct{}
	wait  <-chan struct{}
	// fail is how often an event fails: once in so many, by an error and by a panic in turn; 0 for never.
	fail int
	// pulls is true if the subscriber ranges over its events itself.
	pulls bool

	subscription *subscription

	// mu protects the fields below it.
	mu     sync.Mutex
	known  map[store.Key]*configMap
	tried  map[store.Key]bool // failed on, and not heard of since
	events int
	wrong  []string // the first few violations
}

var errNotNow = errors.New("not now")

// Handle implements [informer.Handler].
func (l *ledger) Handle(ctx context.Context, e event) error {
	if l.wait != nil {
		select {
		case <-l.wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if l.pace > 0 {
		select {
		case <-time.After(l.pace):
		case <-l.hurry:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	if l.fail > 0 && l.events%l.fail == 0 {
		l.tried[e.Key] = true
		if l.events/l.fail%2 == 0 {
			panic(errNotNow)
		}
		return errNotNow
	}
	l.enter(e)
	return nil
}

// enter notes an event, and what is wrong with it. The caller holds mu.
func (l *ledger) enter(e event) {
	if why := l.check(e); why != "" && len(l.wrong) < 10 {
		l.wrong = append(l.wrong, fmt.Sprintf("%v: %s", e, why))
	}
	delete(l.tried, e.Key)
	if l.known[e.Key] = e.Object; e.Type == eventqueue.Deletion {
		delete(l.known, e.Key)
	}
}

// check returns why an event cannot follow what is known, or nothing.
func (l *ledger) check(e event) string {
	known := l.known[e.Key]
	switch {
	case e.PriorKnown != (known != nil) || e.Prior != known:
		return fmt.Sprintf("prior is %v, not %v", version(e.Prior), version(known))
	case known == nil && e.Type == eventqueue.Deletion:
		// It may have been in the first list, or this subscriber failed on its addition.
		if e.Initial || l.tried[e.Key] {
			return ""
		}
		return "of an object that it was never told of"
	case known == nil && e.Type != eventqueue.Addition:
		return "not an addition"
	case known != nil && e.Type == eventqueue.Addition:
		return "a second addition"
	case l.keep != nil && e.Type != eventqueue.Deletion && !l.keep(e.Object):
		return "it was not to be told of this"
	case known == nil || e.Object == known:
		return ""
	case e.Object.UID != known.UID:
		return fmt.Sprintf("another object than %v", version(known))
	}
	if order, err := resourceversion.CompareResourceVersion(known.ResourceVersion, e.Object.ResourceVersion); err != nil || order > 0 {
		return fmt.Sprintf("version %v after %v (%v)", version(e.Object), version(known), err)
	}
	return ""
}

func version(c *configMap) string {
	if c == nil {
		return "nothing"
	}
	return string(c.UID) + "@" + c.ResourceVersion
}

// differences says how what is known differs from what the server holds, if it does.
func (l *ledger) differences(held map[store.Key]*configMap) (differences []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, want := range held {
		known := l.known[key]
		if keeps := l.keep == nil || l.keep(want); !keeps {
			want = nil
		}
		if version(known) != version(want) {
			differences = append(differences, fmt.Sprintf("%v is %s, not %s", key, version(known), version(want)))
		}
	}
	for key := range l.known {
		if held[key] == nil {
			differences = append(differences, fmt.Sprintf("%v is gone", key))
		}
	}
	if len(differences) > 10 {
		differences = append(differences[:10], fmt.Sprintf("and %d more", len(differences)-10))
	}
	return differences
}

// subscribe makes the subscriber one of an informer. The returned function ends one that pulls.
func (l *ledger) subscribe(i *informer.Informer[*configMap]) (end func()) {
	l.known, l.tried = make(map[store.Key]*configMap), make(map[store.Key]bool)
	opts := append([]informer.SubscriptionOption{informer.WithName(l.name)}, l.opts...)
	if !l.pulls {
		l.subscription = i.HandleFiltered(l.keep, l, opts...)
		return func() {}
	}
	l.subscription = i.SubscribeFiltered(l.keep, opts...)
	var pulling sync.WaitGroup
	pulling.Go(func() {
		for e := range l.subscription.Events(context.Background()) {
			_ = l.Handle(context.Background(), e) // one that pulls does not fail
		}
	})
	return func() { l.subscription.Close(); pulling.Wait() }
}
