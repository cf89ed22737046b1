package manager

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

func core(t *testing.T, server *reflectortest.Server) typed.CoreV1Interface {
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return clientset.CoreV1()
}

// newSecrets returns an informer of a server without Secrets.
func newSecrets(t *testing.T) *informer.Informer[*corev1.Secret] {
	return informer.New(core(t, reflectortest.Start(t)).Secrets(""))
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// finisher is a member that works for a second after it was told to end, and notes whether an
// informer still fills its cache then.
type finisher struct {
	member
	filled bool
}

func newFinisher(stopped func() <-chan struct{}) *finisher {
	f := &finisher{member: member{name: "finisher", notes: &journal{}}}
	f.run = func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(time.Second)
		f.filled = !isClosed(stopped())
		return nil
	}
	return f
}

func TestManagerRunsInformersOfDifferentTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		configMaps, nodes := informer.New(core(t, server).ConfigMaps("ns")), informer.New(core(t, server).Nodes())
		m := New(nil)
		require.NoError(t, m.WaitForSync(t.Context()), "of none")
		m.Add(configMaps)
		stop := start(t, m)
		synctest.Wait()
		m.Add(nodes) // while it runs
		require.NoError(t, m.WaitForSync(t.Context()))
		require.NoError(t, m.Ready())
		assert.Equal(t, 1, configMaps.Cache().Len())
		require.NoError(t, stop())
		assert.Equal(t, reflector.Stopped, nodes.State().Phase)

		require.NoError(t, server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
		stop = start(t, m)
		synctest.Wait()
		assert.Equal(t, 1, nodes.Cache().Len(), "it may run again")
		require.NoError(t, stop())
	})
}

func TestWaitForSyncNamesTheMembersThatAreNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(500).On("", "secrets"))
		server.Inject(reflectortest.Answer(404).On("", "nodes"))
		m := New(nil)
		secrets := m.Add(informer.New(core(t, server).Secrets(""), informer.WithName("secrets")))
		m.Add(informer.New(core(t, server).Nodes(), informer.WithName("nodes")))
		m.Add(informer.New(core(t, server).ConfigMaps(""), informer.WithName("config maps")))
		stop := start(t, m)
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := m.WaitForSync(limited)
		require.ErrorIs(t, err, reflector.ErrNotServed)
		assert.ErrorContains(t, err, "informer secrets is not synced; ")
		assert.ErrorContains(t, err, "informer nodes is not synced; ")
		assert.NotContains(t, err.Error(), "config maps")
		assert.ErrorContains(t, m.Ready(), "informer secrets is not synced; ")

		server.ClearFaults()
		server.Inject(reflectortest.Answer(500).On("", "secrets"))
		<-time.After(time.Minute)
		result := make(chan error)
		go func() { result <- m.WaitForSync(t.Context()) }()
		synctest.Wait()
		secrets.Stop()
		require.NoError(t, <-result, "it does not wait for a member that was stopped")
		<-secrets.Done()
		require.NoError(t, m.Ready())
		require.NoError(t, stop())
	})
}

// unsynced is a member that is never synced.
type unsynced struct{ member }

var errNever = errors.New("never")

func (*unsynced) WaitForSync(context.Context) error { return errNever }

func TestWaitForSyncFailsOnceAMemberFails(t *testing.T) {
	for _, where := range []placement{everyProcess, leaderOnly} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			server.Inject(reflectortest.Answer(500).On("", "secrets"))
			m := New(nil)
			m.Add(informer.New(core(t, server).Secrets(""), informer.WithName("secrets")))
			m.add(&unsynced{member{name: "never", notes: &journal{}}}, where)
			stop := start(t, m)
			err := m.WaitForSync(t.Context())
			require.ErrorIs(t, err, errNever)
			assert.ErrorContains(t, err, "informer secrets is not synced; ")
			require.NoError(t, stop())
		})
	}
}

func TestStoppingOneMemberLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		configMaps, nodes := informer.New(core(t, server).ConfigMaps("")), informer.New(core(t, server).Nodes())
		m := New(nil)
		stopped := m.Add(configMaps)
		m.Add(nodes)
		ouch := errors.New("ouch")
		fails := m.Add(&member{name: "fails", notes: &journal{}, run: func(ctx context.Context) error { <-ctx.Done(); return ouch }})
		configMaps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(context.Context, eventqueue.Event[*corev1.ConfigMap]) error {
			stopped.Stop()
			stopped.Stop()
			return errors.New("again")
		}))
		stop := start(t, m)
		<-stopped.Done()
		assert.NoError(t, stopped.Err(), "keys that are left are no failure")
		assert.Equal(t, reflector.Stopped, configMaps.State().Phase)
		assert.NoError(t, fails.Err(), "it runs")
		fails.Stop()
		<-fails.Done()
		assert.ErrorIs(t, fails.Err(), ouch)
		synctest.Wait()
		assert.Equal(t, reflector.Watching, nodes.State().Phase)
		require.NoError(t, stop())

		idle := m.Add(&member{})
		idle.Stop()
		assert.True(t, isClosed(idle.Done()), "a member that does not run has ended")
	})
}

