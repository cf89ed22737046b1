package manager

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const dies = "KUBEREFLECTOR_TEST_DIE"

// dieOfSignals is what the process of the test below does: it does not end when it is
// told to.
func dieOfSignals() {
	if os.Getenv(dies) == "" {
		return
	}
	ctx, stop := Signals(context.Background())
	if os.Getenv(dies) == "given back" {
		stop()
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-time.After(time.Minute) // it has ended long before
		os.Exit(1)
	}
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	select {}
}

func TestFirstSignalEndsTheContextAndTheSecondTheProcess(t *testing.T) {
	for signal, says := range map[os.Signal]string{os.Interrupt: "got signal: interrupt", syscall.SIGTERM: "got signal: terminated"} {
		process := exec.CommandContext(t.Context(), os.Args[0])
		process.Env = append(os.Environ(), dies+"=1")
		out, err := process.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, process.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		require.NoError(t, process.Process.Signal(signal))
		require.True(t, lines.Scan())
		assert.Equal(t, says, lines.Text())
		require.NoError(t, process.Process.Signal(signal))
		var died *exec.ExitError
		require.ErrorAs(t, process.Wait(), &died)
		status, ok := died.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		assert.True(t, status.Signaled())
		assert.Equal(t, signal, status.Signal())
	}
}

func TestSignalsAreGivenBack(t *testing.T) {
	ouch := errors.New("ouch")
	parent, end := context.WithCancelCause(t.Context())
	ctx, stop := Signals(parent)
	defer stop()
	end(ouch)
	<-ctx.Done()
	assert.Equal(t, ouch, context.Cause(ctx))

	ctx, stop = Signals(t.Context())
	stop()
	<-ctx.Done()
	var got *SignalError
	assert.NotErrorAs(t, context.Cause(ctx), &got)
}

func TestSignalsAreGivenBackAtOnce(t *testing.T) {
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), dies+"=given back")
	var died *exec.ExitError
	require.ErrorAs(t, process.Run(), &died)
	status, ok := died.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.True(t, status.Signaled(), "it was caught by somebody who had been told to stop")
}
