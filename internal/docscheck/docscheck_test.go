package docscheck

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

var checks = map[string]func(*Repository) []string{
	"Budgets": Budgets, "Commands": Commands, "Diagrams": Diagrams, "Examples": Examples, "Excerpts": Excerpts, "Figures": Figures, "Links": Links,
	"Mentions": Mentions, "Names": Names, "Outdated": Outdated, "Outputs": Outputs, "Packages": Packages, "Promises": Promises, "Tests": Tests,
}

// root is the folder of the repository. The tests of a package run in its folder, two below.
var root = filepath.Join("..", "..")

// ours reads this repository once.
var ours = sync.OnceValues(func() (*Repository, error) {
	if _, err := os.Stat(filepath.Join(root, "CONTRIBUTING.md")); err != nil {
		return nil, err
	}
	return Load(os.DirFS(root))
})

func TestRepository(t *testing.T) {
	repository, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, problem := range check(repository) {
				t.Error(problem)
			}
		})
	}
}

// load reads a repository of a few files.
func load(t *testing.T, contents map[string]string) *Repository {
	t.Helper()
	files := fstest.MapFS{}
	for name, content := range contents {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	repository, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return repository
}

// check runs a check on a repository of a few files, and compares the problems.
func check(t *testing.T, name string, contents map[string]string, want ...string) {
	t.Helper()
	got := checks[name](load(t, contents))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s says\n\t%s\nand not\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// pageTest is a page with the problems that a check finds.
type pageTest struct {
	page  string
	wrong []string
}

// each runs a check on the page of each test, beside other files.
func each(t *testing.T, name, page string, tests map[string]pageTest, others map[string]string) {
	for about, test := range tests {
		t.Run(about, func(t *testing.T) {
			contents := map[string]string{page: test.page}
			maps.Copy(contents, others)
			check(t, name, contents, test.wrong...)
		})
	}
}

func TestGoFilesThatDoNotParseAreAnError(t *testing.T) {
	_, err := Load(fstest.MapFS{"a/a.go": &fstest.MapFile{Data: []byte("package")}})
	if err == nil || !strings.Contains(err.Error(), "a/a.go") {
		t.Errorf("Load returned the error %v", err)
	}
}
