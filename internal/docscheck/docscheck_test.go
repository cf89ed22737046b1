package docscheck

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var checks = map[string]func(fs.FS) ([]string, error){
	"Budgets": Budgets, "Colours": Colours, "Commands": Commands, "Examples": Examples, "Excerpts": Excerpts, "Figures": Figures, "Links": Links, "Mentions": Mentions, "Mermaid": Mermaid, "Names": Names, "Packages": Packages,
	"Outputs": Outputs, "Promises": Promises, "Tests": Tests,
}

// check runs a check on a repository of a few files, and compares what it says with what is wrong with them.
func check(t *testing.T, name string, contents map[string]string, want ...string) {
	t.Helper()
	repository := fstest.MapFS{}
	for name, content := range contents {
		repository[name] = &fstest.MapFile{Data: []byte(content)}
	}
	got, err := checks[name](repository)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s says\n\t%s\nand not\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestLinks(t *testing.T) {
	tests := map[string]struct {
		readme string
		wrong  []string
	}{
		"to files and folders":  {"[a](docs/a.md) [b](docs) [c](docs/) [d](./docs/a.md) [e](/docs/a.md)", nil},
		"to a file that is not": {"text\n[a](docs/b.md)", []string{`README.md:2: link to "docs/b.md": there is no such file`}},
		"in other case":         {"[a](docs/A.md)", []string{`README.md:1: link to "docs/A.md": there is no such file`}},
		"with spaces":           {"[a](<docs/with space.md>) [b](docs/with%20space.md)", nil},
		"with a title":          {`[a](docs/a.md "A title") [b](docs/b.md 'b')`, []string{`README.md:1: link to "docs/b.md": there is no such file`}},
		"two on a line": {"[a](x) and [b](y)", []string{
			`README.md:1: link to "x": there is no such file`, `README.md:1: link to "y": there is no such file`}},
		"images":                {"![a](docs/a.png)", []string{`README.md:1: link to "docs/a.png": there is no such file`}},
		"badges":                {"[![a](docs/a.png)](docs/a.md)", []string{`README.md:1: link to "docs/a.png": there is no such file`}},
		"in HTML":               {`<a href="docs/a.md"><img width=1 src="docs/a.png"></a>`, []string{`README.md:1: link to "docs/a.png": there is no such file`}},
		"defined apart":         {"[a][1]\n\n[1]: docs/b.md", []string{`README.md:3: link to "docs/b.md": there is no such file`}},
		"by a name that is not": {"[a][one] [b][two] `m[k][v]`\n\n[One]: docs/a.md", []string{`README.md:1: link by the name "two", which is not defined`}},
		"out of the repo":       {"[a](../other/README.md)", []string{`README.md:1: link to "../other/README.md": it leads out of the repository`}},
		"elsewhere":             {"[a](https://example.com/x) [b](mailto:a@example.com) [c](//example.com)", nil},
		"in code":               {"```go\nf[a](b)\n```\nand `f[a](b)`\n~~~~\n```\n[a](b)\n~~~~\n[a](c)", []string{`README.md:9: link to "c": there is no such file`}},
		"to headings":           {"[a](docs/a.md#the-one--only-store) [b](docs/a.md#twice-1) [c](#here)\n# Here\n[d](docs/a.md#tag)", nil},
		"to no heading": {"[a](docs/a.md#other) [b](#in-code)\n```\n# In code\n```", []string{
			`README.md:1: link to "docs/a.md#other": the file has no such heading`, `README.md:1: link to "#in-code": the file has no such heading`}},
		"to lines": {"[a](docs/a.go#L10)", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "Links", map[string]string{
				"README.md":          test.readme,
				"docs/a.md":          "# The *one* & only `store`\n## Twice\n## Twice\n<a id=\"tag\"></a>\n[up](../README.md)",
				"docs/a.go":          "package docs",
				"docs/with space.md": "",
			}, test.wrong...)
		})
	}
}

