package reconcile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

var (
	apps             = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "apps"}
	productionFolder = filepath.Join("..", "..", "..", "docs", "start", "production")
)

// TestProgramForProductionOnARealCluster installs the manifests of docs/start/production in the order of
// kubectl, and runs the program with the permissions of its service account.
func TestProgramForProductionOnARealCluster(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{})
	c, namespace := newClients(t, server), server.Namespace(t)
	files, err := filepath.Glob(filepath.Join(productionFolder, "manifests", "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var object unstructured.Unstructured
			require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
			resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			_, err := c.dynamic.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), &object, metav1.CreateOptions{FieldValidation: "Strict"})
			require.NoError(t, err, "%s of %s", object.GetKind(), file)
		}
	}
	own, err := c.AppsV1().Deployments("apps").Get(t.Context(), "apps", metav1.GetOptions{})
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "apps"}, Spec: own.Spec.Template.Spec}
	_, err = c.CoreV1().Pods("apps").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err, "the namespace admits no pod that is not restricted")
	// As an earlier leader leaves it: without it, the first leader waits for 15 seconds.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(string), new(int32)
	*lease.Spec.LeaseDurationSeconds = 1
	_, err = c.CoordinationV1().Leases("apps").Create(t.Context(), lease, metav1.CreateOptions{})
	require.NoError(t, err)
	shop := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "App", "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{"image": "nginx:1.29", "replicas": int64(2)},
	}}
	eventually(t, "Apps to be served", func() bool {
		_, err := c.dynamic.Resource(apps).Namespace(namespace).Create(t.Context(), shop, metav1.CreateOptions{})
		return err == nil
	})

	token, err := c.CoreV1().ServiceAccounts("apps").CreateToken(t.Context(), "apps", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(server.Config())
	config.BearerToken = token.Status.Token
	account, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	eventually(t, "the permission to watch the lease", func() bool {
		watch, err := account.CoordinationV1().Leases("apps").Watch(t.Context(), metav1.ListOptions{})
		if err == nil {
			watch.Stop()
		}
		return err == nil
	})
	program := filepath.Join(t.TempDir(), "apps")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = productionFolder
	build.Env = append(os.Environ(), "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	command := exec.Command(program, "-address=127.0.0.1:0")
	command.Env = append(os.Environ(), "KUBECONFIG="+apiserver.WriteKubeconfig(t, config))
	operator := startProcess(t, command)
	t.Cleanup(func() {
		if operator.kill(); t.Failed() {
			t.Log(operator.errors)
		}
	})

	deployments := c.AppsV1().Deployments(namespace)
	eventually(t, "the Deployment", func() bool {
		deployment, err := deployments.Get(t.Context(), "shop", metav1.GetOptions{})
		return err == nil && *deployment.Spec.Replicas == 2 && metav1.GetControllerOf(deployment).Name == "shop"
	})
	_, err = deployments.Patch(t.Context(), "shop", types.MergePatchType, []byte(`{"status":{"replicas":2,"readyReplicas":2}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	eventually(t, "the status of the App", func() bool {
		app, err := c.dynamic.Resource(apps).Namespace(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
		require.NoError(t, err)
		ready, _, _ := unstructured.NestedInt64(app.Object, "status", "readyReplicas")
		return ready == 2
	})
	require.NoError(t, operator.command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, operator.wait(), operator.errors)
	assert.NotContains(t, operator.errors.String(), "forbidden")
	events, err := c.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	if assert.Len(t, events.Items, 1) {
		assert.Equal(t, "Applied", events.Items[0].Reason)
	}
	lease, err = c.CoordinationV1().Leases("apps").Get(t.Context(), "apps", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, *lease.Spec.HolderIdentity)
}
