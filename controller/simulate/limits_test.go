package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestNamesThatTheServerGeneratesAreTheSameInAllRuns(t *testing.T) {
	generated := parent("color", "red")
	generated.Name, generated.GenerateName = "", "run-"
	// The name of the child begins with its parent's, and a second child's name is generated from it.
	derived := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		if p.Data["done"] != "" {
			return nil
		}
		config := child(p)
		config.Name = p.Name + "-config"
		accounts := c.CoreV1().ServiceAccounts("default")
		if _, err := accounts.Create(ctx, config, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		more := child(p)
		more.Name, more.GenerateName, more.Labels = "", p.Name+"-", map[string]string{"of-" + p.Name: "yes"}
		if _, err := accounts.Create(ctx, more, metav1.CreateOptions{}); err != nil {
			return err
		}
		p.Data["done"] = "yes"
		_, err := c.CoreV1().ConfigMaps("default").Update(ctx, p, metav1.UpdateOptions{})
		return err
	})
	found := Find(t, Scenario{Operator: derived, Steps: []Step{Create(generated)}})
	require.NotEmpty(t, found, "a lost answer makes a second child")
	assert.Contains(t, found[0].Failures[0], "there are 2 of ServiceAccount default/run-*-*, undisturbed 1")
	assert.NotContains(t, found[0].Line, "run-*-*#", "the name of the parent is a star and a number in lines")
}

func TestNamesThatFollowFromAUIDAreTheSameInAllRuns(t *testing.T) {
	derived := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		fresh := child(p)
		fresh.Name = p.Name + "-" + string(p.UID)[:8]
		_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, fresh, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	again := []Step{Create(parent("color", "red")), Delete(parent()), Create(parent("color", "red"))}
	assert.Empty(t, Find(t, Scenario{Operator: derived, Steps: again}))
}

func TestAnOperatorMaySendProtobuf(t *testing.T) {
	binary := func(operator func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
		return func(ctx context.Context, config *rest.Config) error {
			config.ContentType = "application/vnd.kubernetes.protobuf"
			config.AcceptContentTypes = config.ContentType + ",application/json"
			return operator(ctx, config)
		}
	}
	assert.Empty(t, Find(t, Scenario{Operator: binary(polling(keep)), Steps: life}))
	trace, _ := Play(t, Scenario{Operator: binary(polling(keep)), Steps: life}, slow)
	assert.Contains(t, trace, "p0 create serviceaccounts default/a#1", "a line has the name in the body")
}

func TestADryRunIsNoWrite(t *testing.T) {
	dry := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		fresh := child(p)
		fresh.Name += "-dry"
		_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, fresh, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		return keep(ctx, c, p)
	})
	s := Scenario{Operator: dry, Steps: life}
	assert.Empty(t, Find(t, s))
	trace, _ := Play(t, s, slow)
	assert.Contains(t, trace, "p0 dry-run create serviceaccounts default/a-dry")
}

// A deletion has its options in the body.
func TestADeletionThatIsADryRunIsNoWrite(t *testing.T) {
	dry := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		options := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		if err := c.CoreV1().ServiceAccounts("default").Delete(ctx, p.Name, options); ignoreNotFound(err) != nil {
			return err
		}
		if err := c.CoreV1().Secrets("default").DeleteCollection(ctx, options, metav1.ListOptions{}); err != nil {
			return err
		}
		return keep(ctx, c, p)
	})
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		s := Scenario{Steps: life[:2], Operator: func(ctx context.Context, config *rest.Config) error {
			config.ContentType = contentType
			return dry(ctx, config)
		}}
		trace, failures := Play(t, s, slow)
		assert.Empty(t, failures)
		assert.Contains(t, trace, "p0 dry-run delete serviceaccounts default/a")
		assert.Contains(t, trace, "p0 dry-run deletecollection secrets default/")
		for _, line := range trace {
			assert.NotContains(t, line, "p0 delete", "it would be a place for disturbances")
		}
	}
}

