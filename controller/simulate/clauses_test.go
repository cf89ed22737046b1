package simulate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// cached is keep with caches.
func cached(ctx context.Context, config *rest.Config) error { return cachedWith(ctx, config, keep) }

func cachedWith(ctx context.Context, config *rest.Config, do act) error {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	parents := informer.New(c.CoreV1().ConfigMaps("default"), informer.WithLogger(zap.NewNop()))
	children := informer.New(c.CoreV1().ServiceAccounts("default"), informer.WithLogger(zap.NewNop()))
	m := manager.New(nil, manager.WithLogger(zap.NewNop()))
	m.Add(parents)
	m.Add(children)
	manager.Reconcile(m, "keeper", parents, func(ctx context.Context, _ store.Key, p *corev1.ConfigMap) (reconcile.Result, error) {
		if p == nil {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, do(ctx, c, p)
	}, reconcile.Owns(children, corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind()))
	return m.Run(ctx)
}

// elected is the operator under client-go's election, whose process ends when it has lost the lease.
func elected(do func(context.Context, *rest.Config) error, change ...func(*leaderelection.LeaderElectionConfig)) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
		defer cancel()
		ended := make(chan error, 1)
		var started atomic.Bool
		election := leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "keeper"}, Client: c.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: rand.Text()},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { started.Store(true); ended <- do(ctx, config) },
				OnStoppedLeading: func() {},
			},
		}
		for _, set := range change {
			set(&election)
		}
		elector, err := leaderelection.NewLeaderElector(election)
		if err != nil {
			return err
		}
		elector.Run(ctx)
		if !started.Load() {
			return nil
		}
		return <-ended
	}
}

// warm runs the caches of [cachedWith] in each process, and do in the leader.
func warm(do act, change ...func(*leaderelection.LeaderElectionConfig)) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		parents := informer.New(c.CoreV1().ConfigMaps("default"), informer.WithLogger(zap.NewNop()))
		m := manager.New(nil, manager.WithLogger(zap.NewNop()))
		m.Add(parents)
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		err = elected(func(ctx context.Context, _ *rest.Config) error {
			for {
				for _, p := range parents.Cache().All() {
					if err := do(ctx, c, p); errors.Is(err, errGivenUp) {
						return err
					}
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return nil
				}
			}
		}, change...)(ctx, config)
		cancel()
		return errors.Join(err, <-ended)
	}
}

// inOrder requires lines of a trace that begin like this, in this order.
func inOrder(t *testing.T, trace []string, want ...string) {
	t.Helper()
	rest := trace
	for _, one := range want {
		at := slices.IndexFunc(rest, func(line string) bool { return strings.HasPrefix(line, one) })
		require.GreaterOrEqual(t, at, 0, "%q is missing, or comes too early, in\n%s", one, strings.Join(trace, "\n"))
		rest = rest[at+1:]
	}
}

func TestASecondProcessTakesOver(t *testing.T) {
	s := Scenario{Operator: warm(keep), Steps: life}
	const create, update = "create serviceaccounts default/a#1", "update serviceaccounts default/a#1"
	for line, want := range map[string][]string{
		// It begins after the first process has settled, so its list has the ConfigMap before any event.
		"crash after " + create + "; standby behind " + create: {
			"p1 watch configmaps default/", "user: create", "p1 event ADDED configmaps default/a", "p0 " + create, "  ** standby", "p1 get serviceaccounts default/a", "user: change", "p1 event MODIFIED configmaps default/a", "p1 " + update,
		},
		// Its cache is as before the change, so it undoes the first process's update until the event comes.
		"crash after " + update + "; standby behind " + create: {
			"p0 " + create, "  ** standby", "user: change", "p0 " + update, "p1 update serviceaccounts default/a#2", "p1 event MODIFIED configmaps default/a", "p1 update serviceaccounts default/a#3", "user: delete",
		},
		"stop after " + create + "; standby behind " + create: {"p1 event ADDED configmaps default/a", "p0 " + create, "p1 get serviceaccounts default/a", "user: change", "p1 " + update},
		"lease lost at " + create:                             {"p0 " + create, "p1 get serviceaccounts default/a", "user: change", "p1 " + update},
		"stop after " + create:                                {"p0 " + create, "p1 watch configmaps default/", "p1 get serviceaccounts default/a", "user: change", "p1 " + update},
	} {
		t.Run(line, func(t *testing.T) {
			trace, failures := Play(t, s, line)
			assert.Empty(t, failures)
			inOrder(t, trace, want...)
			after := trace[slices.IndexFunc(trace, func(l string) bool { return strings.HasPrefix(l, want[len(want)-1]) }):]
			assert.False(t, slices.ContainsFunc(after, func(l string) bool { return strings.HasPrefix(l, "p0 ") }), "the first process has ended")
		})
	}
	assert.Empty(t, Find(t, s))
}

