package layering

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

const module = "github.com/kubereflector/kubereflector/"

// allowed says which of our packages a package may reach, itself aside.
var allowed = map[string][]string{
	"store":            {},
	"eventqueue":       {"store"},
	"reflector":        {"store", "internal/wire", "internal/wire/decode"},
	"controller":       {"store", "eventqueue", "internal/failure"},
	"internal/failure": {"store", "eventqueue"},
	"internal/feed":    {"store", "eventqueue", "reflector", "internal/wire", "internal/wire/decode"},
	"informer/scoped":  {"store", "eventqueue", "reflector", "informer", "internal/wire", "internal/wire/decode"},
	"informer":         {"store", "eventqueue", "reflector", "internal/wire", "internal/wire/decode"},

	"informer/inspect": {"store", "eventqueue", "reflector", "informer", "internal/wire", "internal/wire/decode"},

	"internal/listwatch": {"store", "reflector", "internal/wire", "internal/wire/decode"},
	"informer/clientgo":  {"store", "eventqueue", "reflector", "informer", "internal/listwatch", "internal/wire", "internal/wire/decode"},

	"informer/clientgo/factory": {"store", "eventqueue", "reflector", "informer", "informer/clientgo", "internal/listwatch", "internal/wire", "internal/wire/decode"},

	"informer/clientgo/internal/resources": {"store", "eventqueue", "reflector", "informer", "informer/clientgo", "internal/listwatch", "internal/wire", "internal/wire/decode"},

	"internal/exactjson": {},
	"internal/masking":   {},

	"informer/fleet":   {"store", "eventqueue", "reflector", "informer", "internal/wire", "internal/wire/decode"},
	"reflector/mapper": {},
	"reflector/client": {"store", "internal/wire", "internal/wire/decode", "internal/wire/stream", "reflector/internal/protocol"},
	"reflector/record": {"store"},
	"controller/reconcile": {
		"store", "eventqueue", "reflector", "informer", "controller", "internal/failure", "internal/wire", "internal/wire/decode",
	},
	"controller/refer":    {"store", "eventqueue", "reflector", "informer", "informer/fleet", "controller", "controller/reconcile", "internal/failure", "internal/wire", "internal/wire/decode"},
	"controller/leader":   {"store", "eventqueue", "reflector", "informer", "controller", "internal/failure", "internal/wire", "internal/wire/decode"},
	"controller/shard":    {"store", "eventqueue", "reflector", "informer", "controller", "internal/failure", "internal/wire", "internal/wire/decode"},
	"controller/recorder": {"store", "eventqueue", "reflector", "informer", "internal/wire", "internal/wire/decode"},
	"controller/write": {
		"store", "internal/wire", "internal/wire/decode", "internal/wire/stream",
		"reflector/client", "reflector/internal/protocol",
	},
	"controller/manager": {
		"store", "eventqueue", "reflector", "reflector/mapper", "informer", "informer/ondemand", "internal/byreference", "controller", "internal/failure", "controller/reconcile", "controller/leader",
		"internal/wire", "internal/wire/decode",
	},
}

// anybody may reach these, which reach none of ours but each other.
var anybody = []string{"internal/memsize", "internal/cut", "internal/deepcopy", "internal/discreet", "internal/exactjson", "internal/klogging", "internal/lifecycle", "internal/masking", "internal/missing", "internal/ours", "internal/ownwrites", "internal/panicked", "internal/restguard", "internal/term", "internal/versions", "reflector/answer"}

func init() {
	for _, name := range []string{"informer/clientgo/dynamicinformer", "informer/clientgo/metadatainformer"} {
		below := "informer/clientgo/internal/resources"
		allowed[name] = append([]string{below}, allowed[below]...)
	}
	allowed["store/guard"] = []string{"store"}
	allowed["store/decorate"] = []string{"store"}
	allowed["store/await"] = []string{"store"}
	allowed["internal/byreference"] = []string{"store"}
	allowed["informer/ondemand"] = []string{"store", "internal/byreference"}
	allowed["reflector/internal/protocol"] = []string{"store"}
	allowed["internal/wire/stream"] = []string{"store", "internal/wire", "internal/wire/decode"}
	for name, below := range allowed {
		if name == "reflector" || slices.Contains(below, "reflector") {
			below = append(below, "store/decorate", "internal/wire/stream", "reflector/client", "reflector/internal/protocol")
			allowed[name] = below
		}
		// Reconcilers wait for their own writes.
		if name == "controller" || slices.Contains(below, "controller") {
			below = append(below, "store/await")
			allowed[name] = below
		}
		// Packages with informers have guards.
		if name == "informer" || slices.Contains(below, "informer") {
			allowed[name] = append(below, "store/guard", "internal/feed", "internal/failure")
		}
	}
}

// reaching are those that reach client-go's caches: to bridge to them, or because leader
// election does.
var reaching = []string{"informer/clientgo", "informer/clientgo/factory", "informer/clientgo/dynamicinformer", "informer/clientgo/metadatainformer", "informer/clientgo/internal/resources", "internal/listwatch", "controller/leader", "controller/manager"}