func TestMembersComeAndGoAsRunDoes(t *testing.T) {
	m := New(nil)
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() {
			for range 100 {
				membership := m.add(&member{notes: &journal{}}, []placement{everyProcess, leaderOnly}[n%2])
				_ = m.Ready()
				_ = m.WaitForSync(t.Context())
				membership.Stop()
				<-membership.Done()
			}
		})
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		workers.Go(cancel)
		assert.NoError(t, m.Run(ctx))
	}
	workers.Wait()
	assert.Empty(t, m.members)
}

func TestInformersEndAfterTheOtherMembers(t *testing.T) {
	for name, end := range map[string]func(stop context.CancelFunc, member chan<- error){
		"when ctx ends":       func(stop context.CancelFunc, _ chan<- error) { stop() },
		"when a member fails": func(_ context.CancelFunc, member chan<- error) { member <- errors.New("ouch") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				configMaps := informer.New(core(t, server).ConfigMaps(""))
				fail := make(chan error, 1)
				m := New(nil)
				m.Add(configMaps)
				m.Add(&member{name: "worker", notes: &journal{}, run: func(ctx context.Context) error {
					<-ctx.Done()
					assert.NoError(t, server.Create(configMap("ns", "late")))
					<-time.After(time.Second)
					assert.Equal(t, 1, configMaps.Cache().Len(), "the cache is not filled any more")
					assert.False(t, isClosed(configMaps.Stopped()))
					return nil
				}})
				m.Add(&member{name: "bad", notes: &journal{}, run: func(ctx context.Context) error {
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
				go func() { ended <- m.Run(ctx) }()
				synctest.Wait()
				require.True(t, isClosed(configMaps.Synced()))
				end(cancel, fail)
				<-ended
				assert.True(t, isClosed(configMaps.Stopped()))
			})
		})
	}
}

func TestFleetEndsAfterTheMembersThatReadIt(t *testing.T) {
	for _, where := range []placement{everyProcess, leaderOnly} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			kinds, err := fleet.New(server.Config())
			require.NoError(t, err)
			kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
			_, err = fleet.Want[*corev1.ConfigMap](kinds.NewOwner(t.Context(), "worker"), kind, fleet.Selection{})
			require.NoError(t, err)
			m := New(nil)
			m.add(kinds, where)
			m.add(&member{name: "worker", notes: &journal{}, run: func(ctx context.Context) error {
				<-ctx.Done()
				assert.NoError(t, server.Create(configMap("ns", "late")))
				<-time.After(time.Second)
				_, found, err := fleet.Get[*corev1.ConfigMap](kinds, kind, store.Key{Namespace: "ns", Name: "late"})
				assert.NoError(t, err, where)
				assert.True(t, found, where)
				return nil
			}}, where)
			stop := start(t, m)
			<-time.After(time.Minute)
			require.NoError(t, stop())
			assert.True(t, isClosed(kinds.Stopped()))
		})
	}
}

func TestLedInformersEndWhenTheLeaseIsLost(t *testing.T) {
	for name, nested := range map[string]bool{"members": false, "members of a led manager": true} {
		for _, ending := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				secrets, m := newSecrets(t), New(nil)
				slow := &member{name: "slow", notes: &journal{}, run: func(ctx context.Context) error {
					<-ctx.Done()
					<-time.After(time.Minute)
					return nil
				}}
				if nested {
					m.AddLeaderElected(nest(secrets, slow))
				} else {
					m.AddLeaderElected(secrets)
					m.AddLeaderElected(slow)
				}
				outer, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctx, hardStop := controller.HardStopContext(outer)
				ended := make(chan error, 1)
				go func() { ended <- led{m}.Run(ctx) }()
				<-time.After(time.Minute)
				if ending {
					cancel()
					synctest.Wait()
				}
				require.False(t, isClosed(secrets.Stopped()), name)
				hardStop()
				synctest.Wait()
				assert.True(t, isClosed(secrets.Stopped()), "%s, ending before: %v", name, ending)
				require.NoError(t, <-ended)
			})
		}
	}
}

func TestReconcilerWatchesAnInformerOfALedFleet(t *testing.T) {
	for _, elected := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(configMap("ns", "a")))
			kinds, err := fleet.New(server.Config())
			require.NoError(t, err)
			wanted, err := fleet.Want[*corev1.ConfigMap](kinds.NewOwner(t.Context(), "painter"), corev1.SchemeGroupVersion.WithKind("ConfigMap"), fleet.Selection{})
			require.NoError(t, err)
			var opts []Option
			if elected {
				opts = append(opts, WithElection(newLock(t, server, "one")))
			}
			m := New(nil, opts...)
			m.AddLeaderElected(kinds)
			var calls journal
			Reconcile(m, "painter", wanted.Informer, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
				calls.addf("%s", key)
				return reconcile.Result{}, nil
			})
			stop := start(t, m)
			<-time.After(time.Minute)
			assert.Equal(t, []string{"ns/a"}, calls.take(), "elected: %v", elected)
			require.NoError(t, stop())
		})
	}
}

func TestInformersOfANestedManagerEndLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := newSecrets(t)
		outer, inner, led := newFinisher(secrets.Stopped), newFinisher(secrets.Stopped), newFinisher(secrets.Stopped)
		led.name = "led finisher"
		within := nest(nest(secrets), inner)
		within.AddLeaderElected(led)
		m := nest(within, outer)
		stop := start(t, m)
		synctest.Wait()
		require.NoError(t, stop())
		assert.True(t, outer.filled, "a member of the outer manager finishes with a cache that is filled")
		assert.True(t, inner.filled)
		assert.True(t, led.filled)
		assert.True(t, isClosed(secrets.Stopped()))
	})
}

func TestNestedManagerThatFailsEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ouch := errors.New("ouch")
		secrets := newSecrets(t)
		other := newFinisher(secrets.Stopped)
		bad := &member{name: "bad", notes: &journal{}, run: func(context.Context) error { <-time.After(time.Second); return ouch }}
		m := nest(secrets, nest(newSecrets(t), bad), other)
		assert.ErrorIs(t, m.Run(t.Context()), ouch)
		assert.True(t, other.filled)
	})
}

// TestManagerThatEndsByItselfEndsItsInformers: a failure of the server ends a manager like this.
func TestManagerThatEndsByItselfEndsItsInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := newSecrets(t)
		m := nest(secrets)
		ended := make(chan error, 1)
		go func() { ended <- m.Run(t.Context()) }()
		synctest.Wait()
		m.mu.Lock()
		m.stop()
		m.mu.Unlock()
		require.NoError(t, <-ended)
		assert.True(t, isClosed(secrets.Stopped()))
	})
}

// program is a member that embeds a manager and has a Run of its own.
type program struct {
	*Manager
	ran chan struct{}
}

func (p *program) Run(ctx context.Context) error {
	close(p.ran)
	return p.Manager.Run(ctx)
}

func TestRunOfATypeThatEmbedsAManagerIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &program{nest(newSecrets(t)), make(chan struct{})}
		stop := start(t, nest(p))
		<-p.ran
		require.NoError(t, stop())
	})
}

func TestNestedManagerThatIsStoppedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := newSecrets(t)
		m := New(nil)
		inner := m.Add(nest(secrets))
		stop := start(t, m)
		synctest.Wait()
		inner.Stop()
		<-inner.Done()
		assert.True(t, isClosed(secrets.Stopped()))
		require.NoError(t, stop())
	})
}

func TestManagerHasMembersOfNestedManagers(t *testing.T) {
	secrets, other := newSecrets(t), newSecrets(t)
	m := nest(nest(nest(secrets)), newFinisher(secrets.Stopped))
	assert.True(t, m.mayRun(secrets, false))
	assert.False(t, m.mayRun(other, false))
	membership := m.AddLeaderElected(other)
	assert.True(t, m.mayRun(other, false))
	membership.Stop()
	assert.False(t, m.mayRun(other, false))
}

func TestRunFailsIfTwoMembersHaveOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		m.Add(&member{name: "fine", notes: &notes})
		m.Add(&member{name: "twin", notes: &notes})
		second := m.AddLeaderElected(&member{name: "twin", notes: &notes})
		m.Add(nest()) // members without a name may have the same type
		m.Add(nest())
		err := m.Run(t.Context())
		var failed *RunnableError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "twin", failed.Name)
		require.ErrorIs(t, err, ErrDuplicateName)
		assert.EqualError(t, err, "twin: two members have this name: number 2 and number 3 in the order of Add")
		assert.Empty(t, notes.take(), "no member starts")
		second.Stop()
		stop := start(t, m)
		synctest.Wait()
		assert.Len(t, notes.take(), 2)
		require.NoError(t, stop())
	})
}

func TestMemberWithATakenNameDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		m.Add(&member{name: "twin", notes: &notes})
		stop := start(t, m)
		synctest.Wait()
		second := m.Add(&member{name: "twin", notes: &notes})
		synctest.Wait()
		assert.Equal(t, []string{"twin begins"}, notes.take(), "the first one goes on")
		require.ErrorIs(t, second.Err(), ErrDuplicateName)
		require.ErrorIs(t, m.Ready(), ErrDuplicateName)
		require.ErrorIs(t, m.WaitForSync(t.Context()), ErrDuplicateName)
		require.NoError(t, m.Alive(), "a restart of the process would not help")
		second.Stop()
		<-second.Done()
		require.NoError(t, m.Ready())
		require.NoError(t, stop())
	})
}
