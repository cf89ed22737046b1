// Package kueue plays kubernetes-sigs/kueue v0.17.0, unmodified: the reconcilers of its core, its scheduler, and the
// integration of Jobs.
//
//	go test -C internal/e2e/upstream/testdata/operators/kueue -timeout 30m ./...
//
// There are no findings in the part of the schedules that is played.
//
// go.mod takes an older version of Kubeflow Trainer than kueue asks for, because that one does not compile with this
// client-go. Kueue only uses some of its constants and types.
package kueue

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
)

var kinds = runtime.NewScheme()

// operator runs kueue as its main.go does, with the integration of Jobs alone, and without its servers and webhooks.
func operator(ctx context.Context, cfg *rest.Config) error {
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: kinds, Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	settings := &configapi.Configuration{}
	configapi.SetDefaults_Configuration(settings)
	cache := schdcache.New(m.GetClient())
	requeuer := qcache.NewRequeuer()
	if err := m.Add(requeuer); err != nil {
		return err
	}
	preemptions := preemptexpectations.New()
	queues := qcache.NewManager(m.GetClient(), cache, requeuer, qcache.WithPreemptionExpectations(preemptions))
	if err := indexer.Setup(ctx, m.GetFieldIndexer()); err != nil {
		return err
	}
	if err := job.SetupIndexes(ctx, m.GetFieldIndexer()); err != nil {
		return err
	}
	if name, err := core.SetupControllers(m, queues, cache, settings, nil, preemptions, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	jobs, err := job.NewReconciler(ctx, m.GetClient(), m.GetFieldIndexer(), m.GetEventRecorderFor("job"),
		jobframework.WithCache(cache), jobframework.WithQueues(queues), jobframework.WithManagedJobsNamespaceSelector(labels.Everything()))
	if err != nil {
		return err
	}
	if err := jobs.SetupWithManager(m); err != nil {
		return err
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	s := scheduler.New(queues, cache, m.GetClient(), m.GetEventRecorderFor(constants.AdmissionName), scheduler.WithPreemptionExpectations(preemptions))
	if err := m.Add(s); err != nil {
		return err
	}
	return m.Start(ctx)
}

func create(name string, objects ...metav1.Object) simulate.Step {
	return simulate.Step{Name: name, Do: func(s *reflectortest.Server) error {
		for _, o := range objects {
			if err := simulate.Create(o).Do(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// newJob is as the webhook leaves it: suspended.
func newJob(name string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"kueue.x-k8s.io/queue-name": "l"}}}
	j.Spec.Suspend, j.Spec.Parallelism, j.Spec.Completions = new(true), new(int32(1)), new(int32(1))
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	return j
}

func TestKueue(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, kueue.AddToScheme, configapi.AddToScheme} {
		utilruntime.Must(add(kinds))
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue").Output()
	utilruntime.Must(err)
	served := []reflectortest.Option{reflectortest.WithDefaults()}
	for plural, prototype := range map[string]metav1.Object{
		"admissionchecks": &kueue.AdmissionCheck{}, "clusterqueues": &kueue.ClusterQueue{}, "cohorts": &kueue.Cohort{}, "localqueues": &kueue.LocalQueue{},
		"resourceflavors": &kueue.ResourceFlavor{}, "topologies": &kueue.Topology{}, "workloadpriorityclasses": &kueue.WorkloadPriorityClass{}, "workloads": &kueue.Workload{},
	} {
		manifest, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/components/crd/bases/kueue.x-k8s.io_"+plural+".yaml"))
		utilruntime.Must(err)
		served = append(served, reflectortest.WithDefinition(manifest, prototype))
	}
	flavor := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}}
	cq := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	cq.Spec.NamespaceSelector = &metav1.LabelSelector{}
	cq.Spec.ResourceGroups = []kueue.ResourceGroup{{
		CoveredResources: []corev1.ResourceName{"cpu"},
		Flavors:          []kueue.FlavorQuotas{{Name: "f", Resources: []kueue.ResourceQuota{{Name: "cpu", NominalQuota: resource.MustParse("1")}}}},
	}}
	lq := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "l"}}
	lq.Spec.ClusterQueue = "c"
	queues := create("create queues", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, flavor, cq, lq)
	a, b := newJob("a"), newJob("b")
	for _, s := range []struct {
		name  string
		runs  time.Duration // of a Job
		steps []simulate.Step
	}{
		{"job", 30 * time.Second, []simulate.Step{queues, simulate.Create(a), simulate.Delete(a), simulate.Create(a)}},
		{"quota", 100 * time.Hour, []simulate.Step{queues, simulate.Create(a), simulate.Create(b), simulate.Delete(a)}},
		{"queues", 100 * time.Hour, []simulate.Step{queues, simulate.Create(a), simulate.Delete(cq), simulate.Delete(flavor), simulate.Delete(a)}},
	} {
		t.Run(s.name, func(t *testing.T) {
			simulate.Explore(t, simulate.Scenario{
				Server: served, Operator: operator, Steps: s.steps, Most: 40,
				Players: []simulate.Player{simulate.Jobs(s.runs, nil)},
				Serial:  true, // kueue keeps its metrics and integrations in package variables
			})
		})
	}
}