func TestAFaultOfTheConnectionIsAnError(t *testing.T) {
	fresh := child(parent())
	fresh.OwnerReferences = nil
	create := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, fresh, metav1.CreateOptions{})
		return err
	}
	remove := func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().ServiceAccounts("default").Delete(ctx, fresh.Name, metav1.DeleteOptions{})
	}
	lease := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoordinationV1().Leases("default").Get(ctx, "a", metav1.GetOptions{})
		return err
	}
	watch := func(ctx context.Context, c kubernetes.Interface) error {
		stream, err := c.CoreV1().RESTClient().Get().Namespace("default").Resource("configmaps").Param("watch", "1").Stream(ctx)
		if err != nil {
			return err
		}
		defer stream.Close()
		_, err = io.ReadAll(stream)
		return err
	}
	for _, broken := range []struct {
		name  string
		fault reflectortest.Fault
		call  func(context.Context, kubernetes.Interface) error
		is    func(error) bool
	}{
		{"refused deletion", reflectortest.Refuse().On("delete", "serviceaccounts"), remove, utilnet.IsConnectionRefused},
		{"answer cut off", reflectortest.ResetAfterBytes(10).On("create", "serviceaccounts"), create, utilnet.IsConnectionReset},
		{"refused lease", reflectortest.Refuse().On("get", "leases"), lease, utilnet.IsConnectionRefused},
		{"refused watch", reflectortest.Refuse().On("watch", "configmaps"), watch, utilnet.IsConnectionRefused},
		{"watch cut off", reflectortest.ResetAfterEvents(1).On("watch", "configmaps"), watch, utilnet.IsConnectionReset},
	} {
		t.Run(broken.name, func(t *testing.T) {
			var got []error
			outside := func(run *Scenario) func() []string {
				called := false
				run.Operator = polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
					if called {
						return nil
					}
					called = true
					got = append(got, broken.call(ctx, c))
					account := child(p)
					account.Name = "another"
					_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
					return err
				})
				return nil
			}
			_, _ = Play(t, Scenario{Outside: outside, Steps: []Step{{Name: "break the connection", Do: func(s *reflectortest.Server) error {
				s.Inject(broken.fault.Times(1))
				return s.Create(parent())
			}}}}, slow)
			require.Len(t, got, 3, "the undisturbed run, the same again, and this line")
			for _, err := range got {
				require.Error(t, err)
				assert.True(t, broken.is(err), "%v", err)
			}
		})
	}
}

// A place where a disturbance shall happen is a write that the server has stored.
func TestAWriteThatTheServerHasNotStoredIsNotDisturbed(t *testing.T) {
	fresh := child(parent())
	fresh.OwnerReferences = nil
	operator := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, fresh, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	for fault, want := range map[*reflectortest.Fault][]string{
		new(reflectortest.Refuse()):            {"create serviceaccounts default/a#2"},
		new(reflectortest.ResetAfterBytes(10)): {"create serviceaccounts default/a#1"},
	} {
		s := &Scenario{Operator: operator, Steps: []Step{{Name: "break the connection", Do: func(s *reflectortest.Server) error {
			s.Inject(fault.On("create", "serviceaccounts").Times(1))
			return s.Create(parent())
		}}}}
		w := watch(t.Name())
		undisturbed, err := s.begin(t, w)
		w.stop()
		require.NoError(t, err)
		assert.Equal(t, want, undisturbed.writes)
	}
}

func TestAUserWhoActsEarlyWaitsIfTheServerRefuses(t *testing.T) {
	held := parent("color", "red")
	held.Finalizers = []string{"example.com/keeper"}
	release := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		if p.DeletionTimestamp != nil {
			p.Finalizers = nil
			_, err := c.CoreV1().ConfigMaps("default").Update(ctx, p, metav1.UpdateOptions{})
			return err
		}
		return keep(ctx, c, p)
	})
	s := Scenario{Operator: release, Steps: []Step{Create(held), Delete(held), Create(held)}}
	trace, failures := Play(t, s, "steps 2 and 3 together")
	assert.Empty(t, failures)
	assert.Contains(t, strings.Join(trace, "\n"), `user: create ConfigMap default/a has to wait: object is being deleted: configmaps "a" already exists`)
	assert.Empty(t, Find(t, s))
}

