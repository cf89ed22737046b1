package informer

import (
	"context"
	"errors"
	"fmt"
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
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
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
		for range pulls.Consume(t.Context()) {
			break
		}
		pulls.Close()
		require.NoError(t, stop())
		for _, one := range []*usher{first, second} {
			assert.ElementsMatch(t, []string{"pods/first a 0s", "pods/#3 a 0s", "pods/pulls a 1m0s"}, one.taken)
		}
	})
}

func TestLogHasALineForEachChangeOfStateAndNoneForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		core, logs := observer.New(zap.InfoLevel)
		own, ownLogs := observer.New(zap.InfoLevel)
		i := newServed(t, server, WithName("pods"), WithLogger(zap.New(core)))
		var fail atomic.Bool
		handle := HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			if fail.CompareAndSwap(true, false) {
				return errors.New("not now")
			}
			return nil
		})
		i.Handle(handle, WithName("worker"))
		var failOwn atomic.Bool
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			if failOwn.CompareAndSwap(true, false) {
				panic("ouch")
			}
			return nil
		}), WithName("own"), WithLogger(zap.New(own)))
		stop := start(t, i)
		<-time.After(time.Minute)
		lines := func() (said []string) {
			for _, entry := range logs.TakeAll() {
				fields := entry.ContextMap()
				assert.Equal(t, "pods", fields["informer"], entry.Message)
				assert.NotEmpty(t, fields["resourceVersion"], entry.Message)
				line := entry.Level.String() + " " + entry.Message
				if key, ok := fields["key"]; ok {
					line += " " + fmt.Sprint(key, " at ", fields["resourceVersion"])
				}
				said = append(said, line)
			}
			return said
		}
		assert.Equal(t, []string{"info synced"}, lines())

		for n := range 1000 {
			require.NoError(t, server.Create(onNode(fmt.Sprint("pod-", n), "n")))
		}
		<-time.After(time.Hour) // in which watches end in the ordinary way
		assert.Empty(t, lines(), "events and watches that are renewed are no news")

		server.Inject(reflectortest.Answer(500).On("watch", ""))
		server.Inject(reflectortest.Answer(500).On("list", ""))
		require.NoError(t, server.Restore(server.ResourceVersion())) // which ends the watch
		<-time.After(5 * time.Second)
		broken := lines()
		require.NotEmpty(t, broken)
		for _, line := range broken {
			assert.Equal(t, "warn reflecting failed", line)
		}
		server.ClearFaults()
		<-time.After(10 * time.Minute)
		again := lines()
		require.NotEmpty(t, again)
		assert.Equal(t, "info well again", again[len(again)-1])
		for _, line := range again[:len(again)-1] {
			assert.Equal(t, "warn reflecting failed", line)
		}

		fail.Store(true)
		failOwn.Store(true)
		require.NoError(t, server.Create(onNode("b", "n")))
		<-time.After(time.Minute)
		assert.Equal(t, []string{fmt.Sprintf("error handler failed default/b at %d", server.ResourceVersion())}, lines())
		require.Equal(t, 1, ownLogs.Len())
		fields := ownLogs.All()[0].ContextMap()
		assert.Equal(t, "pods", fields["informer"])
		assert.Equal(t, "own", fields["subscriber"])
		assert.Equal(t, "default/b", fields["key"])
		assert.Equal(t, fmt.Sprint(server.ResourceVersion()), fields["resourceVersion"])
		require.NoError(t, stop())
		assert.Empty(t, lines())
	})
}
