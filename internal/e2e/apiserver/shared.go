package apiserver

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a server that the tests of a package share. Its zero value is ready to use; it starts the server when a test first asks for it, so that
// running the others, or listing all, is not slowed down.
type Shared struct {
	// Options are those of the server. They must not change once a test has asked for it.
	Options Options

	once   sync.Once
	server *Server
	err    error
}

// Server returns the server. The first call starts it; if that is not possible, every test that asks fails with the reason.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = startFor(t, s.Options) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Runner runs tests and returns the exit code of the process; *testing.M is one, and so is what goleak.VerifyTestMain takes.
type Runner interface{ Run() int }

// Tests returns tests that stop the server after they have run, for TestMain.
func (s *Shared) Tests(tests Runner) Runner { return sharing{tests, s} }

type sharing struct {
	tests  Runner
	shared *Shared
}

func (s sharing) Run() int {
	code := s.tests.Run()
	// Nobody starts it any more: the tests have ended.
	if server := s.shared.server; server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}
