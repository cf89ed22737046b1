//go:build newest

// The table is of the tests of client-go 0.37.

package clientgo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var testName = regexp.MustCompile(`\bTest\w+`)

// testsOf returns the names of the tests in some Go files.
func testsOf(t *testing.T, files []string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				found[f.Name.Name] = true
			}
		}
	}
	delete(found, "TestMain")
	require.NotEmpty(t, found)
	return found
}

func TestTableOfUpstreamTestsIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "README.md"))
	require.NoError(t, err)
	listed, covering := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, name := range testName.FindAllString(cells[1], -1) {
			assert.False(t, listed[name], "%s is listed twice", name)
			listed[name] = true
		}
		names := testName.FindAllString(cells[2], -1)
		assert.Equal(t, testName.MatchString(cells[1]), len(names) > 0, "no test covers %s", cells[1])
		for _, name := range names {
			covering[name] = true
		}
	}

	own, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	tests := testsOf(t, own)
	for name := range covering {
		assert.True(t, tests[name], "there is no test %s here", name)
	}

	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	require.NoError(t, err)
	var theirs []string
	for _, file := range []string{"shared_informer_test.go", "controller_test.go", "wait_test.go", "typed_test.go"} {
		theirs = append(theirs, filepath.Join(strings.TrimSpace(string(module)), "tools", "cache", file))
	}
	assert.Equal(t, testsOf(t, theirs), listed)
}
