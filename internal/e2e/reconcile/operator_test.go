package reconcile

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

const operatorName = "site-operator" // also of its namespace, its service account and its lease

var (
	sites          = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sites"}
	operatorFolder = filepath.Join("..", "..", "..", "examples", "operator")
)

// applied are the resources of the objects that the operator applies, and ofOperator selects them.
var (
	applied = []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "configmaps"},
	}
	ofOperator = metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=" + operatorName}
)

// zone is the external DNS API of the operator.
type zone struct {
	mu    sync.Mutex
	hosts map[string]string // Guarded by mu. By UID
}

// ServeHTTP keeps the host of each UID.
func (z *zone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var content struct{ Host string }
	if err := json.NewDecoder(r.Body).Decode(&content); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if r.Method == http.MethodDelete {
		delete(z.hosts, path.Base(r.URL.Path))
		return
	}
	z.hosts[path.Base(r.URL.Path)] = content.Host
}

// count returns the number of hosts that end with a suffix.
func (z *zone) count(suffix string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	n := 0
	for _, host := range z.hosts {
		if strings.HasSuffix(host, suffix) {
			n++
		}
	}
	return n
}

// operated is a cluster with two processes of the operator.
type operated struct {
	*testing.T
	clients
	server    *apiserver.Server
	zone      *zone
	replicas  []*replicaOfOperator
	namespace string
}

// replicaOfOperator is one process of the operator.
type replicaOfOperator struct {
	*process
	address string
}

