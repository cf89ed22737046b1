package upstream

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kubernetesControllers are packages of Kubernetes, with the number of their tests and subtests.
var kubernetesControllers = map[string]int{"deployment": 85, "replicaset": 49}

var factoryCall = regexp.MustCompile(`\binformers\.NewSharedInformerFactory\(`)

// TestKubernetesControllers runs the unit tests of two of Kubernetes' controllers with informers of this library. The tests write to indexers before
// informers start, and start informers of clients that answer nothing. The version of Kubernetes is the one of internal/controlplane.
func TestKubernetesControllers(t *testing.T) {
	skipUnderRace(t)
	folder := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "controlplane", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o644))
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	runGo(t, folder, "mod", "edit", "-module=controllers", "-require="+rootModule+"@v0.0.0", "-replace="+rootModule+"="+root)
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(runGo(t, folder, "list", "-m", "-json", "k8s.io/kubernetes"), &info))
	for name, want := range kubernetesControllers {
		copyController(t, filepath.Join(info.Dir, "pkg", "controller", name), filepath.Join(folder, name), name)
		output := runGo(t, folder, "test", "-vet=off", "-v", "./"+name)
		assert.Equal(t, want, len(passedTest.FindAll(output, -1)), "tests of %s that passed", name)
	}
}

// copyController copies a package and replaces the constructor of factories in its tests.
func copyController(t *testing.T, from, to, name string) {
	t.Helper()
	require.NoError(t, os.Mkdir(to, 0o755))
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	require.NoError(t, err)
	places := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.HasSuffix(file, "_test.go") {
			if found := len(factoryCall.FindAll(content, -1)); found > 0 {
				places += found
				content = append(factoryCall.ReplaceAll(content, []byte("newSharedInformerFactory(")), "\nvar _ informers.SharedInformerFactory // keeps the import\n"...)
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o644))
	}
	require.NotZero(t, places, "places in the tests of %s that make factories", name)
	require.NoError(t, os.WriteFile(filepath.Join(to, "shim_test.go"), shim(t, "controllers", "package "+name), 0o644))
}
