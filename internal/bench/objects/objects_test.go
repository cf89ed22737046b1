package objects_test

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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