// goCommand returns the output of the go command, with the versions of go.mod.
func goCommand(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	require.NoError(t, err)
	return string(out)
}

// imports are those of each package of the module and of each that it needs. The go command takes seconds, so it
// runs once.
var imports = sync.OnceValues(func() (map[string][]string, error) {
	command := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...")
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	of := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		of[words[0]] = words[1:]
	}
	return of, err
})

// dependencies returns the packages, and all that they need.
func dependencies(t *testing.T, packages ...string) []string {
	t.Helper()
	sources(t)
	of, err := imports()
	require.NoError(t, err)
	all := sets.New[string]()
	for len(packages) > 0 {
		name := packages[0]
		packages = packages[1:]
		if all.Has(name) || name == "C" {
			continue
		}
		require.Contains(t, of, name)
		all.Insert(name)
		packages = append(packages, of[name]...)
	}
	return all.UnsortedList()
}

func TestPackagesReachOnlyThoseBelowThem(t *testing.T) {
	for name, below := range allowed {
		reached := 0
		for _, dependency := range dependencies(t, module+name) {
			ours, ok := strings.CutPrefix(dependency, module)
			if !ok || ours == name || slices.Contains(anybody, ours) {
				continue
			}
			reached++
			assert.Contains(t, below, ours, "%s must not import %s", name, ours)
		}
		assert.Equal(t, len(below) > 0, reached > 0, "%s: go list said nothing of use", name)
	}
}

func TestStoreAndEventQueuesDoNotReachClientGo(t *testing.T) {
	all := dependencies(t, module+"store", module+"eventqueue")
	assert.Contains(t, all, "k8s.io/apimachinery/pkg/types", "go list said nothing of use")
	for _, dependency := range all {
		assert.False(t, strings.HasPrefix(dependency, "k8s.io/client-go"), dependency)
	}
}

// The small types of the series show ideas without our machinery: their tests run both.
func TestSmallTypesOfTheSeriesImportNothingOfOurs(t *testing.T) {
	dependencies(t, module+"examples/series")
	of, err := imports()
	require.NoError(t, err)
	direct := of[module+"examples/series"]
	assert.Contains(t, direct, "k8s.io/apimachinery/pkg/watch", "go list said nothing of use")
	for _, path := range direct {
		domain, _, _ := strings.Cut(path, "/")
		allowed := !strings.Contains(domain, ".") || // the standard library
			strings.HasPrefix(path, "k8s.io/apimachinery/") || strings.HasPrefix(path, "k8s.io/client-go/")
		assert.True(t, allowed, path)
	}
}

// TestReconcilersUseOurQueues: the work queue of a reconciler is an event-queue collection. Only
// client-go itself uses its work queue.
func TestReconcilersUseOurQueues(t *testing.T) {
	dependencies(t, module+"controller/reconcile")
	of, err := imports()
	require.NoError(t, err)
	for name, imports := range of {
		if strings.HasPrefix(name, module) {
			assert.NotContains(t, imports, "k8s.io/client-go/util/workqueue", name)
		}
	}
}

func TestFewPackagesReachClientGosCaches(t *testing.T) {
	const caches = "k8s.io/client-go/tools/cache"
	var packages []string
	for name := range allowed {
		if !slices.Contains(reaching, name) {
			packages = append(packages, module+name)
		}
	}
	assert.NotContains(t, dependencies(t, packages...), caches)
	for _, name := range reaching {
		assert.Contains(t, dependencies(t, module+name), caches)
	}
}

// functions returns the names of those that are compiled into a package, also those of other
// packages that it needs for a type of its own.
func functions(t *testing.T, name string) []string {
	t.Helper()
	sources(t)
	file := goCommand(t, "list", "-export", "-f", "{{.Export}}", module+name)
	var names []string
	for line := range strings.Lines(goCommand(t, "tool", "nm", "-type", strings.TrimSpace(file))) {
		if _, name, ok := strings.Cut(line, " T "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// What does not depend on the type of the objects is compiled once, and not in each package that
// has an informer: that is what their users wait for whenever they build.
func TestInformersBringLittleToCompile(t *testing.T) {
	all := strings.Join(functions(t, "examples/pods"), "\n")
	require.Contains(t, all, module+"store.(*Cache[")
	assert.NotContains(t, all, "btree", "the trees of a cache")
	assert.NotContains(t, all, "slices.pdqsort", "what sorts keys, or anything else that is not of the objects' type")
}

// A constraint that is more than methods, such as comparable, makes Go compile everything for each
// type.
func TestTypesOfObjectsShareMachineCode(t *testing.T) {
	all := strings.Join(functions(t, "examples/pods"), "\n")
	for _, generic := range []string{"reflector.(*run[", "store.(*Cache[", "eventqueue.(*Collection[", "informer.(*Informer["} {
		assert.Contains(t, all, module+generic+"go.shape.*uint8]).")
	}
	assert.NotContains(t, all, "go.shape.*k8s.io")
}

// sources opens all folders of the module, so that go test knows what a result depends on, and
// does not take an old one from its cache when another package has changed.
func sources(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	}))
}
