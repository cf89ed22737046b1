package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestMain is the program itself in a process that a test starts.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_THE_PROGRAM") != "" {
		main()
		return
	}
	manager.RouteKlog(zap.NewNop())
	os.Exit(m.Run())
}

// start starts an API server with the definition of Apps, one App, and a Lease as an earlier leader
// leaves it: in a new cluster, the first leader waits for 15 seconds.
func start(t *testing.T, opts ...reflectortest.Option) *reflectortest.Server {
	t.Helper()
	definition, err := os.ReadFile("manifests/example.com_apps.yaml")
	require.NoError(t, err)
	server := reflectortest.Start(t, append(opts, reflectortest.WithDefinition(definition, &App{}))...)
	released := lease()
	released.Spec.HolderIdentity, released.Spec.LeaseDurationSeconds = new(string), new(int32)
	*released.Spec.LeaseDurationSeconds = 1
	require.NoError(t, server.Create(released))
	require.NoError(t, server.Create(newApp()))
	return server
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}}
}

func newApp() *App {
	return &App{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec:       AppSpec{Image: "nginx:1.29", Replicas: 2},
		Status:     AppStatus{ReadyReplicas: 1},
	}
}

// waitForDeployment plays the controller of Deployments: it waits for the Deployment, makes its pods
// ready, and waits for the status of the App.
func waitForDeployment(t *testing.T, server *reflectortest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	deployment, app := &appsv1.Deployment{ObjectMeta: newApp().ObjectMeta}, newApp()
	require.NoError(t, server.WaitFor(ctx, func() bool { return server.Get(deployment) == nil }))
	deployment.Status.ReadyReplicas = 2
	require.NoError(t, server.Update(deployment))
	require.NoError(t, server.WaitFor(ctx, func() bool { return server.Get(app) == nil && app.Status.ReadyReplicas == 2 }))
}

