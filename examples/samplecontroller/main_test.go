package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestSampleController(t *testing.T) {
	assert.Equal(t, `A Foo is created:
  Foo web has 0 of 2 replicas, Ready=False (Progressing)
  Deployment web wants 2 replicas of nginx:1.29
Its pods run:
  Foo web has 2 of 2 replicas, Ready=True (Available)
  Deployment web wants 2 replicas of nginx:1.29
It is scaled:
  Foo web has 2 of 3 replicas, Ready=False (Progressing)
  Deployment web wants 3 replicas of nginx:1.29
Another client changes the Deployment:
  Foo web has 2 of 3 replicas, Ready=False (Progressing)
  Deployment web wants 3 replicas of nginx:1.29
Another client deletes the Deployment:
  Foo web has 0 of 3 replicas, Ready=False (Progressing)
  Deployment web wants 3 replicas of nginx:1.29
It wants another name:
  Foo web has 0 of 3 replicas, Ready=False (Progressing)
  Deployment site wants 3 replicas of nginx:1.29
It is deleted:
  no Foo
  no Deployment
Events:
  Foo web, 1 times: Created: Deployment web has 2 replicas
  Foo web, 2 times: Repaired: Deployment web has 3 replicas
  Foo web, 1 times: Created: Deployment web has 3 replicas
  Foo web, 1 times: Created: Deployment site has 3 replicas
`, clustertest.Output(t, cluster.With(control, demonstrate), custom))
}

func TestDeploymentOfSomebodyElseIsLeftAloneAndTakenWhenItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		theirs := newFoo("other", "web", 9).deployment()
		theirs.OwnerReferences = nil
		w.must(w.server.Create(theirs))
		w.must(w.server.Create(newFoo("web", "web", 2)))
		<-time.After(time.Minute)
		assert.Equal(t, "web=9", w.deployments())
		w.must(w.server.Delete(theirs))
		<-time.After(10 * time.Minute)
		assert.Equal(t, "web=2", w.deployments())
		w.must(w.stop())
	})
}

func TestFooIsNotAvailableWhileItsPodsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		foo := newFoo("web", "web", 2)
		w.must(w.server.Create(foo))
		for _, test := range []struct {
			lag, replicas int32
			want          metav1.ConditionStatus
		}{{0, 2, metav1.ConditionTrue}, {1, 2, metav1.ConditionFalse}, {0, 3, metav1.ConditionFalse}, {0, 2, metav1.ConditionTrue}} {
			<-time.After(time.Minute)
			d := foo.deployment()
			w.must(w.server.Get(d))
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation - int64(test.lag), Replicas: test.replicas, UpdatedReplicas: 2, AvailableReplicas: 2}
			w.must(w.server.Update(d))
			<-time.After(time.Minute)
			w.must(w.server.Get(foo))
			assert.Equal(t, test.want, foo.Status.Conditions[0].Status, "%v", test)
		}
		w.must(w.stop())
	})
}

func TestNothingIsWrittenWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		const many = 50
		for i := range many {
			w.must(w.server.Create(newFoo(fmt.Sprint("foo-", i), fmt.Sprint("foo-", i), 1)))
		}
		<-time.After(time.Hour)
		written := func(verb, resource string) int {
			return len(w.server.Requests(reflectortest.Verb(verb), reflectortest.ForResource(resource)))
		}
		assert.Equal(t, many, written("create", "deployments"))
		assert.Equal(t, many, written("patch", "foos"), "one status each")
		assert.Zero(t, written("update", "deployments"))
		w.must(w.stop())
	})
}

// Whatever happens, once it has ended every Foo has its Deployment as it should be, and
// no Deployment is left of a Foo that is gone.
func TestEveryFooHasItsDeploymentOnceFaultsStop(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := make([]func(*world), rapid.IntRange(1, 25).Draw(r, "steps"))
		for i := range steps {
			steps[i] = drawStep(r)
		}
		var wrong error // rapid's own t is of no use within the bubble
		synctest.Test(t, func(t *testing.T) {
			w := start(t)
			for _, step := range steps {
				step(w)
			}
			w.server.ClearFaults()
			<-time.After(time.Hour)
			wrong = w.check()
			var left *eventqueue.DrainError // Foos that want what another one has
			if err := w.stop(); err != nil && !errors.As(err, &left) {
				wrong = errors.Join(wrong, err)
			}
		})
		require.NoError(r, wrong)
	})
}