func TestAStandbyNeedsAnElection(t *testing.T) {
	_, failures := Play(t, Scenario{Operator: cached, Steps: life}, "lease lost at create serviceaccounts default/a#1")
	require.NotEmpty(t, failures)
	assert.Equal(t, []string{"there is no second process, because both would act: let the operator hold a Lease, or leave the clause out"}, failures)
}

func TestAProcessThatActsWithoutItsLeaseIsAFinding(t *testing.T) {
	s := Scenario{Steps: life, Operator: func(ctx context.Context, config *rest.Config) error {
		// What a leader has begun does not end with its term.
		return elected(func(context.Context, *rest.Config) error { return cached(ctx, config) })(ctx, config)
	}}
	const line = "lease lost at create serviceaccounts default/a#1"
	_, failures := Play(t, s, line)
	require.NotEmpty(t, failures)
	const says = "a process writes to serviceaccounts default/a after it has lost its lease and another process has it: end the work with the context of the term"
	assert.Equal(t, says, failures[0])
	_, failures = Play(t, s, "stop after create serviceaccounts default/a#1; standby behind create serviceaccounts default/a#1")
	assert.Empty(t, failures, "its context is the process's, which has ended")
	s.Operator = func(ctx context.Context, config *rest.Config) error {
		return elected(func(context.Context, *rest.Config) error {
			late, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			defer context.AfterFunc(ctx, func() { time.AfterFunc(5*time.Minute, cancel) })()
			return cachedWith(late, config, func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
				<-time.After(10 * time.Second)
				return keep(ctx, c, p)
			})
		})(ctx, config)
	}
	_, failures = Play(t, s, "stop after create serviceaccounts default/a#1; standby behind create serviceaccounts default/a#1; step after create serviceaccounts default/a#1")
	require.NotEmpty(t, failures)
	assert.Equal(t, says, failures[0], "it has released its lease, and goes on for its grace time")
}

func TestALongLeaseIsWaitedFor(t *testing.T) {
	const create, update = "create serviceaccounts default/a#1", "update serviceaccounts default/a#1"
	s := Scenario{Steps: life, Operator: warm(keep, func(c *leaderelection.LeaderElectionConfig) {
		c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 137*time.Second, 107*time.Second, 26*time.Second
	})}
	for _, line := range []string{"crash after " + update + "; standby behind " + update, "lease lost at " + create} {
		trace, failures := Play(t, s, line)
		assert.Empty(t, failures)
		inOrder(t, trace, "p0 has the lease", "p0 create", "p1 has the lease")
	}
}

func TestALeaseOfItsOwnMakesNoLeader(t *testing.T) {
	heartbeat := func(ctx context.Context, config *rest.Config) error {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		name := rand.Text()
		_, err = c.CoordinationV1().Leases("default").Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(name)}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return warm(keep)(ctx, config)
	}
	const create = "create serviceaccounts default/a#1"
	trace, failures := Play(t, Scenario{Operator: heartbeat, Steps: life}, "crash after "+create+"; standby behind "+create)
	assert.Empty(t, failures)
	assert.Equal(t, 1, strings.Count(strings.Join(trace, "\n"), "p1 has the lease"), "it is a candidate until then")
	inOrder(t, trace, "p0 "+create, "p0 has ended", "p1 has the lease")
}

func TestTwoProcessesNeedTwoIdentities(t *testing.T) {
	s := Scenario{Steps: life, Operator: warm(keep, func(c *leaderelection.LeaderElectionConfig) {
		c.Lock.(*resourcelock.LeaseLock).LockConfig.Identity = "the-pod"
	})}
	_, failures := Play(t, s, "lease lost at create serviceaccounts default/a#1")
	assert.Contains(t, failures, "two processes hold one lease at once, because their identities are equal: add a UUID to each")
}