// install creates the objects of a manifest.
func (o *operated) install(manifest string) {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(operatorFolder, "manifests", manifest))
	require.NoError(o, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object unstructured.Unstructured
		require.NoError(o, yaml.Unmarshal([]byte(document), &object.Object))
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		eventually(o.T, manifest+" to be installed", func() bool {
			_, err := o.dynamic.Resource(resource).Namespace(object.GetNamespace()).Create(o.Context(), &object, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}
}

// installSites installs the definition, and waits until Sites are served.
func (o *operated) installSites() {
	o.Helper()
	o.install("crd.yaml")
	eventually(o.T, "Sites to be served", func() bool {
		_, err := o.dynamic.Resource(sites).List(o.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// newOperated installs the manifests and starts two processes with the permissions of the service
// account.
func newOperated(t *testing.T) *operated {
	server := apiserver.Start(t, apiserver.Options{})
	o := &operated{T: t, clients: newClients(t, server), server: server, zone: &zone{hosts: map[string]string{}}, namespace: server.Namespace(t)}
	o.installSites()
	o.install("operator.yaml")
	// As an earlier leader leaves it: without it, the first leader waits for 15 seconds.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: operatorName}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(string), new(int32)
	*lease.Spec.LeaseDurationSeconds = 1
	_, err := o.CoordinationV1().Leases(operatorName).Create(t.Context(), lease, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = o.CoreV1().Secrets(o.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "env"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	token, err := o.CoreV1().ServiceAccounts(operatorName).CreateToken(t.Context(), operatorName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(server.Config())
	config.BearerToken = token.Status.Token
	account, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	eventually(t, "the permission to watch the lease", func() bool {
		watch, err := account.CoordinationV1().Leases(operatorName).Watch(t.Context(), metav1.ListOptions{})
		if err == nil {
			watch.Stop()
		}
		return err == nil
	})
	kubeconfig := apiserver.WriteKubeconfig(t, config)
	api := httptest.NewServer(o.zone)
	t.Cleanup(api.Close)
	program := filepath.Join(t.TempDir(), "operator")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = operatorFolder
	build.Env = append(os.Environ(), "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := listener.Addr().String()
		require.NoError(t, listener.Close())
		command := exec.Command(program, "-dns", api.URL, "-address", address, "-namespace", operatorName)
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		replica := &replicaOfOperator{startProcess(t, command), address}
		o.replicas = append(o.replicas, replica)
		t.Cleanup(func() {
			if replica.kill(); t.Failed() {
				t.Log(replica.errors)
			}
		})
	}
	return o
}

// get returns the status code and the text of a page of the operator.
func (r *replicaOfOperator) get(page string) (int, string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + r.address + page)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// leader waits for the leader, and returns it and the other process.
func (o *operated) leader() (leader, other *replicaOfOperator) {
	o.Helper()
	eventually(o.T, "a leader", func() bool {
		for n, r := range o.replicas {
			if _, text := r.get("/metrics"); strings.Contains(text, "site_operator_leading 1\n") {
				leader, other = r, o.replicas[(n+1)%len(o.replicas)]
			}
		}
		return leader != nil
	})
	return leader, other
}

// createSites creates Sites, and insists on it while the server restarts.
func (o *operated) createSites(from, to int) {
	o.Helper()
	for n := from; n < to; n++ {
		site := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": sites.GroupVersion().String(), "kind": "Site", "metadata": map[string]any{"name": fmt.Sprint("site-", n)},
			"spec": map[string]any{"host": fmt.Sprintf("%d.example.com", n), "page": "a page", "secret": "env", "replicas": int64(2)},
		}}
		eventually(o.T, "a Site to be created", func() bool {
			_, err := o.dynamic.Resource(sites).Namespace(o.namespace).Create(o.Context(), site, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}
}

// patchSites patches all Sites.
func (o *operated) patchSites(count int, patch func(n int) string) {
	o.Helper()
	for n := range count {
		_, err := o.dynamic.Resource(sites).Namespace(o.namespace).Patch(o.Context(), fmt.Sprint("site-", n), types.MergePatchType, []byte(patch(n)), metav1.PatchOptions{})
		require.NoError(o, err)
	}
}

// progressing returns how many Sites report the reason Progressing for their generation.
func (o *operated) progressing() int {
	list, err := o.dynamic.Resource(sites).Namespace(o.namespace).List(o.Context(), metav1.ListOptions{})
	if err != nil {
		return 0
	}
	n := 0
	for _, site := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(site.Object, "status", "conditions")
		if len(conditions) == 1 && conditions[0].(map[string]any)["reason"] == "Progressing" && conditions[0].(map[string]any)["observedGeneration"] == site.GetGeneration() {
			n++
		}
	}
	return n
}

// children returns the number of Deployments, Services and ConfigMaps of the operator. Each of them
// must have the Site with its name as its owner, so the garbage collector of a cluster deletes it.
func (o *operated) children() (count [3]int) {
	o.Helper()
	list, err := o.dynamic.Resource(sites).Namespace(o.namespace).List(o.Context(), metav1.ListOptions{})
	require.NoError(o, err)
	owners := map[string]types.UID{}
	for _, site := range list.Items {
		owners[site.GetName()] = site.GetUID()
	}
	for n, resource := range applied {
		list, err := o.dynamic.Resource(resource).Namespace(o.namespace).List(o.Context(), ofOperator)
		require.NoError(o, err)
		count[n] = len(list.Items)
		for _, object := range list.Items {
			if owner := metav1.GetControllerOf(&object); assert.NotNil(o, owner, "%s %s", resource.Resource, object.GetName()) {
				assert.Equal(o, owners[object.GetName()], owner.UID, "%s %s", resource.Resource, object.GetName())
			}
		}
	}
	return count
}

// deleteSites deletes all Sites, and waits until Sites and records are gone. It then plays the
// garbage collector.
func (o *operated) deleteSites() {
	o.Helper()
	require.NoError(o, o.dynamic.Resource(sites).Namespace(o.namespace).DeleteCollection(o.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	eventually(o.T, "all Sites to be gone", func() bool {
		list, err := o.dynamic.Resource(sites).Namespace(o.namespace).List(o.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	assert.Zero(o, o.zone.count(""), "records")
	o.collect()
	<-time.After(quiet)
	assert.Equal(o, [3]int{}, o.children(), "nothing comes back")
}

// collect plays the garbage collector after the deletion of all Sites.
func (o *operated) collect() {
	o.Helper()
	for _, resource := range applied {
		require.NoError(o, o.dynamic.Resource(resource).Namespace(o.namespace).DeleteCollection(o.Context(), metav1.DeleteOptions{}, ofOperator))
	}
}

// TestOperatorOnARealCluster kills the API server twice, ends the leader, edits a child and removes
// the definition under an operator with 50 Sites.
func TestOperatorOnARealCluster(t *testing.T) {
	const count = 50
	o := newOperated(t)
	leader, _ := o.leader()

	o.createSites(0, count/2)
	require.NoError(t, o.server.KillAPIServer())
	code, text := leader.get("/healthz")
	assert.Equal(t, http.StatusOK, code, "a restart of the operator would not help: %s", text)
	require.NoError(t, o.server.StartAPIServer())
	o.createSites(count/2, count)
	eventually(t, "all records", func() bool { return o.zone.count(".example.com") == count })
	eventually(t, "all conditions", func() bool { return o.progressing() == count })
	assert.Equal(t, [3]int{count, count, count}, o.children())

	o.patchSites(count, func(n int) string { return fmt.Sprintf(`{"spec":{"host":"%d.example.net","page":"another page"}}`, n) })
	require.NoError(t, o.server.KillAPIServer())
	require.NoError(t, o.server.StartAPIServer())
	eventually(t, "the records after a restart", func() bool { return o.zone.count(".example.net") == count })
	eventually(t, "the conditions after a restart", func() bool { return o.progressing() == count })
	assert.Equal(t, [3]int{count, count, count}, o.children())

	leader, other := o.leader() // the lease may have expired meanwhile
	require.NoError(t, leader.command.Process.Signal(syscall.SIGTERM))
	o.patchSites(count, func(n int) string { return fmt.Sprintf(`{"spec":{"host":"%d.example.org"}}`, n) })
	require.NoError(t, leader.wait(), leader.errors)
	eventually(t, "the records of the second leader", func() bool { return o.zone.count(".example.org") == count })
	eventually(t, "its conditions", func() bool { return o.progressing() == count })
	code, text = other.get("/readyz")
	assert.Equal(t, http.StatusOK, code, text)

	deployments := o.AppsV1().Deployments(o.namespace)
	_, err := deployments.Patch(t.Context(), "site-0", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{FieldManager: "another"})
	require.NoError(t, err)
	require.NoError(t, deployments.Delete(t.Context(), "site-1", metav1.DeleteOptions{}))
	for _, name := range []string{"site-0", "site-1"} {
		eventually(t, name+" to be repaired", func() bool {
			d, err := deployments.Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && *d.Spec.Replicas == 2
		})
	}
	o.deleteSites()

	o.createSites(0, 3)
	eventually(t, "three records", func() bool { return o.zone.count("") == 3 })
	require.NoError(t, o.dynamic.Resource(definitions).Delete(t.Context(), "sites.example.com", metav1.DeleteOptions{}))
	eventually(t, "the definition to be gone", func() bool {
		_, err := o.dynamic.Resource(definitions).Get(t.Context(), "sites.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	assert.Zero(t, o.zone.count(""), "the operator has finalized the Sites")
	o.collect()
	code, text = other.get("/healthz")
	assert.Equal(t, http.StatusOK, code, text)
	o.installSites()
	o.createSites(0, 1)
	eventually(t, "the record of a new Site", func() bool { return o.zone.count("") == 1 })
	o.deleteSites()
	require.NoError(t, other.command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, other.wait(), other.errors)
	for _, r := range o.replicas {
		for line := range strings.Lines(r.errors.String()) {
			assert.True(t, json.Valid([]byte(line)), "client-go logs in the same format: %s", line)
		}
	}
}
