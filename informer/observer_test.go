package informer

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

type contextKey struct{}

// audience writes down the calls of handlers.
type audience struct {
	name  string
	mu    sync.Mutex
	calls []Handling
	ends  []error
}

func (*audience) Queues(_, _ string) func(eventqueue.TakeInfo) { return nil }

func (a *audience) Handling(ctx context.Context, call Handling) (context.Context, func(error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	return context.WithValue(ctx, contextKey{}, a.name), func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ends = append(a.ends, err)
	}
}

// inattentive does not wait for the end of a call.
type inattentive struct{}

func (inattentive) Queues(_, _ string) func(eventqueue.TakeInfo) { return nil }

func (inattentive) Handling(ctx context.Context, _ Handling) (context.Context, func(error)) {
	return ctx, nil
}

func TestObserversAreToldOfTheCallsOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		first, all, own := &audience{name: "first"}, &audience{name: "all"}, &audience{name: "own"}
		i := newServed(t, server, WithName("pods"), WithObserver(first), WithObserver(nil), WithObserver(inattentive{}), WithObserver(all))
		failure := errors.New("not now")
		attempts := 0
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
			assert.Equal(t, "all", ctx.Value(contextKey{}))
			switch attempts++; attempts {
			case 1:
				return failure
			case 2:
				panic("not now either")
			}
			return nil
		}), WithName("first"))
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
			assert.Equal(t, "own", ctx.Value(contextKey{}))
			return nil
		}), WithName("second"), WithObserver(own), WithObserver(inattentive{}))
		var unheard atomic.Int32
		i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { unheard.Add(1) }}, WithObserver(nil))
		i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { unheard.Add(1) }}, WithObserver(inattentive{}))
		stop := start(t, i)
		<-time.After(time.Minute)
		require.NoError(t, stop())
		call := Handling{Informer: "pods", Subscription: "first", Key: store.Key{Namespace: "default", Name: "a"}, Type: eventqueue.Addition, Origin: eventqueue.List, ResourceVersion: strconv.FormatUint(server.ResourceVersion(), 10)}
		for _, a := range []*audience{first, all} {
			assert.Equal(t, []Handling{call, call, call}, a.calls, a.name)
			assert.Equal(t, []error{failure, eventqueue.ErrAbandoned, nil}, a.ends, a.name)
		}
		call.Subscription = "second"
		assert.Equal(t, []Handling{call}, own.calls)
		assert.Equal(t, []error{nil}, own.ends)
		assert.EqualValues(t, 2, unheard.Load())
	})
}

// usher also observes queues.
type usher struct {
	audience
	taken []string
}

func (u *usher) Queues(informer, subscription string) func(eventqueue.TakeInfo) {
	if subscription == "unobserved" {
		return nil
	}
	return ushered{u, informer + "/" + subscription}.taken
}

type ushered struct {
	of   *usher
	name string
}

func (u ushered) taken(t eventqueue.TakeInfo) {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.of.taken = append(u.of.taken, u.name+" "+t.Key.Name+" "+t.Waited.String())
}

func TestObserversAreToldOfTheQueuesOfEachSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		first, second := &usher{}, &usher{}
		i := newServed(t, server, WithName("pods"), WithObserver(first), WithObserver(inattentive{}), WithObserver(second))
		i.Handle(HandlerFuncs[*corev1.Pod]{}, WithName("first"))
		i.Handle(HandlerFuncs[*corev1.Pod]{}, WithName("unobserved"))
		i.Handle(HandlerFuncs[*corev1.Pod]{})
		pulls := i.Subscribe(WithName("pulls"))
		stop := start(t, i)
		<-time.After(time.Minute)
		for range pulls.Events(t.Context()) {
			break
		}
		pulls.Close()
		require.NoError(t, stop())
		for _, one := range []*usher{first, second} {
			assert.ElementsMatch(t, []string{"pods/first a 0s", "pods/#3 a 0s", "pods/pulls a 1m0s"}, one.taken)
		}
	})
}