func TestALostLeaseCanBeHadAgain(t *testing.T) {
	s := Scenario{Steps: life, Operator: func(ctx context.Context, config *rest.Config) error {
		for ctx.Err() == nil {
			if err := warm(keep)(ctx, config); err != nil {
				return err
			}
		}
		return nil
	}}
	const create, update = "create serviceaccounts default/a#1", "update serviceaccounts default/a#1"
	trace, failures := Play(t, s, "lease lost at "+create+"; crash before "+update)
	assert.Empty(t, failures)
	inOrder(t, trace, "p0 has the lease", "p1 has the lease", "p1 "+update, "p1 has ended", "p0 has the lease", "p0 update")
}

func TestAProcessThatIsStoppedHasTimeToEnd(t *testing.T) {
	// At its end it takes a while, and then writes once more.
	operator := func(takes time.Duration) func(context.Context, *rest.Config) error {
		return func(ctx context.Context, config *rest.Config) error {
			c, err := kubernetes.NewForConfig(config)
			if err == nil {
				err = cached(ctx, config)
			}
			if err != nil {
				return err
			}
			<-time.After(takes)
			_, _ = c.CoreV1().ConfigMaps("default").Patch(context.WithoutCancel(ctx), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
			return nil
		}
	}
	const create = "create serviceaccounts default/a#1"
	trace, _ := Play(t, Scenario{Operator: operator(20 * time.Second), Steps: life}, "stop after "+create)
	inOrder(t, trace, "p0 "+create, "p0 patch configmaps default/a#1", "p0 has ended", "p1 watch", "user: change")
	trace, failures := Play(t, Scenario{Operator: operator(40 * time.Second), Steps: life}, "stop after "+create)
	assert.Empty(t, failures)
	inOrder(t, trace, "p0 "+create, "p0 has ended", "p1 watch", "user: change")
	assert.NotContains(t, trace, "p0 patch configmaps default/a#1", "it was killed after 30 seconds")
}

func TestARestoredServerHasLostTheStepsOfTheUser(t *testing.T) {
	steps := []Step{Create(parent("color", "red")), paint("blue")}
	steps[1].When = func(s *reflectortest.Server) bool {
		return s.Get(&corev1.ServiceAccount{ObjectMeta: parent().ObjectMeta}) == nil
	}
	trace, failures := Play(t, Scenario{Operator: cached, Steps: steps}, "restore before create serviceaccounts default/a#1")
	assert.Empty(t, failures)
	inOrder(t, trace, "user: change", "the server comes back from the backup", "user: change")
}

func TestARestoredServerHasLostWrites(t *testing.T) {
	const create, update = "create serviceaccounts default/a#1", "update serviceaccounts default/a#1"
	s := Scenario{Operator: cached, Steps: life}
	trace, failures := Play(t, s, "restore before "+update)
	assert.Empty(t, failures)
	inOrder(t, trace, "p0 "+create, "user: change", "p0 "+update, "the server comes back from the backup", "p1 update serviceaccounts default/a#2", "user: delete")
	trace, failures = Play(t, s, "restore before "+create)
	assert.Empty(t, failures, "a second creation is right")
	inOrder(t, trace, "p0 "+create, "the server comes back from the backup", "p1 create serviceaccounts default/a#2", "user: change")
}

func TestACompactedServerHasNoHistory(t *testing.T) {
	var failures []string
	read := func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		if err := keep(ctx, c, p); err != nil || p.Data["color"] != "blue" {
			return err
		}
		w, err := c.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
		if err != nil {
			return err
		}
		defer w.Stop()
		if first := <-w.ResultChan(); first.Type == apiwatch.Error {
			panic(apierrors.FromObject(first.Object))
		}
		return nil
	}
	_, failures = Play(t, Scenario{Operator: func(ctx context.Context, config *rest.Config) error { return cachedWith(ctx, config, read) }, Steps: life}, compact)
	require.NotEmpty(t, failures)
	assert.Contains(t, failures[0], "too old resource version")
}

