package reconcile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var shared apiserver.Shared

// TestMain is also the main function of replicas.
func TestMain(m *testing.M) {
	if os.Getenv(replicaVariable) != "" {
		if err := runReplica(os.Getenv(replicaVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(building{shared.Tests(m)})
}

// patience is how long anything may take before a test fails. A back-off alone can be half a minute, and the machine may be slow.
const patience = 3 * time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil })
	require.NoError(t, err, "waited for: %s", what)
}

// clients are those of a test. Their connections end with it.
type clients struct {
	kubernetes.Interface
	dynamic dynamic.Interface
}

func newClients(t *testing.T, server *apiserver.Server) clients {
	t.Helper()
	config := server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	resources, err := dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return clients{clientset, resources}
}

// connect returns a namespace of the server, and ways to it.
func connect(t *testing.T) (config *rest.Config, c clients, namespace string) {
	t.Helper()
	server := shared.Server(t)
	return server.Config(), newClients(t, server), server.Namespace(t)
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	foos        = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}

	// sampleFolder is where the sample controller is, and the definition of what it controls.
	sampleFolder = filepath.Join("..", "..", "..", "examples", "samplecontroller")
)

// installFoos applies the definition that comes with the sample controller, and waits until Foos are served.
func (c clients) installFoos(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sampleFolder, "crd.yaml"))
	require.NoError(t, err)
	var definition unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal(text, &definition.Object))
	_, err = c.dynamic.Resource(definitions).Create(t.Context(), &definition, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	eventually(t, "Foos to be served", func() bool {
		_, err := c.dynamic.Resource(foos).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// process is a controller in a process of its own.
type process struct {
	t       *testing.T
	command *exec.Cmd
	input   io.Closer // its end ends a replica
	errors  *bytes.Buffer
	wait    func() error // may be called again
}

// startProcess starts a program, and sees to it that it ends with the test.
func startProcess(t *testing.T, command *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, command: command, errors: &bytes.Buffer{}}
	command.Stderr = p.errors
	var err error
	p.input, err = command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	p.wait = sync.OnceValue(command.Wait)
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.command.Process.Kill() // or it has ended
	_ = p.wait()                 // which says that it was killed
}

// interrupt ends the process as Ctrl-C does, which is a good end if it has nothing to do: what it has just written must have come back to it.
func (p *process) interrupt() {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(os.Interrupt))
	require.NoError(p.t, p.wait(), p.errors)
}

// build builds the sample controller, once for all tests.
var build = sync.OnceValues(func() (program string, err error) {
	if buildFolder, err = os.MkdirTemp("", "kubereflector-sample-"); err != nil {
		return "", err
	}
	program = filepath.Join(buildFolder, "samplecontroller")
	command := exec.Command("go", "build", "-o", program, ".")
	command.Dir = sampleFolder
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return program, fmt.Errorf("build the sample controller: %w: %s", err, output)
	}
	return program, nil
})

// buildFolder is where that goes.
var buildFolder string

// building is tests that leave nothing which they have built.
type building struct{ apiserver.Runner }

func (b building) Run() int {
	defer func() { _ = os.RemoveAll(buildFolder) }() // nothing, if nobody has built anything
	return b.Runner.Run()
}

// startSample starts the sample controller.
func startSample(t *testing.T, kubeconfig string) *process {
	t.Helper()
	program, err := build()
	require.NoError(t, err)
	command := exec.Command(program, "-kubeconfig", kubeconfig)
	command.Env = append(os.Environ(), "KUBECONFIG=")
	return startProcess(t, command)
}

// auditPolicy has all writes to Foos and Deployments noted when they are answered.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: example.com}, {group: apps}]
- level: None
`

// auditLog is where a server notes who did what.
type auditLog struct {
	path    string
	options apiserver.Options // of a server that does so
}

func newAuditLog(t *testing.T) auditLog {
	t.Helper()
	folder := t.TempDir()
	policy, path := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	return auditLog{path, apiserver.Options{APIServerFlags: map[string][]string{"audit-policy-file": {policy}, "audit-log-path": {path}}}}
}

// audited is what is of interest in a line of the log.
type audited struct {
	Verb      string
	UserAgent string
	ObjectRef struct{ Resource, Subresource, Name string }

	ResponseStatus struct{ Code int }
}

// String returns what was written, such as "patch foos/status a".
func (a audited) String() string {
	resource := a.ObjectRef.Resource
	if a.ObjectRef.Subresource != "" {
		resource += "/" + a.ObjectRef.Subresource
	}
	return strings.Join([]string{a.Verb, resource, a.ObjectRef.Name}, " ")
}

// writes returns what a program wrote, and how often, and how many of its attempts were refused.
func (l auditLog) writes(t *testing.T, program string) (written map[string]int, refused int) {
	t.Helper()
	file, err := os.Open(l.path)
	require.NoError(t, err)
	defer file.Close()
	written = map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var a audited
		if json.Unmarshal(lines.Bytes(), &a) != nil || !strings.HasPrefix(a.UserAgent, program+"/") {
			continue // a server that is killed leaves half a line
		}
		if a.ResponseStatus.Code >= 300 {
			refused++
			continue
		}
		written[a.String()]++
	}
	require.NoError(t, lines.Err())
	return written, refused
}

// proxy stands between a controller and the server, in a test that does harm to what goes through.
type proxy struct {
	t          *testing.T
	forward    http.Handler
	listener   *httptest.Server
	kubeconfig string

	// mu protects the fields below it.
	mu sync.Mutex
	// harm gets each write before the server does, and may answer it.
	harm  func(http.ResponseWriter, *http.Request) (answered bool)
	cut   bool        // nobody gets through
	codes map[int]int // how often writes were answered by what
}

func startProxy(t *testing.T, server *apiserver.Server) *proxy {
	t.Helper()
	config := server.Config()
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	target, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	p := &proxy{t: t, codes: map[int]int{}, forward: &httputil.ReverseProxy{
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0), // those who are cut off
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}}
	p.listener = httptest.NewServer(p)
	p.kubeconfig = apiserver.WriteKubeconfig(t, &rest.Config{Host: p.listener.URL})
	t.Cleanup(func() {
		p.listener.CloseClientConnections() // of watches
		p.listener.Close()
		client.CloseIdleConnections()
	})
	return p
}

// ServeHTTP implements [http.Handler].
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	harm, cut := p.harm, p.cut
	p.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") {
		p.forward.ServeHTTP(w, r)
		return
	}
	answer := &answer{ResponseWriter: w}
	if harm == nil || !harm(answer, r) {
		p.forward.ServeHTTP(answer, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[answer.code]++
}

// answer knows what was answered.
type answer struct {
	http.ResponseWriter
	code int
}

func (a *answer) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// doHarm sets what is done to writes, until the end of the test.
func (p *proxy) doHarm(t *testing.T, harm func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harm = harm
	clear(p.codes)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.harm = nil
	})
}

// answers returns how often writes were answered by a code.
func (p *proxy) answers(code int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.codes[code]
}

// setCut lets nobody through, or everybody, from now on.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
	if cut {
		p.listener.CloseClientConnections()
	}
}
