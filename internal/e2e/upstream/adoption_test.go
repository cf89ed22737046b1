package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/e2e/binaries"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const (
	// adoptionRecord has the programs that were tried, how each is changed, and what its own tests said.
	adoptionRecord = "testdata/adoption.json"
	// adoptionPage shows the record as a table.
	adoptionPage = "../../../docs/reference/comparison.md"
	// adoptionPrograms is the variable that names the programs to try, separated by commas, or all.
	adoptionPrograms = "KUBEREFLECTOR_ADOPTION"
)

// program is a row of the record.
type program struct {
	Name    string `json:"name"`
	What    string `json:"what"`
	Module  string `json:"module"`
	Version string `json:"version"`
	// Go is the toolchain of the program, if go.mod asks for a newer one than ours.
	Go string `json:"go,omitempty"`
	// Parts are arguments of go mod edit for modules that go.mod names and nobody can fetch: folders, which the program's module does not contain, and
	// what the module proxy does not serve.
	Parts []string `json:"parts,omitempty"`
	// Envtest says that the tests need a kube-apiserver.
	Envtest  bool     `json:"envtest,omitempty"`
	Packages []string `json:"packages"`
	// Skip is a pattern of tests that do not pass every time with any informers, or at all. Because says why.
	Skip    string `json:"skip,omitempty"`
	Because string `json:"because,omitempty"`

	// Raise are arguments of go mod edit, and Mends changed lines, with which the program compiles at the versions that our modules require.
	Raise []string `json:"raise,omitempty"`
	Mends []line   `json:"mends,omitempty"`
	Took  string   `json:"took,omitempty"`

	// Imports is the number of imports of factories, all of which are replaced.
	Imports int    `json:"imports,omitempty"`
	Lines   []line `json:"lines,omitempty"`
	Change  string `json:"change"`

	// Published are the versions of the published program. Its modules rise to those that ours need; then its tests run before and after the change.
	Published versions `json:"published"`
	Tested    versions `json:"tested"`
	Stock     outcome  `json:"stock"`
	Ours      outcome  `json:"ours"`
	// Reached says that the tests ran reflectors of this library, which informers contain. Otherwise they made some, and used stores or handlers.
	Reached bool   `json:"reached"`
	Differs string `json:"differs"`
}

// line is a changed text of a file. The changed file imports our package of the name before the dot, if Import is set.
type line struct {
	File   string `json:"file"`
	Old    string `json:"old"`
	New    string `json:"new"`
	Import string `json:"import,omitempty"`
}

// versions are those of client-go, and of controller-runtime if the program has it.
type versions struct {
	ClientGo string `json:"clientGo"`
	Runtime  string `json:"controllerRuntime,omitempty"`
}