func TestAWriteThatTheServerRefusesIsNotDisturbed(t *testing.T) {
	s := Scenario{Steps: life[:1], Operator: func(ctx context.Context, config *rest.Config) error {
		return cachedWith(ctx, config, func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
			_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, child(p), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}}
	trace, failures := Play(t, s, "crash after create serviceaccounts default/b#1")
	inOrder(t, trace, "p0 create serviceaccounts default/a#2", "  refused with 409 Conflict")
	require.Len(t, failures, 1)
	assert.Contains(t, failures[0], `the writes of the undisturbed run are ["create serviceaccounts default/a#1"]`)
}

func TestAnOperatorMayMakeAgainWhatTheCollectorTook(t *testing.T) {
	// It makes a new ConfigMap the owner of the ServiceAccount of an earlier one. If it comes too late, the
	// ServiceAccount is gone, and a second one is right.
	adopt := func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		held, err := c.CoreV1().ServiceAccounts("default").Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil || metav1.IsControlledBy(held, p) {
			return keep(ctx, c, p)
		}
		held.OwnerReferences = child(p).OwnerReferences
		_, err = c.CoreV1().ServiceAccounts("default").Update(ctx, held, metav1.UpdateOptions{})
		return err
	}
	s := Scenario{
		Operator: func(ctx context.Context, config *rest.Config) error { return cachedWith(ctx, config, adopt) },
		Steps: []Step{Create(parent("color", "red")), {Name: "replace it", Do: func(s *reflectortest.Server) error {
			if err := s.Delete(parent()); err != nil {
				return err
			}
			return s.Create(parent("color", "red"))
		}}},
	}
	trace, failures := Play(t, s, "fail update serviceaccounts default/a#1 with 500 for 10m")
	assert.Empty(t, failures)
	inOrder(t, trace, "p0 update serviceaccounts default/a#1", "the garbage collector acts", "p0 create serviceaccounts default/a#2")
}

func TestTwoStepsComeDuringOneWrite(t *testing.T) {
	const create = "create serviceaccounts default/a#1"
	trace, failures := Play(t, Scenario{Operator: cached, Steps: life}, "step before "+create+"; step before "+create)
	assert.Empty(t, failures)
	inOrder(t, trace, "p0 "+create, "user: change ConfigMap default/a", "user: delete ConfigMap default/a", "p0 event")
}

// TestEachClauseDoesWhatItSays looks for lines of the trace, in this order.
func TestEachClauseDoesWhatItSays(t *testing.T) {
	s := Scenario{Operator: cached, Steps: life}
	const create, update = "create serviceaccounts default/a#1", "update serviceaccounts default/a#1"
	for line, want := range map[string][]string{
		"crash before " + create: {"p0 " + create, "p1 watch configmaps default/", "p1 create serviceaccounts default/a#2", "user: change ConfigMap default/a"},
		"crash after " + create:  {"p0 " + create, "p1 watch configmaps default/", "p1 get serviceaccounts default/a", "user: change ConfigMap default/a", "p1 " + update},
		"lose " + create:         {"p0 " + create, "p0 get serviceaccounts default/a", "user: change ConfigMap default/a", "p0 " + update},
		"fail " + create + " with 500": {
			"p0 " + create, "p0 get serviceaccounts default/a", "p0 create serviceaccounts default/a#2", "p0 event ADDED serviceaccounts default/a",
		},
		"fail " + create + " with 500 for 10m": {
			"p0 " + create, "p0 create serviceaccounts default/a#2", "p0 create serviceaccounts default/a#8", "p0 event ADDED serviceaccounts default/a", "user: change",
		},
		"step before " + create:    {"p0 " + create, "user: change ConfigMap default/a", "p0 event MODIFIED configmaps default/a", "p0 " + update, "user: delete"},
		"step after " + create:     {"p0 " + create, "user: change ConfigMap default/a", "p0 " + update, "user: delete"},
		"annotate after " + create: {"p0 " + create, "p0 event ADDED serviceaccounts default/a", "p0 event MODIFIED serviceaccounts default/a", "user: change"},
		"steps 1 and 2 together":   {"user: create ConfigMap default/a", "user: change ConfigMap default/a", "p0 event ADDED configmaps default/a", "p0 " + create, "user: delete"},
		"expire serviceaccounts at " + create: {
			"p0 " + create, "p0 410 Expired instead of the event ADDED serviceaccounts default/a", "p0 watch serviceaccounts default/", "p0 event ADDED serviceaccounts default/a", "user: change",
		},
		"hold configmaps from " + create + " for 30m; step after " + create: {
			"p0 " + create, "user: change ConfigMap default/a", "p0 event ADDED serviceaccounts default/a", "p0 event MODIFIED configmaps default/a", "p0 " + update, "user: delete",
		},
	} {
		t.Run(line, func(t *testing.T) {
			trace, failures := Play(t, s, line)
			assert.Empty(t, failures)
			inOrder(t, trace, want...)
			switch {
			case strings.HasPrefix(line, "crash before"), strings.HasPrefix(line, "fail"):
				stored := slices.Index(trace, "p0 "+create)
				assert.NotContains(t, trace[stored:stored+3], "p0 event ADDED serviceaccounts default/a", "it was not stored")
			}
		})
	}
}