func TestLinksOfWhatIsNotOursAreNotFollowed(t *testing.T) {
	check(t, "Links", map[string]string{
		".git/a.md":         "[a](b)",
		"testdata/a.md":     "[a](b)",
		"x/vendor/y/a.md":   "[a](b)",
		".github/readme.md": "[a](b)",
	}, `.github/readme.md:1: link to "b": there is no such file`)
}

func TestPackages(t *testing.T) {
	check(t, "Packages", map[string]string{
		"good/doc.go":            "// Package good is good.\npackage good",
		"good/testdata/x.go":     "package x",
		"none/none.go":           "// Package none has its comment in the wrong place.\npackage none",
		"silent/doc.go":          "//go:build linux\n\npackage silent",
		"directive/doc.go":       "//go:generate true\npackage directive",
		"command/main.go":        "// Command command is good.\npackage main",
		"mute/main.go":           "package main",
		"onlytests/some_test.go": "package onlytests",
		"internal/deep/deep.go":  "package deep",
	},
		"none: the package has no doc.go",
		"silent/doc.go: it has no package comment",
		"directive/doc.go: it has no package comment",
		"mute: no file says in a package comment what the command does",
		"internal/deep: the package has no doc.go",
	)
}

func TestNames(t *testing.T) {
	tests := map[string]struct {
		source string
		wrong  []string
	}{
		"functions":                 {"// F is good.\nfunc F() {}\nfunc G() {}\nfunc g() {}", []string{"G:4"}},
		"a directive is no comment": {"//go:noinline\nfunc F() {}", []string{"F:3"}},
		"types":                     {"// T is good.\ntype T int\ntype U int\ntype u int", []string{"U:4"}},
		"a group of types":          {"// All are good.\ntype (\n// T is good.\nT int\nU int\n)", []string{"U:6"}},
		"methods": {"// T is good.\ntype T[A, B any] struct{}\n// M is good.\nfunc (T[A, B]) M() {}\nfunc (t *T[A, B]) N() {}\n" +
			"type hidden struct{}\nfunc (hidden) String() string { return \"\" }", []string{"N:6"}},
		"a method of one parameter":    {"// T is good.\ntype T[A any] struct{}\nfunc (t *T[A]) N() {}", []string{"N:4"}},
		"constants and variables":      {"// A is good.\nconst A = 1\nconst B, c = 1, 2\nvar D int // D is good.\nvar E int", []string{"B:4", "E:6"}},
		"a group with one comment":     {"// All are good.\nconst (\nA = iota\nB\n)", nil},
		"a group with some comments":   {"const (\nA = 1 // A is good.\n// B is good.\nB = 2\nC = 3\n)", []string{"C:6"}},
		"fields and interface methods": {"// T is good.\ntype T struct{ A int }\n// I is good.\ntype I interface{ M() }", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, wrong := range test.wrong {
				name, line, _ := strings.Cut(wrong, ":")
				want = append(want, "a/b/c.go:"+line+": "+name+" is exported and has no comment")
			}
			check(t, "Names", map[string]string{"a/b/c.go": "package b\n" + test.source}, want...)
		})
	}
}

func TestNamesThatNobodyCanImportNeedNoComment(t *testing.T) {
	const source = "\nfunc F() {}"
	check(t, "Names", map[string]string{
		"internal/a/a.go":     "package a" + source,
		"a/internal/b/b.go":   "package b" + source,
		"examples/a/a.go":     "package a" + source,
		"command/main.go":     "package main" + source,
		"a/a_test.go":         "package a" + source,
		"contrib/nested/a.go": "package nested" + source,
	}, "contrib/nested/a.go:2: F is exported and has no comment")
}

func TestGoFilesThatDoNotParseAreAnError(t *testing.T) {
	repository := fstest.MapFS{"a/a.go": &fstest.MapFile{Data: []byte("package")}}
	for _, name := range []string{"Packages", "Names"} {
		if _, err := checks[name](repository); err == nil || !strings.Contains(err.Error(), "a/a.go") {
			t.Errorf("%s returned the error %v", name, err)
		}
	}
}
