package storebench

import corev1 "k8s.io/api/core/v1"

// name is what a caller knows of the pod that it wants.
type name struct{ namespace, name string }

// subject is a cache that is measured. A call does the work of many, so that calling it through an interface costs nothing that counts. Those that read
// return how many pods they saw, which the caller checks: a cache that finds nothing is fast.
type subject interface {
	// read looks up pods one by one.
	read(names []name) int
	len() int
	// walk reads all pods.
	walk() int
	// walkKeys reads all pods with their keys.
	walkKeys() int
	// walkNodes reads the pods of one node after the other.
	walkNodes(nodes []string) int
	// walkSlowly reads all pods and calls rest before each of them.
	walkSlowly(rest func()) int

	// update stores pods one by one.
	update(pods []*corev1.Pod) error
	// updateAndLook does so too, and a reader that wants one state for many reads comes after each of them.
	updateAndLook(pods []*corev1.Pod) error
	// updateAtOnce stores pods in one commit.
	updateAtOnce(pods []*corev1.Pod) error

	// holds reports whether an update arrived.
	holds(pod *corev1.Pod) bool

	// replace makes pods the content.
	replace(pods []*corev1.Pod, resourceVersion string) error
}