func TestAProcessThatRestartsBehindListsAnOldState(t *testing.T) {
	s := Scenario{Operator: cached, Steps: life, OldServers: true}
	const create, update = "create serviceaccounts default/a#1", "update serviceaccounts default/a#1"
	trace, failures := Play(t, s, "crash after "+update+"; restart behind "+create)
	assert.Empty(t, failures)
	text := strings.Join(trace, "\n")
	assert.Contains(t, text, "restart behind "+create)
	restarted := text[strings.Index(text, "p1 "):]
	// At that version there was no ServiceAccount. So the events between follow later, although the process began after them.
	assert.Contains(t, restarted, "p1 event ADDED serviceaccounts default/a")
	assert.Contains(t, restarted, "p1 event MODIFIED serviceaccounts default/a")
}

func TestSlowWritesTakeOverASecond(t *testing.T) {
	// Its second write is in the same second as the first, unless writes are slow.
	stamp := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		if len(p.Data) == 3 {
			return nil
		}
		begin := time.Now()
		p.Data["a"] = "1"
		written, err := c.CoreV1().ConfigMaps("default").Update(ctx, p, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		written.Data["b"] = time.Since(begin).Truncate(time.Second).String()
		_, err = c.CoreV1().ConfigMaps("default").Update(ctx, written, metav1.UpdateOptions{})
		return err
	})
	s := Scenario{Operator: stamp, Steps: []Step{Create(parent("color", "red"))}}
	_, failures := Play(t, s, slow)
	require.Len(t, failures, 1)
	assert.Contains(t, failures[0], `.data.b is "1s", undisturbed "0s"`)
}

func TestAScheduleIsPlayedInTheSameWayEachTime(t *testing.T) {
	s := Scenario{Operator: cached, Steps: life}
	const create = "create serviceaccounts default/a#1"
	for _, line := range []string{"crash after " + create, "hold * from " + create + " for 3 writes", "expire configmaps at " + create} {
		first, _ := Play(t, s, line)
		for range 4 {
			again, _ := Play(t, s, line)
			assert.Equal(t, first, again)
		}
	}
}