// outcome is what tests, subtests and specs of Ginkgo did.
type outcome struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`

	failures []string
	made     bool
	reached  bool
}

func readAdoptionRecord(t *testing.T) []program {
	t.Helper()
	content, err := os.ReadFile(adoptionRecord)
	require.NoError(t, err)
	var record []program
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&record))
	return record
}

// TestAdoption changes public programs to use this library, and runs their own tests before and after. Its result is the record, which it compares with
// what happens.
func TestAdoption(t *testing.T) {
	named := os.Getenv(adoptionPrograms)
	if named == "" {
		t.Skip("SKIPPED: " + adoptionPrograms + "=all tries all programs of " + adoptionRecord + ", which takes hours; a name tries one of them")
	}
	record := readAdoptionRecord(t)
	for name := range strings.SplitSeq(named, ",") {
		require.True(t, name == "all" || slices.ContainsFunc(record, func(p program) bool { return p.Name == name }), "%s is not in %s", name, adoptionRecord)
	}
	for _, p := range record {
		if named != "all" && !slices.Contains(strings.Split(named, ","), p.Name) {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			got := p
			got.try(t)
			assert.Equal(t, show(t, p), show(t, got), "failed before the change: %q", got.Stock.failures)
			t.Logf("failed only after the change: %q", slices.DeleteFunc(got.Ours.failures, func(name string) bool { return slices.Contains(got.Stock.failures, name) }))
		})
	}
}

func show(t *testing.T, value program) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	require.NoError(t, err)
	return string(text)
}

// try runs the tests before and after the change, and keeps what they did.
func (p *program) try(t *testing.T) {
	t.Helper()
	folder := p.copy(t)
	p.Published = p.versions(t, folder)

	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	edit := []string{"-require=" + rootModule + "@v0.0.0", "-replace=" + rootModule + "=" + root}
	if slices.ContainsFunc(p.Lines, func(l line) bool { return l.Import == contribModule }) {
		edit = append(edit, "-require="+contribModule+"@v0.0.0", "-replace="+contribModule+"="+filepath.Join(root, "contrib", "controllerruntime"))
	}
	p.run(t, folder, slices.Concat([]string{"mod", "edit"}, edit, p.raise(t, folder), p.Raise)...)
	for _, l := range p.Mends {
		l.apply(t, folder)
	}
	p.Stock = p.test(t, folder)
	p.Imports = replaceAllFactories(t, folder, p.Imports > 0)
	for _, l := range p.Lines {
		l.apply(t, folder)
		if !strings.HasSuffix(l.File, "_test.go") { // the tests may not contain it
			p.run(t, folder, "build", "-o="+os.DevNull, "./"+path.Dir(l.File)) // a program's folder may be that of its name
		}
	}
	p.Ours = p.test(t, folder)
	require.True(t, p.Ours.made, "the tests make no reflector of this library")
	p.Tested = p.versions(t, folder)
	p.Reached = p.Ours.reached
}

// raise returns the arguments of go mod edit that raise the modules of a program to the versions of internal/e2e. Programs then share what is compiled.
func (p *program) raise(t *testing.T, folder string) (edit []string) {
	t.Helper()
	requires := func(file string) map[string]string {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		parsed, err := modfile.Parse(file, content, nil)
		require.NoError(t, err)
		versions := map[string]string{}
		for _, of := range parsed.Require {
			versions[of.Mod.Path] = of.Mod.Version
		}
		return versions
	}
	theirs := requires(filepath.Join(folder, "go.mod"))
	for name, version := range requires(filepath.Join("..", "go.mod")) {
		if has, ok := theirs[name]; ok && semver.Compare(has, version) < 0 {
			edit = append(edit, "-require="+name+"@"+version)
		}
	}
	return edit
}

// copy copies the program's source out of the module cache.
func (p program) copy(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(p.run(t, folder, "mod", "download", "-json", p.Module+"@"+p.Version), &info))
	require.NoError(t, os.CopyFS(folder, os.DirFS(info.Dir)))
	if len(p.Parts) > 0 {
		p.run(t, folder, append([]string{"mod", "edit"}, p.Parts...)...)
	}
	return folder
}

func (p program) run(t *testing.T, folder string, arguments ...string) []byte {
	t.Helper()
	output, errors, err := p.command(t, folder, arguments...)
	require.NoError(t, err, "go %s: %s%s", strings.Join(arguments, " "), errors, output)
	return output
}

// command runs the go command, which may raise the versions in go.mod of the folder.
func (p program) command(t *testing.T, folder string, arguments ...string) (output []byte, errors string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if p.Go != "" {
		command.Env = append(command.Env, "GOTOOLCHAIN="+p.Go)
	}
	if p.Envtest {
		found, err := binaries.Find(t.Context())
		require.NoError(t, err)
		command.Env = append(command.Env, "KUBEBUILDER_ASSETS="+filepath.Dir(found.APIServer))
	}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err = command.Output()
	return output, stderr.String(), err
}

func (p program) versions(t *testing.T, folder string) versions {
	t.Helper()
	var of versions
	const format = "-f={{if .Version}}{{.Path}}@{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"
	for _, module := range strings.Fields(string(p.run(t, folder, "list", "-m", "-e", format, clientGoModule, runtimeModule))) {
		switch name, version, _ := strings.Cut(module, "@"); name {
		case clientGoModule:
			of.ClientGo = version
		case runtimeModule:
			of.Runtime = version
		}
	}
	return of
}

// test runs the tests, whose failures are a result. A package that does not compile is not.
func (p program) test(t *testing.T, folder string) outcome {
	t.Helper()
	profile := filepath.Join(folder, "adoption.cover")
	arguments := []string{"test", "-vet=off", "-json", "-count=1", "-timeout=20m"}
	if p.Skip != "" {
		arguments = append(arguments, "-skip="+p.Skip)
	}
	used := strings.Contains(string(p.run(t, folder, append([]string{"list", "-test", "-deps", "-f={{.ImportPath}}"}, p.Packages...)...)), rootModule+"/reflector\n")
	if used {
		arguments = append(arguments, "-coverpkg="+rootModule+"/reflector", "-coverprofile="+profile)
	}
	output, stderr, err := p.command(t, folder, append(arguments, p.Packages...)...)
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v: %s", err, stderr)

	var result outcome
	var printed, building strings.Builder
	compiled := true
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test, Output, FailedBuild string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event), "%s", lines.Bytes())
		switch {
		case event.Action == "build-output":
			building.WriteString(event.Output)
		case event.FailedBuild != "":
			compiled = false
		case event.Action == "pass" && event.Test != "":
			result.Passed++
		case event.Action == "fail" && event.Test != "":
			result.Failed++
			result.failures = append(result.failures, event.Test)
		case event.Action == "fail":
			result.failures = append(result.failures, event.Package)
		case event.Action == "output":
			printed.WriteString(event.Output)
			plain := colours.ReplaceAllString(event.Output, "")
			if specs := ginkgoSummary.FindStringSubmatch(plain); specs != nil {
				result.Passed += number(t, specs[1])
				result.Failed += number(t, specs[2])
			}
			if spec := ginkgoFailure.FindStringSubmatch(plain); spec != nil {
				result.failures = append(result.failures, spec[1])
			}
		}
	}
	require.NoError(t, lines.Err())
	require.True(t, compiled && (len(result.failures) > 0) == (err != nil), "the tests do not run: %v: %s%s", err, stderr, building.String())
	if len(result.failures) > 0 {
		t.Logf("%s", printed.String())
	}
	if used {
		covered, err := os.ReadFile(profile)
		require.NoError(t, err)
		result.made = ran(t, covered, "New")
		result.reached = ran(t, covered, "Run")
	}
	return result
}

// The lines of Ginkgo that count specs and name those that failed. Go counts a suite as one test.
var (
	colours       = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	ginkgoSummary = regexp.MustCompile(`-- (\d+) Passed \| (\d+) Failed`)
	ginkgoFailure = regexp.MustCompile(`^  \[(?:FAIL|PANICKED!|TIMEDOUT)\] (.+)\n`)
)

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// ran says whether a function of a reflector ran, by a profile.
func ran(t *testing.T, profile []byte, function string) bool {
	t.Helper()
	const file = "reflector.go"
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join("..", "..", "..", "reflector", file), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	at := slices.IndexFunc(parsed.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Name.Name == function
	})
	require.GreaterOrEqual(t, at, 0, "%s has no function %s", file, function)
	from, to := files.Position(parsed.Decls[at].Pos()).Line, files.Position(parsed.Decls[at].End()).Line

	statement := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(rootModule+"/reflector/"+file) + `:(\d+)\.\S+ \d+ [1-9]\d*$`)
	for _, found := range statement.FindAllStringSubmatch(string(profile), -1) {
		if line := number(t, found[1]); from <= line && line <= to {
			return true
		}
	}
	return false
}

// apply changes the only place of a text in a file, and adds the import.
func (l line) apply(t *testing.T, folder string) {
	t.Helper()
	file := filepath.Join(folder, filepath.FromSlash(l.File))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(content)
	require.Equal(t, 1, strings.Count(text, l.Old), "%q in %s", l.Old, l.File)
	text = strings.Replace(text, l.Old, l.New, 1)
	if l.Import != "" && !strings.Contains(text, `"`+l.Import+`"`) {
		text = strings.Replace(text, "\nimport (\n", fmt.Sprintf("\nimport (\n\t%q\n", l.Import), 1)
	}
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// replaceAllFactories replaces the imports of a module if they are to change, and returns how many.
func replaceAllFactories(t *testing.T, folder string, change bool) int {
	t.Helper()
	if !change {
		return 0
	}
	places := 0
	require.NoError(t, filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text, found := replaceFactories(string(content))
		if found == 0 {
			return nil
		}
		places += found
		return os.WriteFile(file, []byte(text), 0o644)
	}))
	return places
}

// TestAdoptionPage compares the table of the page, and the list below it, with the record.
func TestAdoptionPage(t *testing.T) {
	page, err := os.ReadFile(adoptionPage)
	require.NoError(t, err)
	want := adoptionTable(readAdoptionRecord(t))
	if !strings.Contains(string(page), want) {
		t.Errorf("%s does not have the table of %s; put this there:\n%s", adoptionPage, adoptionRecord, want)
	}
}

// adoptionTable returns the table, and a list of what does not fit into it.
func adoptionTable(record []program) string {
	var table, list strings.Builder
	table.WriteString("| program | the change | client-go (and controller-runtime) | passed, stock | passed, ours |\n|--|--|--|--|--|\n")
	for _, p := range record {
		ours := p.Ours.String()
		if !p.Reached {
			ours += "; they make informers and run none"
		}
		notes := []string{p.Differs, p.Took, p.Because}
		notes = slices.DeleteFunc(notes, func(note string) bool { return note == "" })
		if len(notes) > 0 {
			fmt.Fprintf(&list, "- **%s.** %s.\n", p.Name, strings.Join(notes, ". "))
		}
		at := p.Published.String()
		if p.Tested != p.Published {
			at += ", raised to " + p.Tested.String()
		}
		fmt.Fprintf(&table, "| %s %s, %s | %s | %s | %s | %s |\n", p.Name, p.Version, p.What, p.Change, at, p.Stock, ours)
	}
	return table.String() + "\nWhat differs, and what raising the modules needed:\n\n" + list.String()
}

func (v versions) String() string {
	if v.Runtime == "" {
		return strings.TrimPrefix(v.ClientGo, "v")
	}
	return strings.TrimPrefix(v.ClientGo, "v") + " and " + strings.TrimPrefix(v.Runtime, "v")
}

func (o outcome) String() string {
	if o.Failed == 0 {
		return strconv.Itoa(o.Passed)
	}
	return fmt.Sprintf("%d, %d failed", o.Passed, o.Failed)
}