func TestProcessServesAndEndsAtSIGTERM(t *testing.T) {
	server := start(t, reflectortest.OnPort())
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "k"}}], "clusters": [{"name": "k", "cluster": {"server": "%s"}}]}`, server.URL()), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())

	self, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), self, "-address="+address)
	process.Env = append(os.Environ(), "RUN_THE_PROGRAM=1", "KUBECONFIG="+kubeconfig)
	var logged bytes.Buffer
	process.Stderr = &logged
	require.NoError(t, process.Start())
	waitForDeployment(t, server)
	answer := func(path string) string {
		response, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
		return string(body)
	}
	answer("/healthz")
	answer("/readyz")
	metrics := answer("/metrics")
	assert.Contains(t, metrics, `kubereflector_leading{lease="apps"} 1`)
	assert.Contains(t, metrics, `kubereflector_reconcile_duration_seconds_count{reconciler="apps",result="ok"}`)
	assert.Contains(t, metrics, `go_goroutines`)

	require.NoError(t, process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, process.Wait(), "%s", &logged)
	held := lease()
	require.NoError(t, server.Get(held))
	assert.Empty(t, *held.Spec.HolderIdentity, "the lease is given back")
	events, err := reflectortest.List[*eventsv1.Event](server, "default")
	require.NoError(t, err)
	if assert.Len(t, events, 1) {
		assert.Equal(t, "Applied", events[0].Reason)
	}
	assert.Contains(t, logged.String(), "leader lease", "of client-go")
	for lines := bufio.NewScanner(&logged); lines.Scan(); {
		assert.True(t, json.Valid(lines.Bytes()), "klog wrote a line of its own: %s", lines.Text())
	}
}

// inBubble runs the operator until use returns.
func inBubble(t *testing.T, server *reflectortest.Server, use func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	result := make(chan error, 1)
	go func() { result <- run(ctx, server.Config(), "apps", "", zap.NewNop()) }()
	use()
	stop()
	require.NoError(t, <-result)
}

func TestDeploymentOfAnotherOwnerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t)
		theirs := newApp().deployment() // no field differs, so an apply would not conflict
		theirs.Labels, theirs.OwnerReferences = nil, nil
		require.NoError(t, server.Create(theirs))
		inBubble(t, server, func() { <-time.After(time.Hour) })
		for _, r := range server.Requests(reflectortest.Verb("watch"), reflectortest.ForResource("deployments")) {
			assert.Equal(t, managedBy+"="+name, r.Query.Get("labelSelector"), "the cache lacks theirs")
		}
		require.NoError(t, server.Get(theirs))
		assert.Empty(t, theirs.OwnerReferences)
		events, err := reflectortest.List[*eventsv1.Event](server, "default")
		require.NoError(t, err)
		if assert.NotEmpty(t, events) {
			assert.Equal(t, "ApplyFailed: there is a Deployment default/shop that is not of this App", events[0].Reason+": "+events[0].Note)
		}
	})
}

// Another Deployment takes the name while an apply for the one of the App is on its way.
func TestDeploymentThatTookTheNameIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, app := start(t), newApp()
		app.Spec.Replicas = 3
		theirs := app.deployment() // no field will differ, so an apply would not conflict
		theirs.OwnerReferences = nil
		inBubble(t, server, func() {
			waitForDeployment(t, server)
			arrives := make(chan struct{})
			onItsWay := server.Inject(reflectortest.Stall(arrives).On("patch", "deployments").Times(1))
			require.NoError(t, server.Get(app))
			app.Spec.Replicas = 3
			require.NoError(t, server.Update(app))
			synctest.Wait()
			require.Equal(t, 1, onItsWay.Hits())
			require.NoError(t, server.Delete(newApp().deployment()))
			require.NoError(t, server.Create(theirs))
			close(arrives)
			<-time.After(time.Hour)
		})
		require.NoError(t, server.Get(theirs))
		assert.Empty(t, theirs.OwnerReferences)
	})
}

func TestWriteWithoutAnAnswerIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t)
		inBubble(t, server, func() {
			waitForDeployment(t, server)
			stalled := server.Inject(reflectortest.Stall(nil).On("patch", "deployments").Times(1))
			app := newApp()
			require.NoError(t, server.Get(app))
			app.Spec.Replicas = 3
			require.NoError(t, server.Update(app))
			<-time.After(2 * time.Minute)
			assert.Equal(t, 1, stalled.Hits())
			deployment := app.deployment()
			require.NoError(t, server.Get(deployment))
			assert.EqualValues(t, 3, *deployment.Spec.Replicas)
		})
	})
}

// No step of the end is answered here: neither the running call, nor the lease, nor the Events.
func TestEndFitsTheGracePeriodIfTheServerIsSilent(t *testing.T) {
	grace := time.Duration(*read(t).pod.TerminationGracePeriodSeconds) * time.Second
	synctest.Test(t, func(t *testing.T) {
		server := start(t)
		var begin time.Time
		inBubble(t, server, func() {
			waitForDeployment(t, server)
			app := newApp()
			require.NoError(t, server.Get(app))
			server.Inject(reflectortest.Stall(nil))
			app.Spec.Replicas = 3
			require.NoError(t, server.Update(app))
			synctest.Wait()
			begin = time.Now()
		})
		assert.Less(t, time.Since(begin), grace)
		assert.Greater(t, time.Since(begin), 20*time.Second, "the server was not silent")
	})
}

func TestEverySimulatedDisturbanceEndsAsUndisturbed(t *testing.T) {
	definition, err := os.ReadFile("manifests/example.com_apps.yaml")
	require.NoError(t, err)
	shop := newApp()
	simulate.Explore(t, simulate.Scenario{
		Server: []reflectortest.Option{reflectortest.WithDefinition(definition, &App{})},
		Operator: func(ctx context.Context, config *rest.Config) error {
			return run(ctx, config, "apps", "", zap.NewNop())
		},
		Players: []simulate.Player{simulate.Deployments},
		Steps: []simulate.Step{
			simulate.Create(shop),
			simulate.Change(shop, func(a *App) { a.Spec.Replicas = 3 }),
			simulate.Delete(shop),
			simulate.Create(shop),
			simulate.Delete(shop, metav1.DeletePropagationForeground),
		},
		OldServers: true,
		Most:       60,
	})
}
