// Package trainer plays kubeflow/trainer v2.0.0, unmodified, with JobSets that are complete after 30 seconds.
//
//	go test -C internal/e2e/upstream/testdata/operators/trainer -timeout 30m ./...
//
// A TrainJob that is deleted after its end and created again takes the result of the old JobSet for its own, as
// long as the garbage collector has not deleted that one: it is Complete, and was never run. TerminalCondition
// in pkg/runtime/framework/plugins/jobset gets the JobSet by name, and does not look at its owner. If the new
// TrainJob is suspended, Build even takes that JobSet over by its apply, so it is never collected.
//
// The end of a training is known from the JobSet alone. If the status of the TrainJob cannot be written before
// the JobSet's ttlSecondsAfterFinished has passed, Build of the same package makes a new JobSet, and the training
// runs again: eight times in an outage of ten minutes.
package trainer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	runtimecore "github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	scheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// operator runs the trainer's reconcilers as its main.go does, without its webhooks.
func operator(ctx context.Context, cfg *rest.Config) error {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, trainer.AddToScheme, jobset.AddToScheme, scheduling.AddToScheme} {
		utilruntime.Must(add(kinds))
	}
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: kinds, Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	runtimes, err := runtimecore.New(ctx, m.GetClient(), m.GetFieldIndexer())
	if err == nil {
		_, err = controller.SetupControllers(m, runtimes, ctrlcontroller.Options{})
	}
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// jobSets plays the controller of JobSets, which also deletes a complete one when its time to live has passed.
func jobSets(s *reflectortest.Server) (again time.Duration, err error) {
	all, err := reflectortest.List[*jobset.JobSet](s, "")
	for _, j := range all {
		ttl := j.Spec.TTLSecondsAfterFinished
		ends := j.CreationTimestamp.Add(30 * time.Second)
		complete := len(j.Status.Conditions) > 0
		if complete && ttl != nil {
			ends = j.Status.Conditions[0].LastTransitionTime.Add(time.Duration(*ttl) * time.Second)
		}
		wait := time.Until(ends)
		switch {
		case j.DeletionTimestamp != nil, j.Spec.Suspend != nil && *j.Spec.Suspend, complete && ttl == nil:
		case wait > 0:
			again = wait
		case complete:
			err = s.Delete(j)
		default:
			j.Status.TerminalState = string(jobset.JobSetCompleted)
			j.Status.Conditions = []metav1.Condition{{Type: j.Status.TerminalState, Status: metav1.ConditionTrue, Reason: "AllJobsCompleted", LastTransitionTime: metav1.Now()}}
			err = s.Update(j)
		}
	}
	return again, err
}

func newRuntime(ttl *int32) *trainer.TrainingRuntime {
	job := batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "node", Image: "train"}}
	r := &trainer.TrainingRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
	r.Spec.MLPolicy = &trainer.MLPolicy{NumNodes: new(int32(1))}
	r.Spec.Template.Spec = jobset.JobSetSpec{TTLSecondsAfterFinished: ttl, ReplicatedJobs: []jobset.ReplicatedJob{{Name: "node", Replicas: 1, Template: job}}}
	return r
}

// newJob returns a TrainJob as the defaults of its definition leave it.
func newJob(suspend bool) *trainer.TrainJob {
	return &trainer.TrainJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: trainer.TrainJobSpec{
		RuntimeRef: trainer.RuntimeRef{Name: "r", APIGroup: new("trainer.kubeflow.org"), Kind: new("TrainingRuntime")},
		Suspend:    new(suspend), ManagedBy: new("trainer.kubeflow.org/trainjob-controller"),
	}}
}

func served(version schema.GroupVersion, kind string, prototype metav1.Object) reflectortest.Option {
	return reflectortest.WithResource(reflectortest.Resource{
		Group: version.Group, Version: version.Version, Kind: kind, Plural: strings.ToLower(kind) + "s",
		Namespaced: kind != "ClusterTrainingRuntime", Status: true, Prototype: prototype,
	})
}

func scenario(steps ...simulate.Step) simulate.Scenario {
	return simulate.Scenario{
		Server: []reflectortest.Option{
			served(jobset.GroupVersion, "JobSet", &jobset.JobSet{}), served(trainer.GroupVersion, "TrainJob", &trainer.TrainJob{}),
			served(trainer.GroupVersion, "TrainingRuntime", &trainer.TrainingRuntime{}), served(trainer.GroupVersion, "ClusterTrainingRuntime", nil),
		},
		Operator: operator, Steps: steps, Players: []simulate.Player{jobSets},
		// The runtime's finalizer comes a second after the TrainJob, and stays until the runtime is deleted. A TrainJob
		// that is resumed before the operator has seen it has no condition that says so. Nobody is hurt by either.
		Normalize: func(object map[string]any) {
			delete(object["metadata"].(map[string]any), "finalizers")
			if status, ok := object["status"].(map[string]any); ok && status["conditions"] != nil {
				status["conditions"] = slices.DeleteFunc(status["conditions"].([]any), func(c any) bool { return c.(map[string]any)["reason"] == "Resumed" })
			}
		},
		Serial: true, // the operator keeps its runtime in a package variable
	}
}

// TestTrainer has all findings of each scenario, as the line and a part of the failure.
func TestTrainer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	create, remove := simulate.Create(newJob(false)), simulate.Delete(newJob(false))
	resume := simulate.Change(newJob(false), func(j *trainer.TrainJob) { j.Spec.Suspend = new(false) })
	suspended := simulate.Create(newJob(true))
	prepare, expire := simulate.Create(newRuntime(nil)), simulate.Create(newRuntime(new(int32(60))))
	for _, s := range []struct {
		name, line, failure string
		simulate.Scenario
	}{
		{"runs", "steps 3 and 4 together", "JobSet default/a is missing", scenario(prepare, create, remove, create)},
		{"expires", "fail update trainjobs/status default/a#1 with 500 for 10m", "created 8 times, undisturbed 1 times", scenario(expire, create, remove)},
		{"suspended", "steps 4 and 5 together", "JobSet default/a: .status.conditions is", scenario(prepare, suspended, resume, remove, suspended)},
	} {
		t.Run(s.name, func(t *testing.T) {
			bugs := 0
			for _, f := range simulate.Find(t, s.Scenario) {
				if f.Line == s.line && strings.Contains(f.Failures[0], s.failure) {
					bugs++
				} else {
					t.Errorf("%+v", f)
				}
			}
			if bugs != 1 {
				t.Errorf("%q with %q is not found", s.line, s.failure)
			}
		})
	}
}
