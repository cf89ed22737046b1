package reconcilebench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
)

// operators are programs that keep a Deployment for each application. Their servers have the
// Deployments already, so a restart reads all objects, compares them, and writes nothing.
var operators = map[string]func(config *rest.Config, done func(name string)) (operator, error){"ours": newOurOperator, "peer": newPeerOperator}

// operator runs until ctx ends. It calls done with the name of each application that it has
// reconciled.
type operator interface {
	run(ctx context.Context) error
}

// restart is what the process of an operator measures.
type restart struct {
	Contender string           `json:"contender"`
	Host      string           `json:"host"`
	Objects   int              `json:"objects"` // applications
	Profiles  measure.Profiles `json:"profiles"`
}

// restarted is the result of a restart.
type restarted struct {
	CPU    float64 `json:"cpu"`    // until all applications are reconciled and the process is idle, in milliseconds
	RSS    float64 `json:"rss"`    // the peak of the process, in bytes
	Heap   float64 `json:"heap"`   // the live heap at the end, in bytes
	Writes float64 `json:"writes"` // requests that write
}

// measureRestart starts an operator and waits until it has nothing left to do.
func measureRestart(a restart) (s restarted, err error) {
	build, ok := operators[a.Contender]
	if !ok {
		return s, fmt.Errorf("there is no operator %q", a.Contender)
	}
	var writes, left atomic.Int64
	left.Store(int64(a.Objects))
	config := &rest.Config{Host: a.Host, QPS: -1}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &writes} })
	reached := make(chan struct{})
	seen := make(map[string]*atomic.Bool, a.Objects)
	for i := range a.Objects {
		seen[wirebench.NewApplication(i).Name] = new(atomic.Bool)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	usage, err := a.Profiles.Phase("restart", 1, func() error {
		o, err := build(config, func(name string) {
			if !seen[name].Swap(true) && left.Add(-1) == 0 {
				close(reached)
			}
		})
		if err != nil {
			ended <- nil
			return err
		}
		go func() { ended <- o.run(ctx) }()
		select {
		case <-reached:
			measure.Settle() // keys that are reconciled again
			return nil
		case err := <-ended:
			ended <- nil
			return fmt.Errorf("operator ended, %d applications are missing: %w", left.Load(), err)
		}
	})
	if err != nil {
		return s, err
	}
	s = restarted{CPU: usage.CPU / 1000, RSS: measure.PeakRSS(), Heap: float64(measure.LiveHeap()), Writes: float64(writes.Load())}
	return s, a.Profiles.Heap("restart")
}

// counting counts the requests that write.
type counting struct {
	http.RoundTripper
	writes *atomic.Int64
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		c.writes.Add(1)
	}
	return c.RoundTripper.RoundTrip(request)
}

// shape makes the Deployment of an application as the application says.
func shape(d *appsv1.Deployment, a *wirebench.Application) {
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
