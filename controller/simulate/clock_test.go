package simulate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// hourly makes a ServiceAccount for each hour since the ConfigMap was created. With the bug, it does not make up for
// one that is late.
func hourly(buggy bool) act {
	return func(ctx context.Context, c kubernetes.Interface, p *corev1.ConfigMap) error {
		age := time.Since(p.CreationTimestamp.Time)
		if p.DeletionTimestamp != nil || buggy && age%time.Hour > time.Minute {
			return nil
		}
		for n := 1; n <= int(age/time.Hour); n++ {
			account := child(p)
			account.Name = fmt.Sprintf("a-%d", n)
			accounts := c.CoreV1().ServiceAccounts("default")
			if _, err := accounts.Get(ctx, account.Name, metav1.GetOptions{}); ignoreNotFound(err) != nil {
				return err
			} else if err == nil {
				continue
			}
			if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestAnOperatorThatActsByTheClockIsDisturbedWhenItActs(t *testing.T) {
	day := []Step{Create(parent()), Wait(90 * time.Minute), Wait(time.Hour), Delete(parent())}
	assert.Equal(t, "wait 1h30m", day[1].Name)
	assert.Empty(t, Find(t, Scenario{Operator: polling(hourly(false)), Steps: day}))

	trace, failures := Play(t, Scenario{Operator: polling(hourly(false)), Steps: day}, "crash after create serviceaccounts default/a-2#1")
	assert.Empty(t, failures)
	inOrder(t, trace, "user: wait 1h30m", "p0 create serviceaccounts default/a-1#1", "user: wait 1h", "p0 create serviceaccounts default/a-2#1", "p1 ", "user: delete ConfigMap default/a")

	_, failures = Play(t, Scenario{Operator: polling(hourly(true)), Steps: day}, "fail create serviceaccounts default/a-1#1 with 500 for 10m")
	require.NotEmpty(t, failures)
	assert.Equal(t, "after step 2 (wait 1h30m) the cluster differs from the undisturbed run: ServiceAccount default/a-1 is missing", failures[0])
}

// What an operator makes at full hours, with their time in its name, is the same in both: a run that settles early
// still does each step when the undisturbed one did.
func TestStepsBesideAWaitComeAtTheSameTimes(t *testing.T) {
	var at [][]time.Time // of each run
	note := func(step Step) Step {
		do := step.Do
		step.Do = func(s *reflectortest.Server) error {
			at[len(at)-1] = append(at[len(at)-1], time.Now())
			return do(s)
		}
		return step
	}
	steps := []Step{note(Create(parent("color", "red"))), Wait(10 * time.Minute), note(paint("blue")), Wait(time.Hour), note(Delete(parent()))}
	s := Scenario{Operator: elected(polling(keep)), Steps: steps, Serial: true, Outside: func(*Scenario) func() []string {
		at = append(at, nil)
		return nil
	}}
	const create = "create serviceaccounts default/a#1"
	for _, line := range []string{
		"slow", "crash after " + create, "fail update serviceaccounts default/a#1 with 500",
		"crash after " + create + "; standby behind " + create, "stop after " + create + "; standby behind " + create, "lease lost at " + create,
	} {
		at = nil
		_, failures := Play(t, s, line)
		assert.Empty(t, failures, line)
		require.Len(t, at[0], 3)
		for _, disturbed := range at {
			assert.Equal(t, at[0], disturbed, line)
		}
		assert.Equal(t, time.Hour, at[0][2].Sub(at[0][1]))
	}
}