// An operator that scales down by the order of its list acts on names, so these have to be the same.
func TestAScheduleGeneratesTheSameNamesEachTime(t *testing.T) {
	scale := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		accounts := c.CoreV1().ServiceAccounts("default")
		children, err := accounts.List(ctx, metav1.ListOptions{})
		if err != nil || len(children.Items) == len(p.Data["size"]) {
			return err
		}
		for range len(p.Data["size"]) - len(children.Items) {
			fresh := child(p)
			fresh.Name, fresh.GenerateName = "", "x-"
			if _, err := accounts.Create(ctx, fresh, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		for i := len(p.Data["size"]); i < len(children.Items); i++ {
			if err := accounts.Delete(ctx, children.Items[i].Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	resize := func(size string) Step {
		return Change(parent(), func(p *corev1.ConfigMap) { p.Data["size"] = size })
	}
	s := Scenario{Operator: scale, Steps: []Step{Create(parent("size", "xxx")), resize("xx"), resize("xxx"), resize("x")}}
	first, _ := Play(t, s, "slow")
	for range 4 {
		again, _ := Play(t, s, "slow")
		assert.Equal(t, first, again)
	}
}

// An operator that watches one kind twice acts when the first of its two caches has an object.
func TestTwoWatchesOfAKindAreServedInOneOrder(t *testing.T) {
	first := func(ctx context.Context, config *rest.Config) error {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		var acted atomic.Bool
		var running sync.WaitGroup
		for _, selector := range []string{"", "!a", "!b", "!c", "!d"} {
			running.Go(func() {
				w, err := c.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{LabelSelector: selector})
				if err != nil {
					return
				}
				defer w.Stop()
				for event := range w.ResultChan() {
					if event.Type == apiwatch.Added && !acted.Swap(true) {
						account := child(parent())
						account.Name, account.OwnerReferences = strings.Replace("by"+selector, "!", "-", 1), nil
						_, _ = c.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
					}
				}
			})
		}
		running.Wait()
		<-ctx.Done()
		return nil
	}
	s := &Scenario{Operator: first, Steps: life[:1], Quiet: time.Minute}
	for range 5 {
		w := watch(t.Name())
		undisturbed, err := s.begin(t, w)
		w.stop()
		require.NoError(t, err)
		assert.Equal(t, []string{"create serviceaccounts default/by-a#1"}, undisturbed.writes)
	}
}

// lock makes a ServiceAccount for the time of its work. It deletes by name what only its own answer has shown.
func lock(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
	if p.Data["painted"] == p.Data["color"] {
		return nil
	}
	accounts := c.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, child(p), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := accounts.Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	p = p.DeepCopy()
	p.Data["painted"] = p.Data["color"]
	_, err := c.CoreV1().ConfigMaps("default").Update(ctx, p, metav1.UpdateOptions{})
	return err
}

func TestADeletionOfWhatNoCacheShowsIsNoFinding(t *testing.T) {
	s := Scenario{Steps: life, Operator: func(ctx context.Context, config *rest.Config) error { return cachedWith(ctx, config, lock) }}
	const held = "hold serviceaccounts from create serviceaccounts default/a#2 for 5 writes"
	for _, line := range []string{held, "expire serviceaccounts at delete serviceaccounts default/a#1; " + held} {
		for _, s.OldServers = range []bool{false, true} {
			_, failures := Play(t, s, line)
			assert.Empty(t, failures, line)
		}
	}
}

func TestADeletionOfWhatTheOperatorHasMadeIsNoFinding(t *testing.T) {
	account := child(parent())
	account.OwnerReferences = nil
	replace := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		accounts := c.CoreV1().ServiceAccounts("default")
		if held, err := accounts.Get(ctx, p.Name, metav1.GetOptions{}); err == nil {
			if err := accounts.Delete(ctx, held.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return lock(ctx, c, p)
	})
	assert.NotContains(t, fmt.Sprint(Find(t, Scenario{Operator: replace, Steps: []Step{Create(account), Create(parent("color", "red"))}})), "removed another object")
}

func TestAStepThatHasAConditionDoesNotWaitForTheOperator(t *testing.T) {
	again := Create(parent("color", "green"))
	again.When = func(s *reflectortest.Server) bool { return s.Get(parent()) != nil } // the name is free
	trace, failures := Play(t, Scenario{Operator: cached, Steps: append(slices.Clone(life), again)}, "slow")
	assert.Empty(t, failures)
	deleted := slices.Index(trace, "user: delete ConfigMap default/a")
	require.GreaterOrEqual(t, deleted, 0)
	made := slices.Index(trace, "user: create ConfigMap default/a")
	made += 1 + slices.Index(trace[made+1:], "user: create ConfigMap default/a")
	collected := slices.Index(trace, "the garbage collector acts")
	assert.Greater(t, made, deleted)
	assert.Greater(t, collected, made, "the next step does not wait until the dependents are gone")
}

func TestAPanicThatTheManagerRecoversIsAFinding(t *testing.T) {
	s := Scenario{Steps: life, Operator: func(ctx context.Context, config *rest.Config) error {
		return cachedWith(ctx, config, func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
			err := keep(ctx, c, p)
			if apierrors.IsConflict(err) {
				panic("not thought of")
			}
			return err
		})
	}}
	_, failures := Play(t, s, "fail create serviceaccounts default/a#1 with 409")
	assert.Equal(t, []string{"the operator panics: not thought of"}, failures)
}

func TestTheCollectorActsWhileEventsAreHeld(t *testing.T) {
	const create = "create serviceaccounts default/a#1"
	s := Scenario{Operator: cached, Steps: []Step{Create(parent("color", "red")), Delete(parent())}}
	trace, failures := Play(t, s, "hold * from "+create+" for 30s; step after "+create)
	assert.Empty(t, failures)
	collected, seen := slices.Index(trace, "the garbage collector acts"), slices.Index(trace, "p0 event ADDED serviceaccounts default/a")
	require.GreaterOrEqual(t, collected, 0)
	assert.Greater(t, seen, collected, "it takes five seconds, and the hold thirty")
}
