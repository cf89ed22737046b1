package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is something that happens, and what there is to see then.
type step struct {
	Title, Text string
	happens     func(*reflectortest.Server) error
}

// script is the life of a few pods.
var script = []step{
	{"Three pods exist", "The reflector asks for a watch that begins with all objects. The cache holds three pods, and each subscriber has an initial addition for each. Slow takes two seconds for every event.",
		func(s *reflectortest.Server) error { return each(s.Create, "web", "db", "cache") }},
	{"A pod is created", "The watch brings an Addition. Whoever is idle hears of it at once; at slow it waits in a queue of its own, for each object has one.",
		func(s *reflectortest.Server) error { return each(s.Create, "queue") }},
	{"One pod changes forty times", "See slow: one key more, and one event. What waits for an object is merged into its latest state, so that the number of objects bounds the memory, not the number of changes. The column Merged counts them.",
		func(s *reflectortest.Server) error {
			for n := range 40 {
				if err := s.Update(pod("web", corev1.PodRunning, n)); err != nil {
					return err
				}
			}
			return nil
		}},
	{"A handler fails", "The pod db has failed, and so does a handler. Its key waits in back-off, longer each time, and holds up no other key.",
		func(s *reflectortest.Server) error { return s.Update(pod("db", corev1.PodFailed, 0)) }},
	{"News ends a back-off", "The pod runs again. The handler gets the news at once, and no word of the failed state, which nobody can act on any more.",
		func(s *reflectortest.Server) error { return s.Update(pod("db", corev1.PodRunning, 0)) }},
	{"The watch breaks", "The API server hangs up and is not to be reached. The reflector waits, longer each time; caches and handlers go on with what they have. Meanwhile, a pod is deleted and created anew.",
		func(s *reflectortest.Server) error {
			s.Inject(reflectortest.Refuse())
			if err := s.Restore(s.ResourceVersion()); err != nil { // cuts all watches
				return err
			}
			return errors.Join(s.Delete(pod("cache", "", 0)), s.Create(pod("cache", corev1.PodPending, 0)))
		}},
	{"The watch resumes", "Nothing was lost: it goes on where it was. The pod that was created anew is a Deletion and an Addition, with two UIDs, and never a Modification.",
		func(s *reflectortest.Server) error {
			s.ClearFaults()
			return nil
		}},
	{"History is lost", "The watch breaks again, and the API server has forgotten what happened since: 410 Gone. The reflector lists anew. It finds a pod missing, which is a Deletion whose last state nobody saw; of objects that did not change, nobody hears.",
		func(s *reflectortest.Server) error {
			refused := s.Inject(reflectortest.Refuse()) // until there is something to miss
			defer refused.Remove()
			s.Inject(reflectortest.LoseHistory().On("watch", "pods").Times(1)) // of the first watch that is not refused
			if err := s.Restore(s.ResourceVersion()); err != nil {
				return err
			}
			return errors.Join(s.Delete(pod("queue", "", 0)), s.Update(pod("web", corev1.PodSucceeded, 0)))
		}},
	{"Everything ends", "All pods are deleted. When the last event is handled, the queues are empty and their memory is given back. The next step begins the tour again.",
		func(s *reflectortest.Server) error { return each(s.Delete, "web", "db", "cache") }},
}

func pod(name string, phase corev1.PodPhase, restarts int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: name, RestartCount: int32(restarts)}}},
	}
}

func each(do func(metav1.Object) error, names ...string) error {
	for _, name := range names {
		if err := do(pod(name, corev1.PodPending, 0)); err != nil {
			return err
		}
	}
	return nil
}

// failsOnFailed is a handler that cannot cope with pods that failed.
func failsOnFailed(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
	if e.Object.Status.Phase == corev1.PodFailed {
		return fmt.Errorf("pod %s has failed, and so do I", e.Key.Name)
	}
	return nil
}
