package reconcilebench

import (
	"fmt"
	"path/filepath"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// prepareCluster starts the server of operators, with all applications and their Deployments.
func (w *world) prepareCluster() (err error) {
	if w.cluster != nil {
		return nil
	}
	kind := wirebench.Applications.GroupVersion().WithKind("Application")
	w.cluster, err = reflectortest.NewServer(reflectortest.OnPort(), reflectortest.WithResource(reflectortest.Resource{
		Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Plural: wirebench.Applications.Resource, Namespaced: true, Prototype: &wirebench.Application{},
	}))
	if err != nil {
		return err
	}
	for i := range w.owners {
		application := wirebench.NewApplication(i)
		if err := w.cluster.Create(application); err != nil {
			return err
		}
		deployment := &appsv1.Deployment{}
		deployment.Namespace, deployment.Name, deployment.UID = application.Namespace, application.Name, types.UID(fmt.Sprint("deployment-", i))
		deployment.ManagedFields = application.ManagedFields
		shape(deployment, application)
		if err := write.Own(application, kind, deployment); err != nil {
			return err
		}
		if err := w.cluster.Create(deployment); err != nil {
			return err
		}
	}
	return nil
}

// restart measures a restart of an operator.
func (w *world) restart(contender string) (restarted, error) {
	a := restart{Contender: contender, Host: w.cluster.URL(), Objects: w.owners}
	if w.profiles != "" {
		a.Profiles = measure.Profiles(filepath.Join(w.profiles, "operator."+contender))
	}
	w.cluster.ForgetRequests()
	return restarter.Measure(w.ctx, a)
}

// operatorCases returns the cases of an operator of applications and their Deployments.
func (w *world) operatorCases() (all []measure.Case) {
	for _, c := range []struct {
		name, unit, omits string
		goal              measure.Goal
		of                func(restarted) float64
	}{
		{"restart-cpu", "ms", "the CPU time of the server, TLS and leader election", measure.RatioAtMost(0.4), func(s restarted) float64 { return s.CPU }},
		{"peak-rss", "MB", "memory that later events need", measure.RatioAtMost(0.7), func(s restarted) float64 { return s.RSS / megabyte }},
		{"live-heap", "MB", "garbage and stacks", measure.Goal{}, func(s restarted) float64 { return s.Heap / megabyte }},
		{"writes", "requests", "failures of the server", measure.AtMost(0), func(s restarted) float64 { return s.Writes }},
	} {
		all = append(all, measure.Case{
			Name: fmt.Sprintf("operator-of-%d/%s", w.owners, c.name), Unit: c.unit, Omits: c.omits, Goal: c.goal, Rounds: w.rounds,
			Sides: func() (ours, peer measure.Round, err error) {
				if err := w.prepareCluster(); err != nil {
					return nil, nil, err
				}
				return w.restarts.Side("ours", w.restart, c.of), w.restarts.Side("peer", w.restart, c.of), nil
			},
		})
	}
	return all
}
