package jobset

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// careful are the tests that a careful author writes for JobSet, by the scenarios of simulate.
var careful = map[string]func(u *user){
	"JobSet runs": func(u *user) {
		u.create(newJobSet(nil))
		u.eventually("two Jobs", func() bool { return made(u) })
		for i, j := range jobs(u) {
			succeed(u, &j)
			if i == 0 {
				u.eventually("it goes on", func() bool { return current(u).Status.TerminalState == "" })
			}
		}
		u.eventually("it is complete", func() bool {
			status := current(u).Status
			return status.TerminalState == string(jobset.JobSetCompleted) && meta.IsStatusConditionTrue(status.Conditions, string(jobset.JobSetCompleted))
		})
		u.remove(newJobSet(nil))
	},
	"JobSet created again": func(u *user) {
		u.create(newJobSet(nil))
		u.eventually("two Jobs", func() bool { return made(u) })
		u.remove(newJobSet(nil))
		u.create(newJobSet(nil))
		u.eventually("two Jobs again", func() bool { return made(u) })
		u.remove(newJobSet(nil))
	},
}

func jobs(u *user) []batchv1.Job {
	var list batchv1.JobList
	u.must(u.List(u.ctx, &list, client.InNamespace("default")))
	return list.Items
}

func current(u *user) *jobset.JobSet {
	js := &jobset.JobSet{}
	u.has("a", js)
	return js
}

// made says whether the JobSet has its Jobs.
func made(u *user) bool {
	js := current(u)
	for _, j := range jobs(u) {
		if !metav1.IsControlledBy(&j, js) {
			return false
		}
	}
	return len(jobs(u)) == 2 && js.Status.TerminalState == ""
}

// succeed does what the controller of Jobs does.
func succeed(u *user, j *batchv1.Job) {
	now := metav1.Now()
	u.must(u.Get(u.ctx, client.ObjectKeyFromObject(j), j))
	j.Status = batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: 1, CompletedIndexes: "0", UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	u.must(u.Status().Update(u.ctx, j))
}

func subjectOf(name string) subject {
	return subject{
		scheme:    kinds(),
		custom:    custom{jobset.GroupVersion.Group, jobset.GroupVersion.Version, "JobSet", "jobsets", &jobset.JobSet{}, &jobset.JobSetList{}},
		operator:  func(m ctrl.Manager) error { return setUp(context.Background(), m) },
		test:      careful[name],
		faultless: name != "JobSet runs", // its errors are there already
	}
}

func TestCompareFakeClient(t *testing.T) {
	for name := range careful {
		compare(name, "fake client", len(bugs) > 0, func() error { return onFake(t, subjectOf(name)) })
	}
}

func TestCompareAPIServer(t *testing.T) {
	s := start(t, subjectOf("JobSet runs"))
	for name := range careful {
		compare(name, "API server", len(bugs) > 0, func() error { return s.run(t, subjectOf(name)) })
	}
}

func TestCompareSimulate(t *testing.T) {
	for _, s := range scenarios {
		if s.name != "restarts" {
			compare("JobSet "+s.name, "simulate", len(bugs) > 0, func() error { return simulated(t, s.Scenario) })
		}
	}
}
