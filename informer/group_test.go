package informer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stub is a member that does as it is told.
type stub struct {
	run         func(context.Context) error
	sync, ready error
}

func (s *stub) Run(ctx context.Context) error {
	if s.run != nil {
		return s.run(ctx)
	}
	<-ctx.Done()
	return nil
}
func (s *stub) WaitForSync(context.Context) error { return s.sync }
func (s *stub) Ready() error                      { return s.ready }

func TestGroupRunsInformersOfDifferentTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		client := clientOf(t, server).CoreV1()
		pods, nodes := New(client.Pods("default")), New(client.Nodes())
		var group Group
		require.NoError(t, group.WaitForSync(t.Context()), "of none")
		group.Add(pods)
		stop := start(t, &group)
		synctest.Wait()
		group.Add(nodes) // while it runs
		require.NoError(t, group.WaitForSync(t.Context()))
		require.NoError(t, group.Ready())
		assert.Equal(t, 1, pods.Cache().Len())
		assert.ErrorIs(t, group.Run(t.Context()), ErrRunning)
		require.NoError(t, stop())
		assert.Equal(t, reflector.Stopped, nodes.State().Phase)

		require.NoError(t, server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
		stop = start(t, &group)
		synctest.Wait()
		assert.Equal(t, 1, nodes.Cache().Len(), "it may run again")
		require.NoError(t, stop())
	})
}

func TestGroupSaysWhichOfItsMembersAreNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		client := clientOf(t, server).CoreV1()
		server.Inject(reflectortest.Answer(500).On("", "pods"))
		server.Inject(reflectortest.Answer(404).On("", "nodes"))
		var group Group
		pods := group.Add(New(client.Pods("default"), WithName("pods")))
		group.Add(New(client.Nodes(), WithName("nodes")))
		group.Add(New(client.ConfigMaps("default"), WithName("config maps")))
		stop := start(t, &group)
		err := group.WaitForSync(within(t, time.Minute))
		require.ErrorIs(t, err, reflector.ErrNotServed)
		assert.ErrorContains(t, err, "informer pods is not synced; ")
		assert.ErrorContains(t, err, "informer nodes is not synced; ")
		assert.NotContains(t, err.Error(), "config maps")
		assert.ErrorContains(t, group.Ready(), "informer pods is not synced; ")

		server.ClearFaults()
		server.Inject(reflectortest.Answer(500).On("", "pods"))
		<-time.After(time.Minute)
		result := make(chan error)
		go func() { result <- group.WaitForSync(t.Context()) }()
		synctest.Wait()
		pods.Stop()
		require.NoError(t, <-result, "nobody waits for what was stopped")
		<-pods.Done()
		require.NoError(t, group.Ready())
		require.NoError(t, stop())
	})
}

func TestGroupWaitsNoLongerWhenAMemberNeverWillBeSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(500).On("", "pods"))
		never := errors.New("never")
		var group Group
		group.Add(newServed(t, server))
		group.Add(&stub{sync: never, ready: never})
		stop := start(t, &group)
		err := group.WaitForSync(t.Context())
		require.ErrorIs(t, err, never)
		assert.ErrorContains(t, err, "informer *v1.Pod is not synced; ")
		require.ErrorIs(t, group.Ready(), never)
		require.NoError(t, stop())
	})
}

func TestFailureOfAMemberEndsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, late := errors.New("broken"), errors.New("late")
		var group Group
		group.Add(&stub{})
		group.Add(&stub{run: func(context.Context) error { <-time.After(time.Minute); return broken }})
		group.Add(&stub{run: func(ctx context.Context) error { <-ctx.Done(); return late }})
		err := group.Run(t.Context())
		assert.ErrorIs(t, err, broken)
		assert.ErrorIs(t, err, late)
	})
}

func TestStoppingOneMemberLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		pods := newServed(t, server)
		nodes := New(clientOf(t, server).CoreV1().Nodes())
		var group Group
		place := group.Add(pods)
		group.Add(nodes)
		pods.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			place.Stop()
			place.Stop()
			return errors.New("left undone")
		}))
		stop := start(t, &group)
		<-place.Done()
		var left *SubscriptionError
		require.ErrorAs(t, place.Err(), &left, "what it left is told to those who ask")
		assert.Equal(t, reflector.Stopped, pods.State().Phase)
		synctest.Wait()
		assert.Equal(t, reflector.Watching, nodes.State().Phase)
		require.NoError(t, stop())

		idle := group.Add(&stub{})
		idle.Stop()
		assert.True(t, isDone(idle.Done()), "what does not run has ended")
	})
}

func TestMembersComeAndGoAsRunDoes(t *testing.T) {
	var group Group
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 100 {
				place := group.Add(&stub{})
				_ = group.Ready()
				_ = group.WaitForSync(t.Context())
				place.Stop()
				<-place.Done()
			}
		})
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		workers.Go(cancel)
		assert.NoError(t, group.Run(ctx))
	}
	workers.Wait()
	assert.Empty(t, group.members)
}

func TestInformersOfAGroupEndAfterTheOtherMembers(t *testing.T) {
	for name, end := range map[string]func(stop context.CancelFunc, member chan<- error){
		"when ctx ends":       func(stop context.CancelFunc, _ chan<- error) { stop() },
		"when a member fails": func(_ context.CancelFunc, member chan<- error) { member <- errors.New("ouch") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				pods := New(clientOf(t, server).CoreV1().Pods("default"))
				assert.True(t, isClosed(pods.Stopped()), "Run was not called yet")
				fail := make(chan error, 1)
				var group Group
				group.Add(pods)
				group.Add(&stub{run: func(ctx context.Context) error {
					<-ctx.Done()
					assert.NoError(t, server.Create(onNode("late", "n")))
					<-time.After(time.Second)
					assert.Equal(t, 1, pods.Cache().Len(), "the cache is not filled any more")
					assert.False(t, isClosed(pods.Stopped()))
					return nil
				}})
				group.Add(&stub{run: func(ctx context.Context) error {
					select {
					case err := <-fail:
						return err
					case <-ctx.Done():
						return nil
					}
				}})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- group.Run(ctx) }()
				synctest.Wait()
				require.True(t, isClosed(pods.Synced()))
				stopped := pods.Stopped()
				assert.False(t, isClosed(stopped))
				end(cancel, fail)
				<-ended
				assert.True(t, isClosed(stopped))
			})
		})
	}
}
