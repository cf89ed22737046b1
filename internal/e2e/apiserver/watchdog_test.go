package apiserver

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forgetfulVariable makes this test binary a process that starts a program and stops nothing; its value is the folder.
const forgetfulVariable = "KUBEREFLECTOR_TEST_FORGETFUL"

// forgetful does what newServer does, with a program that holds its standard output open for as long as it lives.
func forgetful() {
	die := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	folder := os.Getenv(forgetfulVariable)
	tail, err := exec.LookPath("tail")
	die(err)
	p, err := newProgram(folder, tail)
	die(err)
	_, err = startWatchdog(folder, p.pidFile, p.pidFile+" of what was never started")
	die(err)
	cmd := exec.Command(p.launcher, "-n", "+1", "-f", writeLine(folder, die))
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as envtest does
	die(cmd.Start())
	die(cmd.Wait())
}

// writeLine makes a file that tells whoever reads what tail writes that tail is there.
func writeLine(folder string, die func(error)) string {
	path := folder + "/line"
	die(os.WriteFile(path, []byte("ready\n"), 0o600))
	return path
}

func TestWhatIsLeftBehindByKilledTestsIsEnded(t *testing.T) {
	folder, err := os.MkdirTemp(t.TempDir(), "it's a folder ")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), forgetfulVariable+"="+folder)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd.Stdout = write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	output := bufio.NewReader(read)
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	require.NoError(t, cmd.Process.Kill())
	// The end of the output is the end of the last process that has it open: the program's.
	_, err = io.Copy(io.Discard, output)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) }, time.Minute, 10*time.Millisecond)
}

func TestAWatchdogThatIsStoppedLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	w, err := startWatchdog(folder, folder+"/none.pid")
	require.NoError(t, err)
	require.NoError(t, w.stop())
	require.NoDirExists(t, folder)
}

func TestALauncherBecomesItsProgram(t *testing.T) {
	folder, err := os.MkdirTemp(t.TempDir(), `"$(false)' `)
	require.NoError(t, err)
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	p, err := newProgram(folder, sh)
	require.NoError(t, err)
	output, err := exec.CommandContext(t.Context(), p.launcher, "-c", `echo "$$ $1"`, "name", "two  words").Output()
	require.NoError(t, err)
	pid, err := os.ReadFile(p.pidFile)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(pid))+" two  words\n", string(output))
	require.NoError(t, p.close())
}
