package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	rootModule    = "github.com/kubereflector/kubereflector"
	contribModule = rootModule + "/contrib/controllerruntime"
)

// operator is a public operator that takes the caches of contrib/controllerruntime by one line.
type operator struct {
	module, version string
	// parts are modules of its repository that its go.mod replaces by folders, which the module does not contain.
	parts []string
	// manager is the file that makes the manager.
	manager string
	program string
}

// operators are an operator of ConfigMaps and Secrets, and one of many kinds. Their versions compile with the versions of controller-runtime and
// client-go that contrib/controllerruntime requires.
var operators = []operator{{
	module: "github.com/cert-manager/trust-manager", version: "v0.25.0",
	manager: "cmd/trust-manager/app/app.go", program: "./cmd/trust-manager",
}, {
	module: "sigs.k8s.io/cluster-api", version: "v1.14.2", parts: []string{"sigs.k8s.io/cluster-api/api"},
	manager: "core/main.go", program: "./core",
}}

// TestOperatorsTakeNewCache builds public operators with the line of README.md. Their tests that need
// no cluster do not reach the caches.
func TestOperatorsTakeNewCache(t *testing.T) {
	skipUnderRace(t)
	for _, o := range operators {
		t.Run(path.Base(o.module), func(t *testing.T) {
			folder := o.copy(t)
			runGo(t, folder, "build", "-o", filepath.Join(t.TempDir(), "operator"), o.program)
		})
	}
}

// copy copies the source of an operator out of the module cache, adds the line, and requires the modules of this repository.
func (o operator) copy(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(runGo(t, folder, "mod", "download", "-json", o.module+"@"+o.version), &info))
	require.NoError(t, os.CopyFS(folder, os.DirFS(info.Dir)))

	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	edit := []string{
		"mod", "edit", "-require=" + rootModule + "@v0.0.0", "-replace=" + rootModule + "=" + root,
		"-require=" + contribModule + "@v0.0.0", "-replace=" + contribModule + "=" + filepath.Join(root, "contrib", "controllerruntime"),
	}
	for _, part := range o.parts {
		edit = append(edit, "-replace="+part+"="+part+"@"+o.version)
	}
	runGo(t, folder, edit...)

	file := filepath.Join(folder, o.manager)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	for place, line := range map[string]string{
		"\nimport (\n": fmt.Sprintf("\t%q\n", contribModule), "ctrl.Options{\n": "\tNewCache: controllerruntime.NewCache,\n",
	} {
		require.Equal(t, 1, strings.Count(string(source), place), "%q in %s", place, o.manager)
		source = []byte(strings.Replace(string(source), place, place+line, 1))
	}
	require.NoError(t, os.WriteFile(file, source, 0o644))
	return folder
}

// runGo runs the go command, which may raise the versions in go.mod of the folder.
func runGo(t *testing.T, folder string, arguments ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var failed strings.Builder
	command.Stderr = &failed
	output, err := command.Output()
	require.NoError(t, err, "go %s: %s%s", strings.Join(arguments, " "), failed.String(), output)
	return output
}
