package upstream

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	runtimeModule  = "sigs.k8s.io/controller-runtime"
	clientGoModule = "k8s.io/client-go"
)

// build is a temporary folder with the changed sources and the programs that are made of them.
type build struct {
	folder string
	// overlay maps files that the packages of this module seem to have to those that they are.
	overlay map[string]string
}

// skipUnderRace skips a test that builds something. The build with the race detector takes minutes, and what runs is not this package's own code.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("SKIPPED: other projects' suites are not built with the race detector; without it: go test -C internal/e2e ./upstream/...")
	}
}

func newBuild(t *testing.T) *build {
	t.Helper()
	b := &build{folder: t.TempDir(), overlay: map[string]string{}}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		b.write(t, name, content)
	}
	return b
}

// write writes a file of the folder.
func (b *build) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(b.folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, content, 0o644))
	return file
}

// run runs the go command in internal/e2e, with the go.mod of the folder.
func (b *build) run(t *testing.T, arguments ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = ".."
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modfile="+filepath.Join(b.folder, "go.mod"))
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var failed strings.Builder
	command.Stderr = &failed
	output, err := command.Output()
	require.NoError(t, err, "go %s: %s%s", strings.Join(arguments, " "), failed.String(), output)
	return output
}

// source returns the folder of a module in the module cache, which may have to be downloaded.
func (b *build) source(t *testing.T, module string) string {
	t.Helper()
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(b.run(t, "mod", "download", "-json", module), &info))
	return info.Dir
}

// program builds the tests of a package and returns the program.
func (b *build) program(t *testing.T, name, pkg string) string {
	t.Helper()
	program := b.compile(t, name, pkg)
	want, err := os.ReadFile(filepath.Join("..", "go.sum"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(b.folder, "go.sum"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "the build needs sums that internal/e2e/go.sum does not have: run go mod tidy there")
	return program
}

// compile is program without a look at the sums, for versions that go.mod does not require.
func (b *build) compile(t *testing.T, name, pkg string, flags ...string) string {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": b.overlay})
	require.NoError(t, err)
	program := filepath.Join(b.folder, name+".test")
	// The packages import modules that go.mod does not name, as nothing else here does; go.sum has them.
	arguments := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-mod=mod", "-overlay", b.write(t, name+".json", overlay), "-o", program}
	b.run(t, slices.Concat(arguments, flags, []string{pkg})...)
	return program
}

// start runs a built program and returns its output, and its error if it failed. It ends before the test does.
func (b *build) start(t *testing.T, program, folder string, environment []string, arguments ...string) (string, error) {
	t.Helper()
	limit := 10 * time.Minute
	if deadline, ok := t.Deadline(); ok {
		limit = time.Until(deadline) * 9 / 10
	}
	command := exec.CommandContext(t.Context(), program, append(arguments, "-test.timeout="+limit.String())...)
	command.Dir = folder
	command.Env = append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// rewriting says how a file of tests becomes one of another package.
type rewriting struct {
	clause string            // instead of the package clause
	drop   map[string]string // functions that go, with the reason
	rename map[string]string // names that are replaced wherever they are used
	suffix string
}

type edit struct {
	from, to int
	text     string
}

// apply returns the changed file. Imports that only dropped functions used go as well. What stays keeps its line, unless a function before it goes.
func (r rewriting) apply(t *testing.T, name string, source []byte) []byte {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	at := func(p token.Pos) int { return files.Position(p).Offset }
	edits := []edit{{at(file.Package), at(file.Name.End()), r.clause}}
	used := map[string]bool{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
		case *ast.FuncDecl:
			if _, drop := r.drop[d.Name.Name]; drop && d.Recv == nil {
				edits = append(edits, edit{at(d.Pos()), at(d.End()), ""})
				continue
			}
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok {
					used[of.Name] = true
					return false
				}
			case *ast.Ident:
				if to, ok := r.rename[n.Name]; ok {
					edits = append(edits, edit{at(n.Pos()), at(n.End()), to})
				}
			}
			return true
		})
	}
	for _, imported := range file.Imports {
		if !used[importName(imported)] {
			edits = append(edits, edit{at(imported.Pos()), at(imported.End()), ""})
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	for _, e := range edits {
		source = slices.Replace(source, e.from, e.to, []byte(e.text)...)
	}
	return append(source, r.suffix...)
}

var majorVersion = regexp.MustCompile(`/v([2-9]|[1-9][0-9]+)$`)

func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(majorVersion.ReplaceAllString(spec.Path.Value[1:len(spec.Path.Value)-1], ""))
}
