package main

import (
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is a part of the script.
type step struct {
	Title, Text string
	// happens changes the objects of the API server. It is called times times, with 0, 1 and so on,
	// every tenth of a second.
	happens func(s *reflectortest.Server, n int) error
	times   int
	// done reports whether the informer has noticed the step. The next step may begin then.
	done func(*world) bool
}

// between is the time between two calls of the same step.
const between = 100 * time.Millisecond

// script is the life of a few pods.
var script = []step{
	{"Three pods exist", "The reflector requests a watch that begins with all objects. The cache then holds three pods, and each handler gets an initial addition of each pod. Quick handles them at once. Slow needs two seconds for each event.",
		func(s *reflectortest.Server, _ int) error { return each(s.Create, "web", "db", "cache") }, 1,
		func(w *world) bool { return w.pods.Cache().Len() == 3 }},
	{"A pod is created", "The watch sends the new pod. Quick handles it at once. At slow it waits in its own queue, because each object has a queue.",
		func(s *reflectortest.Server, _ int) error { return each(s.Create, "queue") }, 1,
		func(w *world) bool { return w.pod("queue") != nil }},
	{"One pod changes forty times", "The pod web changes every tenth of a second. Quick handles each change. Slow handles an event in two seconds, and its queue merges the changes of that time into the latest state. So the number of objects bounds the memory of the queues, not the number of changes. Compare the printed lines, and the column Merged.",
		func(s *reflectortest.Server, n int) error { return s.Update(pod("web", corev1.PodRunning, n)) }, 40,
		func(w *world) bool {
			web := w.pod("web")
			return web != nil && len(web.Status.ContainerStatuses) == 1 && web.Status.ContainerStatuses[0].RestartCount == 39
		}},
	{"A handler fails", "The pod db fails, and the third handler returns an error. The key waits in back-off, longer after each attempt. Other keys do not wait.",
		func(s *reflectortest.Server, _ int) error { return s.Update(pod("db", corev1.PodFailed, 0)) }, 1,
		func(w *world) bool { return w.is("db", corev1.PodFailed) }},
	{"A newer state ends the back-off", "The pod runs again. The handler gets the new state at once, and the failed state never again.",
		func(s *reflectortest.Server, _ int) error { return s.Update(pod("db", corev1.PodRunning, 0)) }, 1,
		func(w *world) bool { return w.is("db", corev1.PodRunning) }},
	{"The watch breaks", "The API server closes the watch and refuses connections. The reflector retries with back-off. The cache keeps its objects, and the badge shows how long it has been stale. Meanwhile the pod cache is deleted and created again.",
		func(s *reflectortest.Server, _ int) error {
			s.Inject(reflectortest.Refuse())
			if err := s.Restore(s.ResourceVersion()); err != nil { // ends all watches
				return err
			}
			return errors.Join(s.Delete(pod("cache", "", 0)), s.Create(pod("cache", corev1.PodRunning, 0)))
		}, 1,
		func(w *world) bool { return w.pods.State().Phase == reflector.BackingOff }},
	{"The watch resumes", "The API server answers again. The reflector resumes at its last resource version and misses no change. The pod cache is a Deletion and an Addition with two UIDs, never a Modification.",
		func(s *reflectortest.Server, _ int) error {
			s.ClearFaults()
			return nil
		}, 1,
		func(w *world) bool { return w.is("cache", corev1.PodRunning) }},
	{"The server forgets its history", "The watch breaks again. The API server rejects the last resource version with 410 Gone, so the reflector lists all pods. One pod is missing: a Deletion without a known final state. Unchanged pods cause no events.",
		func(s *reflectortest.Server, _ int) error {
			refused := s.Inject(reflectortest.Refuse()) // until the reflector has missed changes
			defer refused.Remove()
			s.Inject(reflectortest.LoseHistory().On("watch", "pods").Times(1)) // for the first watch that is not refused
			if err := s.Restore(s.ResourceVersion()); err != nil {
				return err
			}
			return errors.Join(s.Delete(pod("queue", "", 0)), s.Update(pod("web", corev1.PodSucceeded, 0)))
		}, 1,
		func(w *world) bool { return w.pod("queue") == nil }},
	{"All pods are deleted", "After the last event, all queues are empty and their memory is free. Restart begins the tour again.",
		func(s *reflectortest.Server, _ int) error { return each(s.Delete, "web", "db", "cache") }, 1,
		func(w *world) bool { return w.pods.Cache().Len() == 0 }},
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
