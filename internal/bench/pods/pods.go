package pods

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Size says how many pods there are, in how many namespaces and on how many nodes. All are at least 1.
type Size struct{ Pods, Namespaces, Nodes int }

// replicas is how many pods a Deployment has.
const replicas = 20

// firstVersion is the resource version of the first pod: as long as those of a cluster that has been used for a while.
const firstVersion = 48_000_000

// Set is the pods of a cluster and what is needed to change them. It is not safe for concurrent use.
type Set struct {
	// Pods are in the order of their keys.
	Pods []*corev1.Pod
	// Nodes are the names of the nodes. They share no memory with the pods.
	Nodes []string

	version int
}

// New makes the pods of a size.
func New(size Size) *Set {
	random := rand.New(rand.NewPCG(1, 2))
	set := &Set{version: firstVersion}
	for i := range size.Nodes {
		set.Nodes = append(set.Nodes, node(i))
	}
	owners := make([]owner, size.Pods)
	for i := range owners {
		if i%replicas == 0 {
			owners[i] = newOwner(random, fmt.Sprintf("team-%03d", i/replicas%size.Namespaces))
		} else {
			owners[i] = owners[i-1]
		}
		owners[i].pod = owners[i].replicaSet + "-" + word(random, 5)
	}
	// Pods are made in the order of their keys, so that they lie in memory as a list that is decoded from its beginning to its end leaves them.
	slices.SortFunc(owners, func(a, b owner) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.pod, b.pod))
	})
	for _, o := range owners {
		set.Pods = append(set.Pods, o.decode(random, set.next(), set.Nodes[random.IntN(size.Nodes)]))
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

// owner is what the pods of one ReplicaSet have in common, and the name of one of them.
type owner struct {
	namespace, app, hash, replicaSet, pod string
	uid                                   types.UID
}

func newOwner(random *rand.Rand, namespace string) owner {
	o := owner{
		namespace: namespace,
		app:       fmt.Sprintf("%s-%s", apps[random.IntN(len(apps))], word(random, 4)),
		hash:      word(random, 10),
		uid:       uid(random),
	}
	o.replicaSet = o.app + "-" + o.hash
	return o
}

var apps = []string{"api", "billing", "checkout", "frontend", "ingest", "mailer", "payments", "search", "session-store", "worker"}

// decode makes the pod. All its strings are clones, because a decoder makes new ones for each pod.
func (o owner) decode(random *rand.Rand, version, node string) *corev1.Pod {
	c := strings.Clone
	address := fmt.Sprintf("10.%d.%d.%d", random.IntN(256), random.IntN(256), random.IntN(256))
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              c(o.pod),
			GenerateName:      o.replicaSet + "-",
			Namespace:         c(o.namespace),
			UID:               uid(random),
			ResourceVersion:   version,
			CreationTimestamp: metav1.Unix(1_750_000_000+random.Int64N(10_000_000), 0),
			Labels: map[string]string{
				c("app.kubernetes.io/name"): c(o.app),
				c("pod-template-hash"):      c(o.hash),
				c("team"):                   c(o.namespace),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: c("apps/v1"), Kind: c("ReplicaSet"), Name: c(o.replicaSet),
				UID: types.UID(c(string(o.uid))), Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:           c(node),
			ServiceAccountName: c(o.app),
			Containers: []corev1.Container{{
				Name: c("main"), Image: "registry.example.com/" + o.namespace + "/" + o.app + ":" + o.hash,
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, HostIP: c("10.0.0.17")},
	}
}

// word returns letters and digits such as Kubernetes puts at the end of generated names.
func word(random *rand.Rand, length int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, length)
	for i := range b {
		b[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(b)
}

func uid(random *rand.Rand) types.UID {
	a, b := random.Uint64(), random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff))
}

func node(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-17.eu-west-1.compute.internal", i/250, i%250)
}
