package simulated

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var imageSteps = []simulate.Step{create("a"), setImage("a", "v2")}

var retryPairs = []pair{
	{
		name:     "a status that is lost with its error",
		operator: swallowedError,
		scenario: simulate.Scenario{Steps: imageSteps},
		line:     "fail update sites/status default/a#1 with 409",
		says:     `Site default/a: .status.image is absent, undisturbed "v1"`,
	},
	{
		name:     "a creation that is tried again without back-off",
		operator: tightLoop,
		scenario: simulate.Scenario{Steps: imageSteps},
		line:     "fail create configmaps default/a#1 with 500 for 10m",
		says:     "create configmaps default/a was tried more than 620 times while it failed for 10m: an operator backs off",
	},
	{
		name:     "a creation with a generated name that is tried again after its answer was lost",
		operator: secondJob,
		scenario: simulate.Scenario{Steps: imageSteps},
		line:     "lose create jobs default/a-*#1",
		says:     "there are 2 of Job default/a-*, undisturbed 1",
	},
	{
		name:     "a status with the time of the last reconciliation",
		operator: timestamp,
		scenario: simulate.Scenario{Steps: imageSteps},
		line:     "slow",
		says:     "the operator does not settle: it has sent 301 writes, the last one is update sites/status default/a",
	},
	{
		name:     "a timeout that each reconciliation starts again",
		operator: transitionTime,
		scenario: simulate.Scenario{Steps: imageSteps},
		line:     "slow",
		says:     "the operator does not settle: it has sent 301 writes, the last one is update sites/status default/a",
	},
}

// swallowedError reports the image in the status. After an error that is only logged, no event and no
// queue brings the site back.
func swallowedError(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		if s.Status.Image == s.Spec.Image {
			return ctrl.Result{}, nil
		}
		s.Status.Image = s.Spec.Image
		err := c.Status().Update(ctx, s)
		if buggy && err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "update the status")
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	})
}

// tightLoop makes a ConfigMap. A webhook that denies it, or a server that fails, does so for long: the
// queue backs off for each error that it gets, and not for RequeueAfter.
func tightLoop(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		err := client.IgnoreAlreadyExists(c.Create(ctx, &corev1.ConfigMap{ObjectMeta: owned(s, "")}))
		if buggy && err != nil {
			return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
		}
		return ctrl.Result{}, err
	})
}

// secondJob starts one Job for each site, and asks the server itself whether there is one. A creation
// whose answer is lost may have been stored, so it must not be repeated before the next look.
func secondJob(mgr ctrl.Manager, buggy bool) error {
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		var jobs batchv1.JobList
		if err := live.List(ctx, &jobs, labelled(s)...); err != nil || len(jobs.Items) > 0 {
			return ctrl.Result{}, err
		}
		start := func() error {
			job := &batchv1.Job{ObjectMeta: owned(s, "")}
			job.Name, job.GenerateName = "", s.Name+"-"
			return c.Create(ctx, job)
		}
		if buggy {
			return ctrl.Result{}, retry.OnError(retry.DefaultBackoff, apierrors.IsTimeout, start)
		}
		return ctrl.Result{}, start()
	})
}

// timestamp writes the status. The write is an event of the site, which is the next reconciliation, whose
// time is another one.
func timestamp(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		if !buggy && s.Status.Image == s.Spec.Image {
			return ctrl.Result{}, nil
		}
		s.Status.Image, s.Status.Checked = s.Spec.Image, new(metav1.Now())
		return ctrl.Result{}, c.Status().Update(ctx, s)
	})
}

// transitionTime gives up a site that was not ready for five minutes. The time of its condition must
// change with the status of the condition only, as [meta.SetStatusCondition] does.
func transitionTime(mgr ctrl.Manager, buggy bool) error {
	const patience = 5 * time.Minute
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", LastTransitionTime: metav1.Now()}
		if old := meta.FindStatusCondition(s.Status.Conditions, "Ready"); old != nil {
			if time.Since(old.LastTransitionTime.Time) >= patience {
				ready.Reason = "TimedOut"
			}
			if old.Reason == "TimedOut" {
				return ctrl.Result{}, nil
			}
		}
		if buggy {
			s.Status.Conditions = []metav1.Condition{ready}
		} else if !meta.SetStatusCondition(&s.Status.Conditions, ready) {
			return ctrl.Result{RequeueAfter: time.Until(s.Status.Conditions[0].LastTransitionTime.Add(patience))}, nil
		}
		return ctrl.Result{RequeueAfter: patience}, c.Status().Update(ctx, s)
	})
}
