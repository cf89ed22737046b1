package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// compareTools is the environment variable that runs TestComparison: a regular expression of the tools, such as
// FakeClient, or a dot for all. They take minutes, and the figures are those of the machine, so it is no check.
const compareTools = "KUBEREFLECTOR_COMPARE"

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// verdict is what a tool says about one version of an operator.
type verdict struct {
	Name, Tool, Error string
	Buggy             bool
	Seconds, CPU      float64
}

// TestComparison prints which bugs of the pairs of contrib/controllerruntime, and of JobSet, are found by a
// fake client, by a real API server and by simulate, in how many seconds, and with how many lines. A bug is
// found if the test fails for the version that has it, and passes for the one that has not. The tests are in
// testdata/compare.
func TestComparison(t *testing.T) {
	if os.Getenv(compareTools) == "" {
		t.Skipf("SKIPPED: it takes minutes; with it: %s=. go test -C internal/e2e -timeout 30m -v -run '^TestComparison$' ./upstream", compareTools)
	}
	const contrib = "github.com/kubereflector/kubereflector/contrib/controllerruntime/simulated"
	pairs, err := filepath.Abs("../../../contrib/controllerruntime/simulated")
	require.NoError(t, err)
	verdicts := runComparison(t, newBuild(t), "simulated", contrib, pairs, []string{"careful", "informed"})

	jobset, err := filepath.Abs("jobset")
	require.NoError(t, err)
	old := newBuild(t)
	old.run(t, "mod", "edit", "-require=sigs.k8s.io/jobset@v0.10.1", filepath.Join(old.folder, "go.mod"))
	for _, b := range []*build{old, newBuild(t)} {
		tags := ""
		if b == old {
			tags = "jobset010"
		}
		verdicts = append(verdicts, runComparison(t, b, "jobset", "./upstream/jobset", jobset, []string{"jobset"}, "-tags="+tags)...)
	}
	careful, informed, literal := map[string]int{}, map[string]int{}, map[string]int{}
	lengths(t, "testdata/compare/careful.go", careful, tests)
	lengths(t, "testdata/compare/jobset.go", careful, tests)
	lengths(t, "testdata/compare/informed.go", informed, tests)
	files, err := filepath.Glob(filepath.Join(pairs, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		lengths(t, file, literal, scenarios)
	}
	fmt.Print(table(verdicts, careful, informed, literal))
}

// runComparison builds a package with the tests of testdata/compare, and runs them.
func runComparison(t *testing.T, b *build, name, pkg, folder string, tests []string, flags ...string) []verdict {
	for _, file := range append(tests, "user", "fake", "server", "result") {
		source, err := os.ReadFile(filepath.Join("testdata", "compare", file+".go"))
		require.NoError(t, err)
		source = packageClause.ReplaceAll(source, []byte("package "+name))
		b.overlay[filepath.Join(folder, "compare_"+file+"_test.go")] = b.write(t, filepath.Join(name, file+".go"), source)
	}
	program := b.compile(t, "compare-"+name, pkg, flags...)
	output, err := b.start(t, program, folder, nil, "-test.run=^TestCompare.*"+os.Getenv(compareTools))
	assert.NoError(t, err, output)
	var verdicts []verdict
	for lines := bufio.NewScanner(strings.NewReader(output)); lines.Scan(); {
		if line, ok := strings.CutPrefix(lines.Text(), "RESULT "); ok {
			var v verdict
			require.NoError(t, json.Unmarshal([]byte(line), &v))
			verdicts = append(verdicts, v)
			t.Log(line)
		} else if strings.HasPrefix(lines.Text(), "STARTED ") {
			t.Log(lines.Text())
		}
	}
	return verdicts
}

// lengths returns how many lines the value of each entry has that visit names.
func lengths(t *testing.T, file string, into map[string]int, visit func(ast.Node) (string, ast.Node)) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if name, value := visit(n); value != nil {
			into[name] = files.Position(value.End()).Line - files.Position(value.Pos()).Line + 1
		}
		return true
	})
}

// tests are the functions of a map by their names.
func tests(n ast.Node) (string, ast.Node) {
	if entry, ok := n.(*ast.KeyValueExpr); ok {
		if name, ok := entry.Key.(*ast.BasicLit); ok {
			unquoted, _ := strconv.Unquote(name.Value)
			return unquoted, entry.Value
		}
	}
	return "", nil
}

// scenarios are the fields of that name, by the name of their pair.
func scenarios(n ast.Node) (name string, value ast.Node) {
	if pair, ok := n.(*ast.CompositeLit); ok {
		for _, field := range pair.Elts {
			if f, ok := field.(*ast.KeyValueExpr); ok {
				switch key, _ := f.Key.(*ast.Ident); {
				case key == nil:
				case key.Name == "name":
					if text, ok := f.Value.(*ast.BasicLit); ok {
						name, _ = strconv.Unquote(text.Value)
					}
				case key.Name == "scenario":
					value = f.Value
				}
			}
		}
	}
	return name, value
}

// table has a row for each bug. Its last column has the lines of the careful test, of the informed one and of
// the scenario.
func table(verdicts []verdict, careful, informed, literal map[string]int) string {
	type key struct {
		name, tool string
		buggy      bool
	}
	found := map[key]verdict{}
	var names []string
	for _, v := range verdicts {
		found[key{v.Name, v.Tool, v.Buggy}] = v
		if !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
	}
	var b strings.Builder
	b.WriteString("\n| bug | fake client | informed | API server | simulate | lines |\n|--|--|--|--|--|--|\n")
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |", name)
		for _, tool := range []string{"fake client", "informed", "API server", "simulate"} {
			buggy, ran := found[key{name, tool, true}]
			correct := found[key{name, tool, false}]
			switch {
			case !ran:
				b.WriteString(" – |")
			case buggy.Error == "":
				fmt.Fprintf(&b, " no, %.1f s, CPU %.1f s |", buggy.Seconds, buggy.CPU)
			case correct.Error != "":
				fmt.Fprintf(&b, " fails for both versions: %s |", correct.Error)
			default:
				fmt.Fprintf(&b, " yes, %.1f s, CPU %.1f s: %s |", buggy.Seconds, buggy.CPU, buggy.Error)
			}
		}
		fmt.Fprintf(&b, " %d, %d, %d |\n", careful[name], informed[name], literal[name])
	}
	return b.String()
}
