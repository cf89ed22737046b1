package apiserver

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// watchdogScript waits until its standard input ends. The system closes that input however the
// tests end. The script then kills the remaining programs and removes the remaining files.
const watchdogScript = `
while read -r _; do :; done
folder=$1
shift
for pid_file in "$@"; do
	if [ -f "$pid_file" ]; then kill -KILL "$(cat "$pid_file")"; fi
done
rm -rf -- "$folder"
`

// watchdog ends the programs after the tests panicked, timed out or were killed. The programs run
// in process groups of their own, so not even an interrupt from the terminal reaches them.
type watchdog struct {
	cmd  *exec.Cmd
	live io.Closer // our end of its standard input; no other process inherits it
}

func startWatchdog(folder string, pidFiles ...string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", watchdogScript, "watchdog", folder}, pidFiles...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the interrupt that ends the tests must not end it
	live, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog of a control plane: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog of a control plane: %w", err)
	}
	return &watchdog{cmd: cmd, live: live}, nil
}

// stop ends the watchdog, which first cleans up what is still there.
func (w *watchdog) stop() error {
	if err := w.live.Close(); err != nil {
		return fmt.Errorf("stop the watchdog of a control plane: %w", err)
	}
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the watchdog of a control plane: %w", err)
	}
	return nil
}