func TestARunThatDoesNotEndByItselfIsEnded(t *testing.T) {
	for _, bad := range []struct {
		name string
		Scenario
		says string
	}{
		{"a condition that never comes", Scenario{Operator: polling(keep), Steps: []Step{Create(parent("color", "red")), {
			Name: "wait", Do: func(*reflectortest.Server) error { return nil }, When: func(*reflectortest.Server) bool { return false },
		}}}, "step 2 (wait): its When has not become true"},
		{"requests without a pause", Scenario{Steps: life, Operator: polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
			for ctx.Err() == nil {
				if _, err := c.CoreV1().Secrets("default").Get(ctx, "late", metav1.GetOptions{}); err == nil {
					break
				}
			}
			return nil
		})}, "the operator does not settle: it sends requests without a pause, the last one is get secrets default/late"},
		{"a player that always writes", Scenario{Operator: polling(keep), Steps: life, Players: []Player{func(s *reflectortest.Server) (time.Duration, error) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if s.Get(node) != nil {
				return 0, s.Create(node)
			}
			node.Labels = map[string]string{"version": fmt.Sprint(s.ResourceVersion())}
			return 0, s.Update(node)
		}}}, "the players do not settle"},
		{"a panic in the set-up", Scenario{Steps: life, Operator: func(context.Context, *rest.Config) error { panic("no manager") }}, "the operator ended by itself: it panics: no manager"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			_, err := bad.find(t)
			require.Error(t, err)
			assert.ErrorContains(t, err, bad.says)
		})
	}
}

func TestDifferencesAreFieldsAndNotTheirNumbers(t *testing.T) {
	paths := func(a, b string) (all []string) {
		for _, d := range differences(decode([]byte(a)), decode([]byte(b))) {
			all = append(all, d.path+": "+short(d.before)+", "+short(d.after))
		}
		return all
	}
	assert.Empty(t, paths(`{"metadata":{"resourceVersion":"1","generation":1}}`, `{"metadata":{"resourceVersion":"2","generation":2}}`))
	assert.Equal(t, []string{`.a[b.c/d]: 1, absent`, `.e: absent, "f"`}, paths(`{"a":{"b.c/d":1}}`, `{"a":{},"e":"f"}`))
	assert.Equal(t, []string{`.spec: absent, {}`}, paths(`{}`, `{"spec":{}}`), "an empty selector selects everything")
	assert.Len(t, short(strings.Repeat("x", 1000)), 150+len("…"))
}

func TestItemsWithGeneratedNamesAreASet(t *testing.T) {
	names := strings.NewReplacer("x-k2", "x-*", "x-9z", "x-*")
	item := func(name, role string) any { return map[string]any{"name": name, "role": role} }
	members := func(items ...any) any { return plain(items, "members", names) }
	assert.Equal(t, members(item("x-9z", "primary"), item("x-k2", "replica")), members(item("x-9z", "replica"), item("x-k2", "primary")))
	args := func(items ...any) any { return plain(items, "args", names) }
	assert.NotEqual(t, args("a", "b"), args("b", "a"), "without names, the order may have a meaning")
}

func TestAnItemThatTheServerHasMergedIsNotLost(t *testing.T) {
	list := func(items ...any) any { return append([]any{}, items...) }
	theirs := change{path: ".conditions", before: list("Ready"), after: list("Ready", "Theirs")}
	assert.False(t, change{path: ".conditions", before: theirs.after, after: list("Ready", "Theirs", "Ours")}.loses(theirs))
	assert.True(t, change{path: ".conditions", before: theirs.after, after: list("Ready", "Ours")}.loses(theirs))
	assert.True(t, change{path: ".color", before: "blue", after: "red"}.loses(change{path: ".color", before: "red", after: "blue"}))
}

