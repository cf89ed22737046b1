package main

import (
	"context"
	"io"
	"testing"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestEverySimulatedDisturbanceEndsAsUndisturbed(t *testing.T) {
	web := newFoo("web", "web", 2)
	simulate.Explore(t, simulate.Scenario{
		Server: []reflectortest.Option{custom},
		Operator: func(ctx context.Context, config *rest.Config) error {
			clientset, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			return control(ctx, io.Discard, cluster.Cluster{Interface: clientset, Config: config})
		},
		Players:    []simulate.Player{simulate.Deployments},
		OldServers: true, // with restarts behind a write as well
		Most:       100,
		Steps: []simulate.Step{
			simulate.Create(web),
			simulate.Change(web, func(f *Foo) { f.Spec.DeploymentName = "site" }),
			simulate.Delete(web, metav1.DeletePropagationForeground), // the Foo stays while its Deployment goes
		},
	})
}
