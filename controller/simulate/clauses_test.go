package simulate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
			rest := trace
			for _, one := range want {
				at := slices.IndexFunc(rest, func(line string) bool { return strings.HasPrefix(line, one) })
				require.GreaterOrEqual(t, at, 0, "%q is missing, or comes too early, in\n%s", one, strings.Join(trace, "\n"))
				rest = rest[at+1:]
			}
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
