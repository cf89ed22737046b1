//go:build unix

package leader

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pausedServer is the environment variable that makes a process of this test lead.
const pausedServer = "LEADER_TEST_SERVER"

func TestPausedProcessKnowsThatItLostTheLease(t *testing.T) {
	if server := os.Getenv(pausedServer); server != "" {
		lead(server, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
		return
	}
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	t.Parallel()
	server := reflectortest.Start(t, reflectortest.OnPort())
	paused := exec.Command(os.Args[0], "-test.run=^TestPausedProcessKnowsThatItLostTheLease$")
	paused.Env = append(os.Environ(), pausedServer+"="+server.URL())
	paused.Stderr = os.Stderr
	out, err := paused.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, paused.Start())
	defer func() {
		_ = paused.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = paused.Wait()
	}()
	lines := bufio.NewScanner(out)
	next := func() string {
		require.True(t, lines.Scan(), lines.Err())
		return lines.Text()
	}
	var status syscall.WaitStatus
	for err = syscall.EINTR; err == syscall.EINTR; {
		_, err = syscall.Wait4(paused.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	require.NoError(t, err)
	require.True(t, status.Stopped(), status)

	other := newLed()
	elector := pausable(other, newLock(t, server, "other"))
	stop := start(t, elector)
	<-other.began
	require.NoError(t, paused.Process.Signal(syscall.SIGCONT))
	assert.Contains(t, next(), "resumed: not leading: lease default/lease: ")
	assert.Equal(t, "ended: true", next())
	require.NoError(t, stop())
	<-other.ended
}
