package objects

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Size says how many pods there are, in how many namespaces and on how many nodes. All are at least 1.
type Size struct{ Pods, Namespaces, Nodes int }

// FirstVersion is the resource version of the first pod. It has as many digits as in a cluster that
// has run for a while.
const FirstVersion = 48_000_000

// Set is pods and the names of their nodes. It is not safe for concurrent use.
type Set struct {
	// Pods are in the order of their keys.
	Pods []*corev1.Pod
	// Nodes are the names of the nodes. They share no memory with the pods.
	Nodes []string

	version int
}

// NewSet makes pods of the mix [Field] with the fields that caches and their users look at. They lie in
// memory as a decoded list does: in the order of their keys, and no two strings share memory.
func NewSet(size Size) *Set {
	set := &Set{version: FirstVersion + size.Pods - 1}
	for i := range size.Nodes {
		set.Nodes = append(set.Nodes, node(i))
	}
	encoded := make([][]byte, size.Pods)
	for i, pod := range pods(size, Field, (*maker).pod) {
		var err error
		if encoded[i], err = pod.Marshal(); err != nil {
			panic(err) // only a bug of this package
		}
	}
	runtime.GC() // else the next pods lie in the holes between those above
	set.Pods = make([]*corev1.Pod, size.Pods)
	for i := range encoded {
		set.Pods[i] = new(corev1.Pod)
		if err := set.Pods[i].Unmarshal(encoded[i]); err != nil {
			panic(err)
		}
	}
	return set
}

// Changed returns a pod as a watch would report it after a change of its status: another object with a resource version that is higher than all
// before. It shares with the old one only what no cache looks at.
func (s *Set) Changed(old *corev1.Pod) *corev1.Pod {
	pod := *old
	pod.ResourceVersion = s.next()
	pod.Namespace = strings.Clone(old.Namespace)
	pod.Name = strings.Clone(old.Name)
	pod.UID = types.UID(strings.Clone(string(old.UID)))
	pod.Spec.NodeName = strings.Clone(old.Spec.NodeName)
	return &pod
}

// Version returns the highest resource version that was given out.
func (s *Set) Version() string { return strconv.Itoa(s.version) }

func (s *Set) next() string {
	s.version++
	return strconv.Itoa(s.version)
}

var apps = []string{"api", "billing", "checkout", "frontend", "ingest", "mailer", "payments", "search", "session-store", "worker"}

// word returns letters and digits such as Kubernetes puts at the end of generated names.
func (m *maker) word(length int) string { return m.text(length, "bcdfghjklmnpqrstvwxz2456789") }

func (m *maker) hex(length int) string { return m.text(length, "0123456789abcdef") }

func (m *maker) text(length int, alphabet string) string {
	b := make([]byte, length)
	for i := range b {
		b[i] = alphabet[m.random.IntN(len(alphabet))]
	}
	return string(b)
}

func (m *maker) uid() types.UID {
	a, b := m.random.Uint64(), m.random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff))
}

func node(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-17.eu-west-1.compute.internal", i/250, i%250)
}
