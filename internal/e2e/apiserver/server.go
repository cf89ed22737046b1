package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubereflector/kubereflector/internal/e2e/binaries"
)

const (
	// startTimeout is the limit for each of the two programs. kube-apiserver takes about two
	// seconds on two idle cores, but other packages may be compiling.
	startTimeout = 2 * time.Minute

	// stopTimeout is how long each of the two has to end before it is killed.
	stopTimeout = time.Minute

	// attempts is the number of start attempts. New chooses a port before the server listens on it,
	// so another process may take the port in between.
	attempts = 3
)

// Server is a running kube-apiserver with its etcd.
type Server struct {
	folder    string // certificates, data, logs: all there is of it on disk
	binary    string // the path of kube-apiserver
	options   Options
	plane     *envtest.ControlPlane
	apiServer *program
	etcd      *program
	watchdog  *watchdog
	config    *rest.Config
	stop      func() error
}

// Start starts a server for a test, which fails if that is not possible, and stops it when the test has ended. The binaries are built if need be.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s, err := startFor(t, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New starts a server that the caller stops. The context is for starting it only.
func New(ctx context.Context, options Options) (*Server, error) {
	found, err := binaries.Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the binaries of a control plane: %w", err)
	}
	var failures []error
	for range attempts {
		begin := time.Now()
		s, err := newServer(ctx, found, options)
		if err == nil {
			return s, nil
		}
		failures = append(failures, err)
		// After this time a busy port cannot be the reason.
		if ctx.Err() != nil || time.Since(begin) >= startTimeout {
			break
		}
	}
	return nil, fmt.Errorf("start a control plane (attempts: %d): %w", len(failures), errors.Join(failures...))
}

func newServer(ctx context.Context, found *binaries.Binaries, options Options) (_ *Server, err error) {
	folder, err := os.MkdirTemp("", "kubereflector-e2e-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a control plane: %w", err)
	}
	s := &Server{folder: folder, binary: found.APIServer, options: options}
	s.stop = sync.OnceValue(s.end)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.etcd, err = newProgram(folder, found.Etcd); err != nil {
		return nil, err
	}
	if s.apiServer, err = newProgram(folder, found.APIServer); err != nil {
		return nil, err
	}
	if s.watchdog, err = startWatchdog(folder, s.apiServer.pidFile, s.etcd.pidFile); err != nil {
		return nil, err
	}
	if s.plane, err = newPlane(folder, s.etcd, s.apiServer, options); err != nil {
		return nil, err
	}
	if err = s.plane.Start(); err != nil {
		return nil, fmt.Errorf("%w\n%s\n%s", err, s.etcd.tail(), s.apiServer.tail())
	}
	admin, err := s.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{
		QPS: -1, // no limit; Burst has no meaning without one
	})
	if err != nil {
		return nil, fmt.Errorf("make a user: %w", err)
	}
	s.config = admin.Config()
	if err = s.waitUntilReady(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.apiServer.tail())
	}
	return s, nil
}

// newPlane chooses the addresses and files that must outlive a process. envtest removes the ones
// that it chooses itself when it stops.
func newPlane(folder string, etcd, apiServer *program, options Options) (*envtest.ControlPlane, error) {
	data, certificates := filepath.Join(folder, "data"), filepath.Join(folder, "certificates")
	for _, each := range []string{data, certificates} {
		if err := os.Mkdir(each, 0o700); err != nil { // etcd warns if others may read its data
			return nil, fmt.Errorf("make a folder for a control plane: %w", err)
		}
	}
	plane := &envtest.ControlPlane{
		Etcd: &envtest.Etcd{
			Path: etcd.launcher, DataDir: data, Out: etcd.log, Err: etcd.log,
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
		},
		APIServer: newAPIServer(certificates, apiServer, options),
	}
	return plane, nil
}

func newAPIServer(certificates string, program *program, options Options) *envtest.APIServer {
	made := &envtest.APIServer{
		Path: program.launcher, CertDir: certificates, Out: program.log, Err: program.log,
		StartTimeout: startTimeout, StopTimeout: stopTimeout,
	}
	for flag, values := range options.APIServerFlags {
		made.Configure().Set(flag, values...)
	}
	return made
}

// waitUntilReady waits for what kube-apiserver makes after it says that it is healthy.
func (s *Server) waitUntilReady(ctx context.Context) error {
	client, closeClient, err := s.client()
	if err != nil {
		return err
	}
	defer closeClient()
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("wait until kube-apiserver has made its namespace default: %w", context.Cause(ctx))
	}
	return fmt.Errorf("kube-apiserver is healthy, but did not make its namespace default in %v: %w; its last answer: %w", startTimeout, err, last)
}

// client returns a client with its own connections. Closing them disturbs no other client, and
// leaves no goroutine that a test would count as its own leak.
func (s *Server) client() (_ kubernetes.Interface, closeClient func(), err error) {
	http, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the control plane: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(s.Config(), http)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the control plane: %w", err)
	}
	return client, http.CloseIdleConnections, nil
}

// Config returns a configuration of its own for each caller, to change at will: an administrator's, without a limit of requests.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Namespace makes a namespace for a test. It stays: nothing here would finish its deletion.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	client, closeClient, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient()
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Annotations: map[string]string{"test": t.Name()}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return made.Name
}

// Stop ends the server and removes all that it wrote. Calls after the first wait for it and return the same.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) end() error {
	var failures []error
	if s.plane != nil {
		failures = append(failures, s.plane.Stop())
	}
	for _, each := range []*program{s.apiServer, s.etcd} {
		if each != nil {
			failures = append(failures, each.close())
		}
	}
	failures = append(failures, os.RemoveAll(s.folder))
	// Stop the watchdog last: it ends the programs if the steps above fail.
	if s.watchdog != nil {
		failures = append(failures, s.watchdog.stop())
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	return nil
}

// startFor starts a server within the time that a test has left, so that too little of it is an error and not a panic.
func startFor(t testing.TB, options Options) (*Server, error) {
	ctx := t.Context()
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, set := limited.Deadline(); set {
			const reserve = 15 * time.Second // to stop the build and to report
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-reserve), errors.New("go test's -timeout is about to pass"))
			defer cancel()
		}
	}
	return New(ctx, options)
}
