package main

import (
	"context"
	"errors"
	"testing"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestEverySimulatedDisturbanceEndsAsUndisturbed(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop-env"}}
	shop := &Site{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec:       SiteSpec{Host: "shop.example.com", Page: "hello", Secret: secret.Name, Replicas: 2},
	}
	simulate.Explore(t, simulate.Scenario{
		Server: []reflectortest.Option{custom},
		Outside: func(run *simulate.Scenario) func() []string {
			api := newZone() // of this run alone
			run.Operator = func(ctx context.Context, config *rest.Config) error {
				return operate(ctx, config, inMemory(api), "default", "", zap.NewNop())
			}
			return api.all
		},
		Players:    []simulate.Player{simulate.Deployments},
		OldServers: true, // with restarts behind a write as well
		Most:       20,   // of about 600
		Steps: []simulate.Step{
			{Name: "create a Site and its Secret", Do: func(s *reflectortest.Server) error {
				return errors.Join(s.Create(secret.DeepCopy()), s.Create(shop.DeepCopy()))
			}},
			simulate.Change(shop, func(s *Site) { s.Spec.Host = "www.example.com" }),
			simulate.Delete(shop),
		},
	})
}
