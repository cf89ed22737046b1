package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExamplesWatchARealCluster runs two examples as their reader would, with a kubeconfig, until Ctrl-C.
func TestExamplesWatchARealCluster(t *testing.T) {
	server := shared.Server(t)
	clientset := newClientset(t, server)
	kubeconfig := server.Kubeconfig(t)
	create(t, clientset, "default", "seen-by-an-example")

	for _, tc := range []struct {
		name string
		line string
	}{
		{"eventqueues", "default/seen-by-an-example appeared with map[name:seen-by-an-example]"},
		{"pods", "(the late subscriber joins)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), tc.name)
			build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/"+tc.name)
			build.Dir = filepath.Join("..", "..")
			build.Env = append(os.Environ(), "GOWORK=off")
			output, err := build.CombinedOutput()
			require.NoError(t, err, string(output))

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			example := exec.CommandContext(ctx, program, "-kubeconfig", kubeconfig)
			example.Stderr = os.Stderr
			out, err := example.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, example.Start())
			var lines []string
			for scanner := bufio.NewScanner(out); scanner.Scan(); {
				lines = append(lines, scanner.Text())
				if scanner.Text() == tc.line {
					require.NoError(t, example.Process.Signal(os.Interrupt))
				}
			}
			assert.NoError(t, example.Wait(), "Ctrl-C is a good end")
			assert.Contains(t, lines, tc.line, strings.Join(lines, "\n"))
		})
	}
}
