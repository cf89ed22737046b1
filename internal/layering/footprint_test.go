package layering

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
