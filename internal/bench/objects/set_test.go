package objects_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPodsHaveDistinctKeysInOrder(t *testing.T) {
	set := objects.NewSet(objects.Size{Pods: 1000, Namespaces: 7, Nodes: 5})
	require.Len(t, set.Pods, 1000)
	assert.True(t, slices.IsSortedFunc(set.Pods, func(a, b *corev1.Pod) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	}))
	keys, uids := map[string]bool{}, map[string]bool{}
	namespaces, nodes := map[string]bool{}, map[string]bool{}
	for _, pod := range set.Pods {
		keys[pod.Namespace+"/"+pod.Name] = true
		uids[string(pod.UID)] = true
		namespaces[pod.Namespace] = true
		nodes[pod.Spec.NodeName] = true
		assert.Contains(t, set.Nodes, pod.Spec.NodeName)
		assert.True(t, strings.HasPrefix(pod.Name, pod.GenerateName), pod.Name)
	}
	assert.Len(t, keys, 1000)
	assert.Len(t, uids, 1000)
	assert.Len(t, namespaces, 7)
	assert.Len(t, nodes, 5)
}

func TestPodsShareNoStrings(t *testing.T) {
	set := objects.NewSet(objects.Size{Pods: 200, Namespaces: 1, Nodes: 1})
	seen := map[*byte]bool{}
	for _, node := range set.Nodes {
		seen[unsafe.StringData(node)] = true
	}
	for _, pod := range set.Pods {
		for _, s := range looked(pod) {
			require.False(t, seen[unsafe.StringData(s)], "%q is shared", s)
			seen[unsafe.StringData(s)] = true
		}
	}
}

func TestChangedPodIsAnotherObjectOfTheSameUID(t *testing.T) {
	set := objects.NewSet(objects.Size{Pods: 3, Namespaces: 1, Nodes: 1})
	old := set.Pods[1]
	version := number(t, set.Version())
	require.Equal(t, set.Version(), set.Pods[2].ResourceVersion, "the last pod has the highest version")

	changed := set.Changed(old)
	assert.Equal(t, version+1, number(t, changed.ResourceVersion))
	assert.Equal(t, set.Version(), changed.ResourceVersion)
	assert.NotEqual(t, old.ResourceVersion, changed.ResourceVersion)
	for i, s := range looked(changed) {
		if i > 0 {
			assert.Equal(t, looked(old)[i], s)
		}
		assert.NotSame(t, unsafe.StringData(looked(old)[i]), unsafe.StringData(s), s)
	}
}

// looked returns the strings of a pod that a cache looks at, the resource version first.
func looked(pod *corev1.Pod) []string {
	return []string{pod.ResourceVersion, pod.Namespace, pod.Name, string(pod.UID), pod.Spec.NodeName}
}

func number(t *testing.T, version string) int {
	t.Helper()
	n, err := strconv.Atoi(version)
	require.NoError(t, err)
	return n
}
