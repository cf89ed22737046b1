package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestFirstControllerOnARealCluster follows docs/start/first-controller.md: it starts the operator
// before its resource exists, and applies the manifests.
func TestFirstControllerOnARealCluster(t *testing.T) {
	server := shared.Server(t)
	config := server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	resources, err := dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	folder := filepath.Join("..", "..", "docs", "start", "app")
	program := filepath.Join(t.TempDir(), "app")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	operator := exec.Command(program)
	operator.Env = append(os.Environ(), "KUBECONFIG="+server.Kubeconfig(t))
	var problems bytes.Buffer
	operator.Stderr = &problems
	require.NoError(t, operator.Start())
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = operator.Process.Kill() // the test has failed already
			_ = operator.Wait()
			t.Log(problems.String())
		}
	})

	apps := resources.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "apps"}).Namespace("default")
	deployments := resources.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	definitions := resources.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err = definitions.Create(t.Context(), manifest(t, folder, "crd.yaml"), metav1.CreateOptions{})
	require.NoError(t, err)
	var app, deployment *unstructured.Unstructured
	until(t, func() bool {
		app, err = apps.Create(t.Context(), manifest(t, folder, "shop.yaml"), metav1.CreateOptions{})
		return err == nil
	})
	until(t, func() bool {
		deployment, err = deployments.Get(t.Context(), "shop", metav1.GetOptions{})
		return err == nil
	})
	assert.True(t, metav1.IsControlledBy(deployment, app))

	// The test replaces the controller of Deployments.
	status := []byte(`{"status":{"replicas":2,"readyReplicas":2}}`)
	_, err = deployments.Patch(t.Context(), "shop", "application/merge-patch+json", status, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	until(t, func() bool {
		app, err = apps.Get(t.Context(), "shop", metav1.GetOptions{})
		require.NoError(t, err)
		ready, _, _ := unstructured.NestedInt64(app.Object, "status", "readyReplicas")
		return ready == 2
	})
	require.NoError(t, operator.Process.Signal(os.Interrupt))
	assert.NoError(t, operator.Wait(), problems.String())
	ended = true
}

// manifest returns the object of a file.
func manifest(t *testing.T, folder, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "manifests", name))
	require.NoError(t, err)
	var object unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal(text, &object.Object))
	return &object
}

// until waits until a condition holds, or the test ends.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended before the condition held")
		}
	}
}
