package shards

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/internal/e2e/network"
)

// TestMain is also the main function of replicas.
func TestMain(m *testing.M) {
	if os.Getenv(replicaVariable) != "" {
		if err := runReplica(os.Getenv(replicaVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(servers[true].Tests(servers[false].Tests(m)))
}

// servers select shards, or ignore the selector.
var servers = map[bool]*apiserver.Shared{true: withGate(true), false: withGate(false)}

func withGate(gate bool) *apiserver.Shared {
	return &apiserver.Shared{Options: apiserver.Options{APIServerFlags: map[string][]string{
		"feature-gates": {fmt.Sprint("ShardedListAndWatch=", gate)},
	}}}
}

// patience is how long anything may take before a test fails: the machine may be slow.
const patience = 4 * time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil })
	require.NoError(t, err, "waited for: %s", what)
}

// process is a replica.
type process struct {
	t        *testing.T
	identity string
	line     *network.Line
	command  *exec.Cmd
	input    io.WriteCloser
	output   *bufio.Reader
	wait     func() error // may be called again
}

func (w *world) start(identity string) *process {
	w.Helper()
	config := w.server.Config()
	p := &process{t: w.T, identity: identity, line: network.Listen(w.T, config)}
	text, err := json.Marshal(map[string]string{"Identity": identity, "Kubeconfig": apiserver.WriteKubeconfig(w.T, config), "Namespace": w.namespace})
	require.NoError(w, err)
	program, err := os.Executable()
	require.NoError(w, err)
	p.command = exec.Command(program)
	p.command.Env = append(os.Environ(), replicaVariable+"="+string(text))
	p.command.Stderr = os.Stderr
	p.input, err = p.command.StdinPipe()
	require.NoError(w, err)
	output, err := p.command.StdoutPipe()
	require.NoError(w, err)
	p.output = bufio.NewReader(output)
	require.NoError(w, p.command.Start())
	p.wait = sync.OnceValue(p.command.Wait)
	w.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.command.Process.Kill() // or it has ended
	_ = p.wait()
}

// interrupt ends the process as a rollout does.
func (p *process) interrupt() {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(os.Interrupt))
	require.NoError(p.t, p.wait())
}

// ask asks a replica how it is.
func (p *process) ask() (said report) {
	p.t.Helper()
	_, err := io.WriteString(p.input, "\n")
	require.NoError(p.t, err)
	line, err := p.output.ReadBytes('\n')
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal(line, &said))
	return said
}
