// Package ray plays the reconcilers of RayCluster and RayJob of KubeRay's operator, v1.5.0, unmodified. A
// RayCluster is scaled and deleted, and a RayJob on a RayCluster runs, is deleted and created again.
//
// Two bugs are known. An answer to the creation of the head pod that is lost while the cache is behind makes a
// second head, because its name is generated and ExpectScalePod is only called after a success. Then the
// reconciler refuses to go on, and does not write that to the status:
// https://github.com/ray-project/kuberay/issues/3013. And createK8sJobIfNeed takes the submitter Job of an
// earlier RayJob of its name for its own, without a look at its owner, so the new RayJob fails, and nothing was
// submitted. RayJobs that make their RayCluster are not played: the operator generates its name by itself.
//
// The variable KUBEREFLECTOR_ALL_SCHEDULES plays all schedules instead of the lines of the known bugs.
package ray

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/dashboardclient"
	utiltypes "github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	utilruntime.Must(rayv1.AddToScheme(scheme.Scheme))
	os.Exit(m.Run())
}

func operator(ctx context.Context, cfg *rest.Config) error {
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme.Scheme, Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	clusters, jobs := ray.NewReconciler(ctx, m, ray.RayClusterReconcilerOptions{}), ray.NewRayJobReconciler(ctx, m, ray.RayJobReconcilerOptions{}, dashboards{})
	if err := errors.Join(clusters.SetupWithManager(m, 1), jobs.SetupWithManager(m, 1)); err != nil {
		return err
	}
	return m.Start(ctx)
}

// dashboards are those of Ray's head pods: each job there has succeeded.
type dashboards struct {
	dashboardclient.RayDashboardClientInterface
	utils.ClientProvider
}

func (d dashboards) GetDashboardClient(manager.Manager) func(*rayv1.RayCluster, string) (dashboardclient.RayDashboardClientInterface, error) {
	return func(*rayv1.RayCluster, string) (dashboardclient.RayDashboardClientInterface, error) { return d, nil }
}

func (dashboards) GetJobInfo(_ context.Context, id string) (*utiltypes.RayJobInfo, error) {
	return &utiltypes.RayJobInfo{JobStatus: rayv1.JobStatusSucceeded, SubmissionId: id}, nil
}

func (dashboards) StopJob(context.Context, string) error { return nil }

// pods play the kubelet: each pod is ready at once.
func pods(s *reflectortest.Server) (time.Duration, error) {
	all, err := reflectortest.List[*corev1.Pod](s, "")
	for _, p := range all {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodRunning {
			p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.0.0.1"
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			err = s.Update(p)
		}
	}
	return 0, err
}

// services play the defaults of the API server. Without a target of its ports, the operator does not settle.
func services(s *reflectortest.Server) (time.Duration, error) {
	all, err := reflectortest.List[*corev1.Service](s, "")
	for _, v := range all {
		before := v.Spec.Ports[0].TargetPort
		for i := range v.Spec.Ports {
			v.Spec.Ports[i].TargetPort = intstr.FromInt32(v.Spec.Ports[i].Port)
		}
		if before != v.Spec.Ports[0].TargetPort {
			err = s.Update(v)
		}
	}
	return 0, err
}

func newCluster(workers int32) *rayv1.RayCluster {
	c := &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "ray", Image: "rayproject/ray:2.52.0"}}}}
	c.Spec.HeadGroupSpec.Template = template
	if workers > 0 {
		c.Spec.WorkerGroupSpecs = []rayv1.WorkerGroupSpec{{
			GroupName: "w", Replicas: &workers, MinReplicas: new(int32(0)), MaxReplicas: new(int32(9)), NumOfHosts: 1, Template: template,
		}}
	}
	return c
}

func TestOperator(t *testing.T) {
	job := &rayv1.RayJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"},
		Spec:       rayv1.RayJobSpec{Entrypoint: "true", JobId: "id", SubmissionMode: rayv1.K8sJobMode, ClusterSelector: map[string]string{utils.RayJobClusterSelectorKey: "a"}},
	}
	scale := simulate.Change(newCluster(2), func(c *rayv1.RayCluster) { c.Spec.WorkerGroupSpecs[0].Replicas = new(int32(1)) })
	for _, known := range []struct {
		name, line, failure string
		steps               []simulate.Step
	}{
		{"two heads", "hold pods from create pods default/a-head-*#1 for 5 writes; lose create pods default/a-head-*#1", "there are 2 of Pod default/a-head-*", []simulate.Step{simulate.Create(newCluster(2)), scale, simulate.Delete(newCluster(2))}},
		{"job of the old one", "step after update rayjobs default/j#2", `.status.jobDeploymentStatus is "Failed", undisturbed "Complete"`, []simulate.Step{simulate.Create(newCluster(0)), simulate.Create(job), simulate.Delete(job), simulate.Create(job)}},
	} {
		t.Run(known.name, func(t *testing.T) {
			s := simulate.Scenario{Operator: operator, Steps: known.steps, Players: []simulate.Player{services, pods, simulate.Jobs(30*time.Second, nil)}}
			s.Normalize = func(o map[string]any) {
				if status, ok := o["status"].(map[string]any); ok {
					delete(status, "stateTransitionTimes") // has also states that it passed through
				}
			}
			dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ray-project/kuberay/ray-operator").Output()
			for plural, prototype := range map[string]metav1.Object{"rayclusters": &rayv1.RayCluster{}, "rayjobs": &rayv1.RayJob{}} {
				manifest, err2 := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/crd/bases/ray.io_"+plural+".yaml"))
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				s.Server = append(s.Server, reflectortest.WithDefinition(manifest, prototype))
			}
			if os.Getenv("KUBEREFLECTOR_ALL_SCHEDULES") != "" {
				simulate.Explore(t, s)
				return
			}
			if _, failures := simulate.Play(t, s, known.line); !strings.Contains(strings.Join(failures, "\n"), known.failure) {
				t.Errorf("%q does not lead to %q, but to %q", known.line, known.failure, failures)
			}
		})
	}
}
