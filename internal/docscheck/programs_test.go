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

// TestProgramsReportAnUnreachableServer builds and runs every whole program that a page shows. The
// program reports a kubeconfig that does not exist, and a server that does not listen.
func TestProgramsReportAnUnreachableServer(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := files(os.DirFS(root), ".md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks(string(text), "go") {
			if !strings.HasPrefix(block.text, "package ") {
				continue
			}
			shown[page]++
			program := build(t, root, fmt.Sprintf("%s:%d", page, block.number), block.text)
			expectOutput(t, program, "/no/such/file", "no configuration")
			expectOutput(t, program, unreachable(t), "connection refused")
		}
	}
	if shown["README.md"] == 0 {
		t.Error("README.md shows no program")
	}
}

// build returns the file of the compiled program.
func build(t *testing.T, root, name, program string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := strings.TrimSuffix(source, ".go")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: the program does not compile: %v\n%s", name, err, out)
	}
	return binary
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
