package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/e2e/binaries"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The specs of controller-runtime's pkg/cache. All pass. The digest is that of their names, so that a spec which is replaced by another one shows.
const (
	runtimeSpecs  = 276
	runtimeDigest = "180ac5257151f5ad"
)

// racingSpec matches specs that start an informer and expect that it has not synced a moment later. On a slow machine it can have, whichever informer it
// is. If no other specs fail, these run again by themselves.
var racingSpec = regexp.MustCompile(`(should return an error when context is cancelled|should allow .*informer.* to be cancelled)$`)

const failed = "failed It: "

// TestControllerRuntimeCacheSpecs runs controller-runtime's own specs of its cache on informers of this library and a real kube-apiserver: once with the
// cache of contrib/controllerruntime, and once with its informers in a cache of controller-runtime.
func TestControllerRuntimeCacheSpecs(t *testing.T) {
	skipUnderRace(t)
	found, err := binaries.Find(t.Context())
	require.NoError(t, err)
	b := newBuild(t)
	copied := b.controllerRuntime(t)
	program := b.program(t, "runtime", runtimeModule+"/pkg/cache")
	for _, constructor := range []string{"NewCache", "NewInformer"} {
		t.Run(constructor, func(t *testing.T) {
			report := filepath.Join(b.folder, constructor+".json")
			run := func(arguments ...string) (passed, others []string, output string) {
				output, err := b.start(t, program, filepath.Join(copied, "pkg", "cache"), []string{
					"KUBEREFLECTOR_CONSTRUCTOR=" + constructor,
					"KUBEBUILDER_ASSETS=" + filepath.Dir(found.APIServer),
					"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m",
					"KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=1m",
				}, append(arguments, "-ginkgo.json-report="+report, "-ginkgo.no-color", "-ginkgo.timeout=5m")...) // that time-out stops the server, go test's does not
				passed, others = specs(t, report)
				if err != nil && len(others) == 0 {
					others = []string{err.Error()}
				}
				return passed, others, output
			}
			checkSpecs(t, run)
		})
	}
}

// checkSpecs fails unless all specs pass.
func checkSpecs(t *testing.T, run func(arguments ...string) (passed, others []string, output string)) {
	t.Helper()
	passed, others, output := run()
	for range 3 {
		if len(others) == 0 || slices.ContainsFunc(others, func(name string) bool { return !racingSpec.MatchString(name) }) {
			break
		}
		t.Logf("again: %q", others)
		again, failing, out := run("-ginkgo.focus=" + racingSpec.String())
		output = out
		// All racing specs run again, also those that have passed: they need to pass once.
		missing := slices.Concat(others, failing)
		others = nil
		for _, name := range missing {
			spec := strings.TrimPrefix(name, failed)
			switch {
			case slices.Contains(passed, spec):
			case slices.Contains(again, spec):
				passed = append(passed, spec)
			default:
				others = append(others, name)
			}
		}
	}
	assert.Empty(t, others, "specs that did not pass: %s", output)
	slices.Sort(passed)
	assert.Len(t, passed, runtimeSpecs)
	digest := sha256.Sum256([]byte(strings.Join(passed, "\n")))
	if got := hex.EncodeToString(digest[:8]); got != runtimeDigest {
		t.Errorf("the specs are not those of controller-runtime v0.25.2: their digest is %s, not %s; their names:\n%s", got, runtimeDigest, strings.Join(passed, "\n"))
	}
}

// controllerRuntime copies controller-runtime, replaces the constructor of caches in its specs, and has the build use the copy.
func (b *build) controllerRuntime(t *testing.T) string {
	t.Helper()
	source := b.source(t, runtimeModule)
	copied := filepath.Join(b.folder, "controller-runtime")
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		require.NoError(t, err)
		b.write(t, filepath.Join("controller-runtime", name), content)
	}
	require.NoError(t, os.CopyFS(filepath.Join(copied, "pkg"), os.DirFS(filepath.Join(source, "pkg"))))

	places := 0
	for _, name := range []string{"cache_test.go", "informer_cache_test.go"} {
		file := filepath.Join(copied, "pkg", "cache", name)
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		places += len(constructors.FindAll(content, -1))
		require.NoError(t, os.WriteFile(file, constructors.ReplaceAll(content, []byte("newCache$1")), 0o644))
	}
	require.Equal(t, 22, places, "places in the specs that make caches")
	b.write(t, filepath.Join("controller-runtime", "pkg", "cache", "constructor_test.go"), shim(t, "constructor", "package cache_test"))
	b.run(t, "mod", "edit", "-replace", runtimeModule+"="+copied, filepath.Join(b.folder, "go.mod"))
	return copied
}

// constructors matches the constructor of caches, called or passed.
var constructors = regexp.MustCompile(`\bcache\.New([(,])`)

// specs reads a report of ginkgo and returns the names of the specs that passed, and what became of the others.
func specs(t *testing.T, file string) (passed, others []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
		}
	}
	require.NoError(t, json.Unmarshal(content, &suites))
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			switch {
			case spec.State == "skipped": // another one was asked for
			case spec.State != "passed":
				others = append(others, fmt.Sprintf("%s %s: %s", spec.State, spec.LeafNodeType, name))
			case spec.LeafNodeType == "It":
				passed = append(passed, name)
			}
		}
	}
	return passed, others
}

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
