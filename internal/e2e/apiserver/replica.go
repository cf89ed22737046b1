package apiserver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// StartReplica starts a second kube-apiserver over the etcd of a server, with its certificates and flags,
// as a cluster with several of them has. The replica has an address of its own and ends with the test.
// Methods of the replica that concern etcd affect both.
func (s *Server) StartReplica(t testing.TB) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "kubereflector-e2e-")
	if err != nil {
		t.Fatalf("make a folder for a replica: %v", err)
	}
	r := &Server{folder: folder, etcd: s.etcd, options: s.options, config: s.Config()}
	r.stop = sync.OnceValue(r.endReplica)
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	if r.apiServer, err = newProgram(folder, s.binary); err != nil {
		t.Fatal(err)
	}
	if r.watchdog, err = startWatchdog(folder, r.apiServer.pidFile); err != nil {
		t.Fatal(err)
	}
	first := s.plane.APIServer
	r.plane = &envtest.ControlPlane{Etcd: s.plane.Etcd, APIServer: newAPIServer(first.CertDir, r.apiServer, s.options)}
	r.plane.APIServer.EtcdURL = first.EtcdURL
	r.plane.APIServer.Authn = sameUsers{first.Authn, first.Configure().Get("client-ca-file").Get(nil)}
	if err = r.plane.APIServer.Start(); err != nil {
		t.Fatalf("start a replica: %v\n%s", err, r.apiServer.tail())
	}
	r.config.Host = r.plane.APIServer.SecureServing.URL("https", "").String()
	if err = r.waitUntilReady(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, r.apiServer.tail())
	}
	return r
}

func (s *Server) endReplica() error {
	var failures []error
	if s.plane != nil {
		failures = append(failures, s.plane.APIServer.Stop())
	}
	if s.apiServer != nil {
		failures = append(failures, s.apiServer.close())
	}
	failures = append(failures, os.RemoveAll(s.folder))
	if s.watchdog != nil {
		failures = append(failures, s.watchdog.stop())
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("stop a replica: %w", err)
	}
	return nil
}

// sameUsers lets a replica accept the users of the first server. The Authn of that server itself would
// be written to by both when they start.
type sameUsers struct {
	envtest.Authn
	authority []string
}

func (u sameUsers) Configure(_ string, flags *envtest.Arguments) error {
	flags.Set("client-ca-file", u.authority...)
	return nil
}

func (u sameUsers) Start() error { return nil }
func (u sameUsers) Stop() error  { return nil }
