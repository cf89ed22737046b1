package manager

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

const dies = "KUBEREFLECTOR_TEST_DIE"

// dieOfSignals is what the process of the test below does: it does not end when it is
// told to.
func dieOfSignals() {
	if os.Getenv(dies) == "" {
		return
	}
	ctx, stop := SignalContext(context.Background())
	if os.Getenv(dies) == "manager" {
		if err := runInBackOff(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(dies) == "given back" {
		stop()
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-time.After(time.Minute) // it has ended long before
		os.Exit(1)
	}
	if os.Getenv(dies) == "at once" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-time.After(10 * time.Second) // it has ended long before
		os.Exit(1)
	}
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	select {}
}

// runInBackOff runs a manager whose only key is in back-off. It prints "ready" when that is so.
func runInBackOff(ctx context.Context) error {
	server, err := reflectortest.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.Create(configMap("ns", "a")); err != nil {
		return err
	}
	m := New(server.Config())
	configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
	if err != nil {
		return err
	}
	Reconcile(m, "painter", configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
		return reconcile.Result{}, errors.New("ouch")
	}, reconcile.WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)), reconcile.WithDrainTimeout(100*time.Millisecond),
		reconcile.WithErrorHandler(func(context.Context, error) { fmt.Println("ready") }))
	return m.Run(ctx)
}

func TestSignalledProgramExitsWithZeroAndNamesTheKeysThatAreLeft(t *testing.T) {
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), dies+"=manager")
	var logged bytes.Buffer
	process.Stderr = &logged
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the program prints: %s", &logged)
	require.NoError(t, process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, process.Wait(), "the program prints: %s", &logged)
	// Without WithLogger, warnings and errors go to standard error.
	assert.Regexp(t, `ERROR\treconcile failed\t.*"reconciler": "painter".*"key": "ns/a".*"attempt": 1.*"error": "ouch".*"nextTry"`, logged.String())
	assert.Regexp(t, `WARN\tmember ended with work left\t.*"member": "painter".*ns/a`, logged.String())
	assert.NotContains(t, logged.String(), "INFO")
}

func TestFirstSignalEndsTheContextAndTheSecondTheProcess(t *testing.T) {
	for sig, says := range map[os.Signal]string{os.Interrupt: "got signal: interrupt", syscall.SIGTERM: "got signal: terminated"} {
		if signal.Ignored(sig) { // as in a shell's command with "&", where the second one is ignored, too
			continue
		}
		process := exec.CommandContext(t.Context(), os.Args[0])
		process.Env = append(os.Environ(), dies+"=1")
		out, err := process.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, process.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		require.NoError(t, process.Process.Signal(sig))
		require.True(t, lines.Scan())
		assert.Equal(t, says, lines.Text())
		require.NoError(t, process.Process.Signal(sig))
		var died *exec.ExitError
		require.ErrorAs(t, process.Wait(), &died)
		status, ok := died.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		assert.True(t, status.Signaled())
		assert.Equal(t, sig, status.Signal())
	}
}

func TestSignalsAreGivenBack(t *testing.T) {
	ouch := errors.New("ouch")
	parent, end := context.WithCancelCause(t.Context())
	ctx, stop := SignalContext(parent)
	defer stop()
	end(ouch)
	<-ctx.Done()
	assert.Equal(t, ouch, context.Cause(ctx))

	ctx, stop = SignalContext(t.Context())
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

// On one processor, both signals are there before the goroutine that receives them runs.
func TestSecondSignalRightBehindTheFirstEndsTheProcess(t *testing.T) {
	if signal.Ignored(os.Interrupt) {
		t.Skip("run as a shell's command with &")
	}
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), dies+"=at once", "GOMAXPROCS=1")
	var died *exec.ExitError
	require.ErrorAs(t, process.Run(), &died)
	status, ok := died.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.True(t, status.Signaled(), "the second signal was swallowed")
}
