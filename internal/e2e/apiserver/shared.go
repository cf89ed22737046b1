package apiserver

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a server that the tests of a package share. Its zero value is ready to use. It starts
// the server when the first test calls [Shared.Server], so that other tests stay fast.
type Shared struct {
	// Options configure the server. They must not change after the first call of Server.
	Options Options

	once   sync.Once
	server *Server
	err    error
}

// Server returns the server. The first call starts it. If the start fails, every test that calls
// Server fails with the reason.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = startFor(t, s.Options) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Runner runs tests and returns the exit code of the process. *testing.M is a Runner, and
// goleak.VerifyTestMain takes one.
type Runner interface{ Run() int }

// Tests returns tests that stop the server after they have run, for TestMain.
func (s *Shared) Tests(tests Runner) Runner { return sharing{tests, s} }

type sharing struct {
	tests  Runner
	shared *Shared
}

func (s sharing) Run() int {
	code := s.tests.Run()
	// The tests have ended, so no test can start the server now.
	if server := s.shared.server; server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}