// An operator that takes an error of its write for the end keeps its status behind until its next event.
func TestAStatusThatStaysBehindItsGenerationIsAFinding(t *testing.T) {
	steps := []Step{
		Create(budget()),
		Change(budget(), func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromInt32(2)) }),
	}
	for _, buggy := range []bool{true, false} {
		_, failures := Play(t, Scenario{Operator: observing(buggy), Steps: steps}, "fail update poddisruptionbudgets/status default/a#2 with 409")
		if !buggy {
			assert.Empty(t, failures)
			continue
		}
		require.NotEmpty(t, failures)
		assert.Equal(t, `after step 2 (change PodDisruptionBudget default/a) the cluster differs from the undisturbed run: PodDisruptionBudget default/a: `+
			`.status.observedGeneration is "another than that of the object", undisturbed "that of the object"`, failures[0])
	}
}

func budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}}
}

// observing acts once on each generation, as an operator does that only hears of changes.
func observing(buggy bool) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		budgets := kubernetes.NewForConfigOrDie(config).PolicyV1().PodDisruptionBudgets("default")
		for heard := int64(0); ; {
			b, err := budgets.Get(ctx, "a", metav1.GetOptions{})
			if err == nil && b.Generation != heard {
				b.Status.ObservedGeneration = b.Generation
				if _, err := budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{}); err == nil || buggy {
					heard = b.Generation
				}
			}
			select {
			case <-time.After(25 * time.Second):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// An operator that drains ignores that a pod is gone, and must not take a missing subresource for it.
func TestASubresourceThatTheServerLacksIsAFinding(t *testing.T) {
	drain := func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		err := c.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
		return errors.Join(ignoreNotFound(err), keep(ctx, c, p))
	}
	findings := Find(t, Scenario{Operator: polling(drain), Steps: life})
	require.Len(t, findings, 1)
	assert.Equal(t, Finding{Failures: []string{"the operator needs pods/eviction, which the server in memory does not have, so what it does with it is not tested"}, group: "lacks pods/eviction"}, findings[0])
}

func TestTheInvariantSeesTheStateBeforeAStepThatFollowsAtOnce(t *testing.T) {
	const create = "create serviceaccounts default/a#1"
	var seen []string
	s := Scenario{Operator: cached, Steps: life, Outside: func(run *Scenario) func() []string {
		seen = nil
		run.Invariant = func(s *reflectortest.Server) error {
			p, a := parent(), child(parent())
			if s.Get(p) == nil && s.Get(a) == nil {
				seen = append(seen, p.Data["color"]+" "+a.Labels["color"])
			}
			return nil
		}
		return nil
	}}
	_, failures := Play(t, s, "step after "+create)
	assert.Empty(t, failures)
	assert.Equal(t, []string{"red red", "blue red", "blue blue"}, seen)
}

// An operator that reads the cluster itself must not take an error for absence.
func TestALineRefusesARead(t *testing.T) {
	for _, buggy := range []bool{true, false} {
		operator := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
			accounts := c.CoreV1().ServiceAccounts("default")
			_, err := accounts.Get(ctx, "a", metav1.GetOptions{})
			if err == nil || !buggy && ignoreNotFound(err) != nil {
				return err
			}
			account := child(p)
			account.Name, account.GenerateName = "", "a-"
			if p.Data["done"] == "" {
				account.Name = "a"
			}
			if _, err = accounts.Create(ctx, account, metav1.CreateOptions{}); err == nil && p.Data["done"] == "" {
				p.Data = map[string]string{"done": "yes"}
				_, err = c.CoreV1().ConfigMaps("default").Update(ctx, p, metav1.UpdateOptions{})
			}
			return err
		})
		for _, line := range []string{"fail get serviceaccounts default/a#2 with 500", "fail get serviceaccounts default/a#2 with denied for 10m"} {
			_, failures := Play(t, Scenario{Operator: operator, Steps: life[:1]}, line)
			if buggy {
				require.NotEmpty(t, failures, line)
				assert.Contains(t, failures[0], "ServiceAccount default/a-* exists")
			} else {
				assert.Empty(t, failures, line)
			}
		}
	}
}
