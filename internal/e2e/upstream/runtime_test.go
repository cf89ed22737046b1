package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/internal/e2e/binaries"
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
