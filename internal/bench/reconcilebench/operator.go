package reconcilebench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
)

// operators are programs that keep a Deployment for each application until their context ends. They
// call done with the name of each application that they have reconciled.
var operators = map[string]func(config *rest.Config, done func(name string)) (run func(context.Context) error, err error){"ours": newOurOperator, "peer": newPeerOperator}

var restartInProcess = measure.InProcess("operator", measureRestart)

// measureRestart starts an operator and waits until it has nothing left to do. The server has all
// Deployments, so a restart reads all objects, compares them, and writes nothing.
func measureRestart(a assignment) (f measure.Figures, err error) {
	build, ok := operators[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no operator %q", a.Contender)
	}
	var writes atomic.Int64
	config := &rest.Config{Host: a.Host, QPS: -1}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet {
				writes.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	all := measure.NewCounter(1)
	all.Expect(a.Objects)
	seen := make(map[string]*atomic.Bool, a.Objects)
	for i := range a.Objects {
		seen[objects.NewApplication(i).Name] = new(atomic.Bool)
	}
	var running *measure.Running
	f = measure.Figures{}
	err = f.Phase(a.Profiles, "restart", 1, func() error {
		run, err := build(config, func(name string) {
			if !seen[name].Swap(true) {
				all.Handled(0)
			}
		})
		if err != nil {
			return err
		}
		running = measure.Start(run)
		if _, err := measure.Wait(running, all.Reached); err != nil {
			return err
		}
		measure.Settle() // keys that are reconciled again
		return nil
	})
	if running != nil {
		defer func() { err = errors.Join(err, running.Close()) }()
	}
	if err != nil {
		return nil, err
	}
	f["restart-cpu"], f["peak-rss"] = f["restart/cpu"]/1000, measure.PeakRSS()/megabyte
	f["live-heap"], f["writes"] = float64(measure.LiveHeap())/megabyte, float64(writes.Load())
	return f, a.Profiles.Heap("restart")
}

// shape makes the Deployment of an application as the application says.
func shape(d *appsv1.Deployment, a *objects.Application) {
	labels := map[string]string{"example.com/application": a.Name}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	maps.Copy(d.Labels, labels)
	d.Spec.Replicas = &a.Spec.Replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	containers := make([]corev1.Container, 0, len(a.Spec.Components))
	for _, c := range a.Spec.Components {
		probe := &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(c.Port), Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		}
		containers = append(containers, corev1.Container{
			Name: c.Name, Image: c.Image, Env: slices.Clone(c.Env), Resources: *a.Spec.Resources.DeepCopy(), LivenessProbe: probe, ReadinessProbe: probe,
			Ports:                  []corev1.ContainerPort{{Name: "http", ContainerPort: c.Port, Protocol: corev1.ProtocolTCP}},
			TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		})
	}
	d.Spec.Template.Spec.Containers = containers
}

// newCluster starts the server of operators, with applications and their Deployments.
func newCluster(applications int) (*reflectortest.Server, error) {
	kind := objects.ApplicationKind
	cluster, err := reflectortest.NewServer(reflectortest.OnPort(), reflectortest.WithResource(reflectortest.Resource{
		Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Plural: objects.ApplicationResource.Resource, Namespaced: true, Prototype: &objects.Application{},
	}))
	if err != nil {
		return nil, err
	}
	for i := range applications {
		application := objects.NewApplication(i)
		deployment := &appsv1.Deployment{}
		deployment.Namespace, deployment.Name, deployment.UID = application.Namespace, application.Name, types.UID(fmt.Sprint("deployment-", i))
		deployment.ManagedFields = application.ManagedFields
		shape(deployment, application)
		if err := errors.Join(cluster.Create(application), write.Own(application, kind, deployment), cluster.Create(deployment)); err != nil {
			cluster.Close()
			return nil, err
		}
	}
	return cluster, nil
}
