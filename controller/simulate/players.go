package simulate

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deployments plays the controller of Deployments, without pods: all replicas are ready at once. It
// writes status.observedGeneration, replicas, updatedReplicas, readyReplicas and availableReplicas.
func Deployments(s *reflectortest.Server) (time.Duration, error) {
	all, err := reflectortest.List[*appsv1.Deployment](s, "")
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		n := int32(1)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		want := d.Status
		want.ObservedGeneration, want.Replicas, want.UpdatedReplicas, want.ReadyReplicas, want.AvailableReplicas = d.Generation, n, n, n, n
		if d.DeletionTimestamp != nil || reflect.DeepEqual(want, d.Status) {
			continue
		}
		d.Status = want
		if err := s.Update(d); err != nil {
			return 0, fmt.Errorf("deployment %s/%s: %w", d.Namespace, d.Name, err)
		}
	}
	return 0, nil
}

// Jobs returns a player of the controller of Jobs, without pods: a Job that is not suspended runs for a
// time, and then succeeds, or fails if fails is not nil and returns true. The player writes the numbers
// of pods, startTime, completionTime and the condition Complete or Failed of the status. With
// ttlSecondsAfterFinished, it deletes the Job that long after its end. activeDeadlineSeconds has no effect, and a
// Job of another spec.managedBy is left alone until it has ended. With parallelism 0, a Job does not start.
func Jobs(runs time.Duration, fails func(*batchv1.Job) bool) Player {
	return func(s *reflectortest.Server) (again time.Duration, err error) {
		all, err := reflectortest.List[*batchv1.Job](s, "")
		if err != nil {
			return 0, err
		}
		for _, j := range all {
			if j.DeletionTimestamp != nil {
				continue
			}
			if ended := jobEnd(j); ended != nil {
				left, err := deleteAfterTTL(s, j, ended.LastTransitionTime.Time)
				if err != nil {
					return 0, err
				}
				again = sooner(again, left)
				continue
			}
			if j.Spec.ManagedBy != nil && *j.Spec.ManagedBy != batchv1.JobControllerName {
				continue
			}
			want := j.Status.DeepCopy()
			most := int32(1)
			if j.Spec.Parallelism != nil {
				most = *j.Spec.Parallelism // 0 is none
			}
			pods := most
			if j.Spec.Completions != nil {
				pods = min(most, *j.Spec.Completions)
			}
			now := metav1.NewTime(time.Now().Truncate(time.Second))
			switch {
			case j.Spec.Suspend != nil && *j.Spec.Suspend, most == 0:
				want.StartTime, want.Active, want.Ready = nil, 0, nil
			case want.StartTime == nil:
				want.StartTime, want.Active, want.Ready = &now, pods, &pods
				again = sooner(again, runs)
			case time.Since(want.StartTime.Time) < runs:
				again = sooner(again, runs-time.Since(want.StartTime.Time))
			case fails != nil && fails(j):
				want.Active, want.Ready, want.Failed = 0, new(int32(0)), pods
				want.Conditions = append(want.Conditions, jobEnded(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, now))
			default:
				want.Active, want.Ready, want.Succeeded, want.CompletionTime = 0, new(int32(0)), pods, &now
				if j.Spec.Completions != nil {
					want.Succeeded = *j.Spec.Completions
				}
				want.Conditions = append(want.Conditions, jobEnded(batchv1.JobComplete, batchv1.JobReasonCompletionsReached, now))
			}
			if reflect.DeepEqual(want, &j.Status) {
				continue
			}
			j.Status = *want
			if err := s.Update(j); err != nil {
				return 0, fmt.Errorf("job %s/%s: %w", j.Namespace, j.Name, err)
			}
		}
		return again, nil
	}
}

// jobEnd returns the condition that ended a Job, or nil.
func jobEnd(j *batchv1.Job) *batchv1.JobCondition {
	i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
	if i < 0 {
		return nil
	}
	return &j.Status.Conditions[i]
}

// deleteAfterTTL deletes a Job whose ttlSecondsAfterFinished is over, or returns how much of it is left.
func deleteAfterTTL(s *reflectortest.Server, j *batchv1.Job, ended time.Time) (left time.Duration, err error) {
	if j.Spec.TTLSecondsAfterFinished == nil || ended.IsZero() {
		return 0, nil
	}
	left = time.Until(ended.Add(time.Duration(*j.Spec.TTLSecondsAfterFinished) * time.Second))
	if left > 0 {
		return left, nil
	}
	return 0, s.Delete(j, metav1.DeletePropagationForeground)
}

func jobEnded(how batchv1.JobConditionType, reason string, at metav1.Time) batchv1.JobCondition {
	return batchv1.JobCondition{Type: how, Status: corev1.ConditionTrue, Reason: reason, LastProbeTime: at, LastTransitionTime: at}
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// sooner is the shorter of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}
