package objects_test

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
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

var mixes = []objects.Mix{objects.Templated, objects.Field, objects.Unlike}

func TestPodsAreAsLargeAsPromised(t *testing.T) {
	for _, mix := range mixes {
		var inJSON, inProtobuf int
		const n = 200
		for _, pod := range objects.Pods(n, mix) {
			text, err := json.Marshal(pod)
			require.NoError(t, err)
			inJSON += len(text)
			inProtobuf += pod.Size()
		}
		assert.InDelta(t, 8500, inJSON/n, 300, "JSON, mix %v", mix)
		assert.InDelta(t, 5800, inProtobuf/n, 300, "protobuf, mix %v", mix)
	}
}

func TestUnlikePodsHaveNothingInCommon(t *testing.T) {
	parts := func(pod *corev1.Pod) map[string]any {
		c := pod.Spec.Containers[0]
		return map[string]any{
			"labels": pod.Labels, "annotations": pod.Annotations, "owners": pod.OwnerReferences, "env": c.Env, "resources": c.Resources, "ports": c.Ports,
			"probe": c.ReadinessProbe, "tolerations": pod.Spec.Tolerations, "security": pod.Spec.SecurityContext, "args": c.Args,
			"fields": pod.ManagedFields[0].FieldsV1,
		}
	}
	for _, mix := range []objects.Mix{objects.Templated, objects.Unlike} {
		all := objects.Pods(200, mix)
		for name := range parts(all[0]) {
			different := map[string]bool{}
			for _, pod := range all {
				text, err := json.Marshal(parts(pod)[name])
				require.NoError(t, err)
				different[string(text)] = true
			}
			if mix == objects.Unlike {
				assert.Greater(t, len(different), 190, name)
			} else {
				assert.LessOrEqual(t, len(different), 10, fmt.Sprint(name, ": one a template"))
			}
		}
	}
}

const many = 5_000

func TestFieldPodsHaveTheDocumentedWorkloads(t *testing.T) {
	owners, cronJobs := map[string]int{}, map[string]int{}
	fields := map[string]bool{}
	var managed, ofJobs int
	for _, pod := range objects.Pods(many, objects.Field) {
		owner := pod.OwnerReferences[0]
		for _, entry := range pod.ManagedFields {
			fields[entry.FieldsV1.GetRawString()] = true
			managed += len(entry.FieldsV1.GetRawString())
		}
		if owner.Kind == "Job" {
			ofJobs++
			cronJobs[pod.Labels["app.kubernetes.io/name"]]++
			assert.Equal(t, corev1.PodSucceeded, pod.Status.Phase)
			assert.Equal(t, owner.Name, pod.Labels["job-name"])
		}
		owners[owner.Kind+string(owner.UID)]++
	}
	var deployments, few, large, most int
	for owner, pods := range owners {
		if strings.HasPrefix(owner, "Job") {
			assert.Equal(t, 1, pods, "a Job has one pod")
			continue
		}
		deployments++
		most = max(most, pods)
		if pods <= 3 {
			few++
		}
		if pods > 100 {
			large++
		}
	}
	assert.InDelta(t, 0.90, float64(few)/float64(deployments), 0.02, "Deployments of 1 to 3 replicas")
	assert.InDelta(t, 0.002, float64(large)/float64(deployments), 0.002, "Deployments of hundreds of replicas")
	assert.Greater(t, most, 200)
	assert.InDelta(t, 0.2, float64(len(cronJobs))/float64(len(cronJobs)+deployments), 0.02, "CronJobs of all workloads")
	assert.InDelta(t, 3, float64(ofJobs)/float64(len(cronJobs)), 0.01, "Jobs of a CronJob")
	assert.Greater(t, managed/many, 2_000)
	assert.Less(t, managed/many, 4_000)
	kubelets := 0
	for text := range fields {
		if strings.Contains(text, "f:podIPs") {
			kubelets++
		}
		if kubelets%100 == 0 {
			assert.True(t, json.Valid([]byte(text)), text)
		}
	}
	assert.Equal(t, many, kubelets, "each pod has an entry with its address")
}

func TestFieldSecretsHaveTheDocumentedShares(t *testing.T) {
	var releases, registries, bytesOfReleases int
	data, keys := map[string]bool{}, map[string]bool{}
	var compressed bytes.Buffer
	w, err := flate.NewWriter(&compressed, flate.BestSpeed)
	require.NoError(t, err)
	for _, s := range objects.Secrets(many / 10) {
		keys[s.Namespace+"/"+s.Name] = true
		switch s.Type {
		case "helm.sh/release.v1":
			releases++
			bytesOfReleases += len(s.Data["release"])
			data[string(s.Data["release"])] = true
			_, err := io.Copy(w, bytes.NewReader(s.Data["release"]))
			require.NoError(t, err)
		case corev1.SecretTypeDockerConfigJson:
			registries++
			data["registry"+string(s.Data[corev1.DockerConfigJsonKey])] = true
		}
	}
	require.NoError(t, w.Close())
	assert.Len(t, keys, many/10)
	assert.Equal(t, many/50, releases)
	assert.Equal(t, many/50, registries)
	assert.Len(t, data, releases+1, "registry credentials are the same, and no two releases are")
	assert.InDelta(t, 20_000, bytesOfReleases/releases, 2_000)
	assert.Greater(t, float64(compressed.Len())/float64(bytesOfReleases), 0.74, "base64 of compressed data")
}

func TestFieldConfigMapsAreMostlyUnique(t *testing.T) {
	data, keys := map[string]int{}, map[string]bool{}
	for _, c := range objects.ConfigMaps(many) {
		keys[c.Namespace+"/"+c.Name] = true
		data[c.Data["ca.crt"]+c.Data["config.yaml"]]++
	}
	assert.Len(t, keys, many)
	assert.Len(t, data, many*95/100+1)
}

func TestTheSameArgumentsGiveTheSameObjects(t *testing.T) {
	size := objects.Size{Pods: 50, Namespaces: 3, Nodes: 2}
	assert.Equal(t, objects.NewSet(size).Pods, objects.NewSet(size).Pods)
	for _, mix := range mixes {
		assert.Equal(t, objects.Pods(100, mix), objects.Pods(100, mix))
	}
	assert.Equal(t, objects.Secrets(20), objects.Secrets(20))
	assert.Equal(t, objects.ConfigMaps(20), objects.ConfigMaps(20))
}

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

func TestShareOfManagedFieldsOnTheWire(t *testing.T) {
	var whole, dropped struct{ json, protobuf int }
	for _, pod := range objects.Pods(500, objects.Field) {
		for _, to := range []*struct{ json, protobuf int }{&whole, &dropped} {
			text, err := json.Marshal(pod)
			require.NoError(t, err)
			message, err := pod.Marshal()
			require.NoError(t, err)
			to.json, to.protobuf = to.json+len(text), to.protobuf+len(message)
			pod.ManagedFields = nil
		}
	}
	inJSON, inProtobuf := float64(dropped.json)/float64(whole.json), float64(dropped.protobuf)/float64(whole.protobuf)
	t.Logf("pods without managed fields: %.2f of the bytes in JSON, %.2f in protobuf", inJSON, inProtobuf)
	assert.InDelta(t, 0.62, inJSON, 0.03, "docs/memory.md says so")
	assert.InDelta(t, 0.47, inProtobuf, 0.03)
}