// drawStep returns something that happens.
func drawStep(r *rapid.T) func(*world) {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	foo, deployment, replicas := name.Draw(r, "foo"), name.Draw(r, "deployment"), rapid.Int32Range(0, 3).Draw(r, "replicas")
	pause, fault := time.Duration(rapid.IntRange(1, 5000).Draw(r, "ms"))*time.Millisecond, drawFault(r)
	return rapid.SampledFrom([]func(*world){
		func(w *world) {
			if w.server.Create(newFoo(foo, deployment, replicas)) != nil {
				w.must(w.server.Update(newFoo(foo, deployment, replicas)))
			}
		},
		func(w *world) { _ = w.server.Delete(newFoo(foo, "", 0)) }, // or there is none
		func(w *world) { _ = w.server.Delete(newFoo("", deployment, 0).deployment()) },
		func(w *world) {
			d := newFoo("", deployment, 0).deployment()
			if w.server.Get(d) == nil {
				d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image = new(int32), "httpd"
				_ = w.server.Update(d) // or it has just been deleted
			}
		},
		func(w *world) { w.server.Inject(fault) },
		func(w *world) { w.server.ClearFaults() },
		func(*world) { <-time.After(pause) },
	}).Draw(r, "step")
}

// drawFault returns something that goes wrong.
func drawFault(r *rapid.T) reflectortest.Fault {
	n := rapid.IntRange(0, 3).Draw(r, "n")
	which := rapid.SampledFrom([]reflectortest.Fault{
		reflectortest.Answer(500), reflectortest.Answer(429), reflectortest.Answer(409), reflectortest.Answer(403), reflectortest.Refuse(),
		reflectortest.ResetAfterEvents(n), reflectortest.ResetAfterBytes(100 * n), reflectortest.LoseHistory(),
		reflectortest.StallAfterEvents(n, nil), reflectortest.AnswerHTML(502),
	}).Draw(r, "fault")
	verb := rapid.SampledFrom([]string{"", "list", "watch", "create", "update", "patch", "delete"}).Draw(r, "verb")
	return which.On(verb, rapid.SampledFrom([]string{"", "foos", "deployments"}).Draw(r, "resource"))
}

// world is an API server, and the controller that works on it.
type world struct {
	t      *testing.T
	server *reflectortest.Server
	stop   func() error
}

// start runs the controller until stop is called.
func start(t *testing.T) *world {
	server := reflectortest.Start(t, custom)
	c, err := cluster.Of(server)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- control(ctx, io.Discard, c) }()
	return &world{t: t, server: server, stop: func() error { cancel(); return <-result }}
}

func (w *world) must(err error) { w.t.Helper(); require.NoError(w.t, err) }

// check compares the Deployments with what the Foos want. Of several Foos that want the
// same one, any may have it.
func (w *world) check() error {
	all, err := reflectortest.List[*Foo](w.server, "")
	w.must(err)
	deployments, err := reflectortest.List[*appsv1.Deployment](w.server, "")
	w.must(err)
	var wrong []error
	for _, foo := range all {
		if !slices.ContainsFunc(deployments, func(d *appsv1.Deployment) bool { return d.Name == foo.Spec.DeploymentName }) {
			wrong = append(wrong, fmt.Errorf("Foo %s has no Deployment %s", foo.Name, foo.Spec.DeploymentName))
		}
	}
	for _, d := range deployments {
		at := slices.IndexFunc(all, func(foo *Foo) bool { return metav1.IsControlledBy(d, foo) && d.Name == foo.Spec.DeploymentName })
		if at < 0 {
			wrong = append(wrong, fmt.Errorf("no Foo wants Deployment %s, which belongs to %v", d.Name, d.OwnerReferences))
			continue
		}
		foo := all[at]
		if *d.Spec.Replicas != foo.Spec.Replicas || imageOf(d) != image {
			wrong = append(wrong, fmt.Errorf("Deployment %s has %d replicas of %s, and not %d", d.Name, *d.Spec.Replicas, imageOf(d), foo.Spec.Replicas))
		}
		if len(foo.Status.Conditions) != 1 || foo.Status.Conditions[0].ObservedGeneration != foo.Generation {
			wrong = append(wrong, fmt.Errorf("Foo %s of generation %d has the conditions %v", foo.Name, foo.Generation, foo.Status.Conditions))
		}
	}
	return errors.Join(wrong...)
}

func (w *world) deployments() string {
	all, err := reflectortest.List[*appsv1.Deployment](w.server, "")
	w.must(err)
	var names []string
	for _, d := range all {
		names = append(names, fmt.Sprintf("%s=%d", d.Name, *d.Spec.Replicas))
	}
	return strings.Join(names, " ")
}

func newFoo(name, deployment string, replicas int32) *Foo {
	foo := &Foo{Spec: FooSpec{DeploymentName: deployment, Replicas: replicas}}
	foo.Namespace, foo.Name = "default", name
	return foo
}
