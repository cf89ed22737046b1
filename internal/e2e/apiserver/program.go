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

// program is one of the two that envtest runs. envtest keeps the process to itself, so it is given a launcher, which says who the process is
// and then becomes the program: that is how it can be killed, and how the watchdog finds it.
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

// writeProgram keeps other goroutines from starting processes meanwhile: they would inherit the open file for a moment, in which it cannot be
// run ("text file busy", golang.org/issue/22315).
func writeProgram(path, content string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(content), 0o700)
}

// quote makes one word of the shell of any text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// kill ends the process without giving it a chance to do anything about it.
func (p *program) kill() error {
	content, err := os.ReadFile(p.pidFile)
	if err != nil {
		return fmt.Errorf("find the process of %s: %w", p.name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("find the process of %s: %w", p.name, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	// Nobody may kill again by what is in it: another process may get the number.
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
