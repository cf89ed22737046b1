package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEverySimulatedDisturbanceEndsAsUndisturbed(t *testing.T) {
	shop := newApp("shop", 2)
	simulate.Explore(t, simulate.Scenario{
		Server:   []reflectortest.Option{custom},
		Operator: run,
		Players:  []simulate.Player{simulate.Deployments},
		Steps: []simulate.Step{
			simulate.Create(shop),
			simulate.Change(shop, func(a *App) { a.Spec.Replicas = 3 }),
			simulate.Delete(shop),
			simulate.Create(shop),
			simulate.Delete(shop, metav1.DeletePropagationForeground),
		},
		OldServers: true, // with restarts behind a write as well
		Most:       100,
	})
}
