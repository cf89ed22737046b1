package docscheck

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPrograms type-checks every whole program that a page shows. With -commands,
// TestCommandsPrintWhatThePagesSay runs them, too.
func TestPrograms(t *testing.T) {
	repository, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, block := range repository.blocks {
		if isProgram(block) {
			shown[block.file]++
			goCommand(t, block, "vet", sourceOf(t, block))
		}
	}
	if shown["README.md"] == 0 {
		t.Error("README.md shows no program")
	}
}

// runProgram builds a program and runs it without a server. The program reports a kubeconfig that
// does not exist, and a server that does not listen.
func runProgram(t *testing.T, program block) {
	source := sourceOf(t, program)
	binary := strings.TrimSuffix(source, ".go")
	goCommand(t, program, "build", "-o", binary, source)
	expectOutput(t, binary, "/no/such/file", "no configuration")
	expectOutput(t, binary, unreachable(t), "connection refused")
}

func sourceOf(t *testing.T, program block) string {
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program.text), 0o600); err != nil {
		t.Fatal(err)
	}
	return source
}

func goCommand(t *testing.T, program block, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = root
	command.Env = append(os.Environ(), "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatal(program.wrong("go %s: %v\n%s", arguments[0], err, out))
	}
}

// unreachable returns a kubeconfig whose server refuses connections.
func unreachable(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "k"}}],
"clusters": [{"name": "k", "cluster": {"server": "https://%s"}}]}`, address)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// expectOutput runs a program until it prints a line that contains text.
func expectOutput(t *testing.T, program, kubeconfig, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=")
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it fails, or is killed
		writer.Close()
	}()
	found := false
	var printed strings.Builder
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if found = found || strings.Contains(lines.Text(), text); found {
			cancel() // the program may run until it is killed
		}
	}
	<-ended
	if !found {
		t.Errorf("%s with KUBECONFIG=%s does not print %q, but\n%s", program, kubeconfig, text, printed.String())
	}
}
