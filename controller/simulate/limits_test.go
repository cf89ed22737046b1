package simulate

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			called := false
			operator := polling(func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
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
			_, _ = Play(t, Scenario{Operator: operator, Reset: func() { called = false }, Steps: []Step{{Name: "break the connection", Do: func(s *reflectortest.Server) error {
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
	assert.Contains(t, strings.Join(trace, "\n"), `user: create ConfigMap default/a has to wait: configmaps "a" already exists`)
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

func TestAnItemThatTheServerHasMergedIsNotLost(t *testing.T) {
	list := func(items ...any) any { return append([]any{}, items...) }
	theirs := change{path: ".conditions", before: list("Ready"), after: list("Ready", "Theirs")}
	assert.False(t, change{path: ".conditions", before: theirs.after, after: list("Ready", "Theirs", "Ours")}.loses(theirs))
	assert.True(t, change{path: ".conditions", before: theirs.after, after: list("Ready", "Ours")}.loses(theirs))
	assert.True(t, change{path: ".color", before: "blue", after: "red"}.loses(change{path: ".color", before: "red", after: "blue"}))
}
