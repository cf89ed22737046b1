package apiserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// program is one of the two programs that envtest runs. envtest does not expose the process, so it
// runs a launcher script. The script writes its process id and then becomes the program. The test
// and the watchdog use the id to kill the program.
type program struct {
	name     string
	launcher string
	pidFile  string
	log      *os.File
}

func newProgram(folder, path string) (*program, error) {
	name := filepath.Base(path)
	p := &program{name: name, launcher: filepath.Join(folder, name), pidFile: filepath.Join(folder, name+".pid")}
	script := "#!/bin/sh\necho $$ >" + quote(p.pidFile) + "\nexec " + quote(path) + ` "$@"` + "\n"
	if err := writeProgram(p.launcher, script); err != nil {
		return nil, fmt.Errorf("write a launcher for %s: %w", name, err)
	}
	var err error
	if p.log, err = os.Create(filepath.Join(folder, name+".log")); err != nil {
		return nil, fmt.Errorf("make a log for %s: %w", name, err)
	}
	return p, nil
}

// writeProgram writes an executable file and blocks process starts of other goroutines meanwhile. A
// new process would inherit the open file, and the file could not run ("text file busy",
// golang.org/issue/22315).
func writeProgram(path, content string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(content), 0o700)
}

// quote quotes a text as one word of the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// signal sends a signal to the process.
func (p *program) signal(signal syscall.Signal) error {
	content, err := os.ReadFile(p.pidFile)
	if err != nil {
		return fmt.Errorf("find the process of %s: %w", p.name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("find the process of %s: %w", p.name, err)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, p.name, err)
	}
	return nil
}

// kill ends the process without a chance to clean up.
func (p *program) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	// Remove the file: the system may give the process id to another process.
	return os.Remove(p.pidFile)
}

// tail returns the end of the log, for error messages.
func (p *program) tail() string {
	const limit = 4096
	info, err := p.log.Stat()
	if err != nil {
		return fmt.Sprintf("(no log of %s: %v)", p.name, err)
	}
	text := make([]byte, min(info.Size(), limit))
	if _, err := p.log.ReadAt(text, info.Size()-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Sprintf("(no log of %s: %v)", p.name, err)
	}
	return fmt.Sprintf("The end of the log of %s:\n%s", p.name, text)
}

func (p *program) close() error { return p.log.Close() }
