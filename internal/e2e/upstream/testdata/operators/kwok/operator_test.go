// Package kwok plays the controller of sigs.k8s.io/kwok v0.8.0, unmodified, which plays the kubelet of nodes that do
// not exist. Its stages are the default ones, and nodes have no leases.
//
//	go test -C internal/e2e/upstream/testdata/operators/kwok -timeout 30m ./...
//
// After a restart, two pods that run have one address: the pool of addresses is in memory, and markPodIP in
// pkg/kwok/controllers/pod_controller.go, which takes those of earlier pods out of it, is only called when a stage of
// such a pod is played.
//
// A pod that is created again at once is deleted: deleteResource of the same file deletes by name, when the
// controller has seen that the earlier pod terminates. The kubelet has the UID as a precondition.
package kwok

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/slices"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// operator runs kwok's controller as its root.go does.
func operator(stages map[internalversion.StageResourceRef][]*internalversion.Stage) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, cfg *rest.Config) error {
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		c, err := controllers.NewController(controllers.Config{
			TypedClient: client, ManageAllNodes: true, CIDR: "10.0.0.1/24", NodeIP: "10.1.0.1",
			PodPlayStageParallelism: 1, NodePlayStageParallelism: 1, PodsOnNodeSyncParallelism: 1,
			LocalStages: stages, ID: "kwok",
		})
		if err != nil {
			return err
		}
		if err := c.Start(log.NewContext(ctx, log.NewLogger(io.Discard, log.LevelError))); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}

func stages(t *testing.T, yamls ...string) map[internalversion.StageResourceRef][]*internalversion.Stage {
	var all []*internalversion.Stage
	for _, y := range yamls {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](y)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stage)
	}
	return slices.GroupBy(all, func(s *internalversion.Stage) internalversion.StageResourceRef { return s.Spec.ResourceRef })
}

func newNode() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}} }

func newPod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.NodeName, p.Spec.Containers = "n", []corev1.Container{{Name: "c", Image: "i"}}
	p.Status.Phase = corev1.PodPending
	return p
}

// terminate deletes the pod as kubectl does: the kubelet, which is kwok, has to end it.
func terminate(name string) simulate.Step {
	return simulate.Step{Name: "terminate Pod default/" + name, Do: func(s *reflectortest.Server) error {
		c, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			return err
		}
		return c.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{})
	}}
}

// oneAddress refuses two addresses of one family, as the API server does.
func oneAddress(_ context.Context, a *reflectortest.Admission[*corev1.Pod]) error {
	if a.Object != nil && len(a.Object.Status.PodIPs) > 1 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), a.Name, field.ErrorList{
			field.Invalid(field.NewPath("status", "podIPs"), a.Object.Status.PodIPs, "may specify no more than one IP for each IP family"),
		})
	}
	return nil
}

// ownAddresses is an invariant: no two pods that run have one address.
func ownAddresses(s *reflectortest.Server) error {
	pods, err := reflectortest.List[*corev1.Pod](s, "")
	of := map[string]string{}
	for _, p := range pods {
		if ip := p.Status.PodIP; ip != "" && p.Status.Phase == corev1.PodRunning && of[ip] != "" {
			return fmt.Errorf("pods %s and %s have one address", of[ip], p.Name)
		}
		of[p.Status.PodIP] = p.Name
	}
	return err
}

func scenario(t *testing.T, steps ...simulate.Step) simulate.Scenario {
	return simulate.Scenario{
		Server:    []reflectortest.Option{reflectortest.WithAdmission(oneAddress, "status")},
		Operator:  operator(stages(t, nodefast.DefaultNodeInit, podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete)),
		Steps:     append([]simulate.Step{simulate.Create(newNode())}, steps...),
		Invariant: ownAddresses,
		Normalize: func(o map[string]any) { // which address a pod has is the operator's choice
			if status, ok := o["status"].(map[string]any); ok {
				delete(status, "podIP")
				delete(status, "podIPs")
			}
		},
	}
}

// TestKwok has all findings of each scenario, as the line and a part of the failure.
func TestKwok(t *testing.T) {
	a, b := simulate.Create(newPod("a")), simulate.Create(newPod("b"))
	for _, s := range []struct {
		name, line, failure string
		simulate.Scenario
	}{
		{"addresses", "stop after patch pods/status default/a#1", "pods a and b have one address", scenario(t, a, b, terminate("a"))},
		{"again", "step after delete pods default/a#1", "Pod default/a is missing", scenario(t, a, terminate("a"), a)},
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
