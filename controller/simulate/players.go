package simulate

import (
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
)

// Deployments plays the controller of Deployments, without pods: all replicas are ready at once. It
// writes status.observedGeneration, replicas, updatedReplicas, readyReplicas and availableReplicas.
func Deployments(s *reflectortest.Server) (time.Duration, error) {
	all, err := reflectortest.List[*appsv1.Deployment](s, "")
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		n := int32(1)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		want := d.Status
		want.ObservedGeneration, want.Replicas, want.UpdatedReplicas, want.ReadyReplicas, want.AvailableReplicas = d.Generation, n, n, n, n
		if d.DeletionTimestamp != nil || reflect.DeepEqual(want, d.Status) {
			continue
		}
		d.Status = want
		if err := s.Update(d); err != nil {
			return 0, err
		}
	}
	return 0, nil
}
