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
	"Attached": Attached, "Budgets": Budgets, "Charts": Charts, "Commands": Commands, "Diagrams": Diagrams, "Examples": Examples, "Excerpts": Excerpts, "Figures": Figures, "Links": Links,
	"Mentions": Mentions, "Names": Names, "Outdated": Outdated, "Outputs": Outputs, "Packages": Packages, "Promises": Promises, "Results": Results, "Tests": Tests,
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

func TestTests(t *testing.T) {
	tests := map[string]pageTest{
		"what there is":           {"`TestA` `FuzzB` `ExampleA` [`TestA`](../a/a_test.go)", nil},
		"cases":                   {"`TestA/one case` [`TestA/of the suite`](../a/a_test.go)", nil},
		"no such case":            {"`TestA/another`", []string{"docs/page.md:1: there is no test TestA/another"}},
		"methods and other files": {"`TestB` `TestC`", []string{"docs/page.md:1: there is no test TestB", "docs/page.md:1: there is no test TestC"}},
		"in another file":         {"[`TestA`](../b/b_test.go)", []string{"docs/page.md:1: TestA is not in ../b/b_test.go"}},
		"titles":                  {"[yes](../a/a_test.go \"TestA\") [yes](../a/a_test.go \"TestC\")", []string{"docs/page.md:1: TestC is not in ../a/a_test.go"}},
		"not in code":             {"TestD", nil},
	}
	each(t, "Tests", "docs/page.md", tests, map[string]string{
		"a/a_test.go": "package a\n\nfunc TestA(t *testing.T) { t.Run(\"one case\", nil) }\n\nfunc ExampleA() {}\n\nfunc (x) TestB() {}\n",
		"a/run.go":    "package a\n\nvar cases = []string{\"of the suite\"}\n\nfunc TestC() {}\n",
		"b/b_test.go": "package b\n\nfunc FuzzB(f *testing.F) {}\n",
	})
}

func TestPromises(t *testing.T) {
	const page = "## a\n| | what | test |\n|--|--|--|\n| a-A1 | first | `TestA` |\n| a-A2 | second | none |\n| a-A1 | first | `TestA` |\n"
	check(t, "Promises", map[string]string{
		"a/doc.go":     "// Package a keeps promises.\n//\n//   - a-A1: First.\n//   - a-A2: Second, unlike\n//     a-A1.\n//   - a-A3: Third.\npackage a",
		"a/c/doc.go":   "// Package c has an a-A1, too.\n//\n//   - c-C1: First.\n//   - a-A3: Again.\npackage c",
		"a/a_test.go":  "package a\n\n// See a-A3 and b-A9.\nfunc TestA() {} // a-A4",
		"docs/page.md": "See a-A1.\n\na-A5 and `c-C2`",
		guarantees:     page + "## `a/c`\n| c-C1 | first | `TestA` |\n| a-A6 | second | `TestA` |\n",
	},
		"a/doc.go:6: a/c/doc.go promises a-A3, too",
		"a/a_test.go:4: no doc.go promises a-A4",
		"docs/page.md:3: no doc.go promises a-A5",
		guarantees+":5: no test is named for a-A2",
		guarantees+":6: no a/doc.go promises a-A1, or there are two rows for it",
		guarantees+":9: no a/c/doc.go promises a-A6, or there are two rows for it",
		"a/c/doc.go promises a-A3, which has no row in "+guarantees,
	)
}

func TestOutdated(t *testing.T) {
	tests := map[string]pageTest{
		"a package":           {"Use\n`a/b`, which is\nnot yet complete.", []string{`page.md:1: it says "not yet", but a/b exists`}},
		"a link":              {"One.\n[The cache](a/b) will be fast", []string{`page.md:2: it says "will be", but a/b exists`}},
		"a name":              {"`b.New` and `Old` are planned.", []string{`page.md:1: it says "are planned", but b.New exists`}},
		"a cell":              {"| `New` | not yet |\n| [`New`](x) is planned |", []string{`page.md:2: it says "is planned", but New exists`}},
		"what does not exist": {"`a/c`, `b.Old` and `Old` are not yet there.", nil},
		"another sentence":    {"`b.New` makes a cache. A later one will be fast.", nil},
		"another paragraph":   {"`b.New`\n\nwill be fast", nil},
		"another list entry":  {"- `b.New`\n- will be fast", nil},
	}
	each(t, "Outdated", "page.md", tests, map[string]string{"a/b/b.go": "package b\n\nfunc New() {}\n"})
	check(t, "Outdated", map[string]string{
		"a/doc.go":    "// Package a makes things.\n//\n// For now, [New] is not yet there. Later [Old] will be, too.\npackage a",
		"a/a.go":      "package a\n\nfunc New() {\n\tprintln() // package a will be\n}\n",
		"a/a_test.go": "package a\n\nvar s = `New will be`\n",
	},
		`a/doc.go:3: it says "not yet", but New exists`,
		`a/a.go:4: it says "will be", but a exists`,
	)
}

func TestDiagrams(t *testing.T) {
	const colour = "classDef yours fill:#ffd9b3,stroke:#b36b00,color:#000\n"
	tests := map[string]pageTest{
		"a flowchart": {"flowchart LR\n%% a remark\nsubgraph in [\"inside\"]\ndirection TB\na[\"A (x)\"]:::yours --> b(\"B\") -->|\"a label\"| c{\"C\"}\nend\nc -.-> d[(\"D\")]\n" +
			"    " + colour + "class b,c yours", nil},
		"a sequence": {"sequenceDiagram\nautonumber\nbox rgb(255,217,179) yours\nparticipant a as A\nactor x\nend\na->>+x: ask\nx-->>-a: answer\nactivate a\n" +
			"Note over a,x: text\nloop often\nalt one\na-)x: z\nelse other\nx->>a: y\nend\nend\ndeactivate a", nil},
		"other colours": {"flowchart LR\n" + colour + "classDef inside fill:#fff\nclassDef red fill:#f00", []string{
			"page.md:4: another colour, or another name, than on the other pages: inside",
			"page.md:5: another colour, or another name, than on the other pages: red"}},
		"undefined classes":   {"flowchart LR\na:::x --> b\nclass c y", []string{"page.md:3: there is no classDef x", "page.md:4: there is no classDef y"}},
		"text without quotes": {"flowchart LR\na[f] --> b([\"g\"])", []string{`page.md:3: a text has no quotes: a[f] --> b(["g"])`}},
		"undeclared participants": {"sequenceDiagram\na->>b: x\nNote over c: y\nactivate d", []string{"page.md:3: there is no participant a",
			"page.md:3: there is no participant b", "page.md:4: there is no participant c", "page.md:5: there is no participant d"}},
		"boxes": {"sequenceDiagram\nbox rgb(1,2,3) one\nparticipant a\nend\nparticipant b as B\nbox two\nactor c\nend", []string{
			"page.md:6: b is in no box, whose colour is that of its goroutine", "page.md:7: the box has no colour"}},
		"a semicolon": {"sequenceDiagram\nloop x; y\nend", []string{"page.md:3: a semicolon ends a statement, and a # begins a character's number: loop x; y"}},
	}
	for name, test := range tests {
		test.page = "```mermaid\n" + test.page + "\n```\n"
		tests[name] = test
	}
	each(t, "Diagrams", "page.md", tests, nil)
}

func TestExamples(t *testing.T) {
	const example = "// Program x shows something.\npackage main"
	check(t, "Examples", map[string]string{
		"examples/README.md": "| | |\n|--|--|\n| [a](a/main.go) | first |\n| [d](e/main.go) | second |\n| [a](a/main.go) | again |\n" +
			"\n| | |\n|--|--|\n| [b](b/main.go) | in another table |\n",
		"examples/a/main.go":          example,
		"examples/b/main.go":          example,
		"examples/g/main.go":          example,
		"examples/internal/c/main.go": "// Package c is none.\npackage c",
		"other/main.go":               example,
	},
		"examples/README.md:4: d leads to e",
		"examples/README.md:5: there is no example a, or it has two rows",
		"examples/g: it has no row in examples/README.md",
	)
	check(t, "Examples", map[string]string{"page.md": ""})
}

func TestExcerpts(t *testing.T) {
	const source = "package a\n\nfunc a() {\n\tif b() {\n\t\tc()\n\t}\n\n\td()\n\t// Output:\n\t// one\n\t//   two\n}\n"
	const link = "[a](a/a.go)\n"
	wrong := []string{"page.md:3: the Go block is in no Go file that the page links to"}
	tests := map[string]pageTest{
		"with other indentation":        {link + "```go\nif b() {\n\tc()\n}\n\nd()\n```\ntext\n```go\n\nd()\n\n```", nil},
		"lines of a file":               {"[a](a/a.go#L3)\n\n```go\nc()\n```", nil},
		"a file that it links to later": {"```go\nc()\n```\n" + link, nil},
		"a whole program":               {"```go\npackage main\n\nfunc main() {}\n```", nil},
		"another language":              {"```sh\nc()\n```", nil},
		"other code":                    {link + "\n```go\nif b() {\n\te()\n}\n```", wrong},
		"part of a line":                {link + "\n```go\nb() {\n```", wrong},
		"lines left out":                {link + "\n```go\nif b() {\n}\n```", wrong},
		"lines left out as said":        {link + "\n```go\nif b() {\n// ...\nd()\n```", nil},
		"in another order":              {link + "\n```go\nd()\n// ...\nif b() {\n```", wrong},
		"no link":                       {"[a](a)\n\n```go\nc()\n```", wrong},
		"output":                        {link + "```text\none\n  two\n```", nil},
		"another output":                {link + "\n```text\none\ntwo\n```", []string{"page.md:3: no example in a Go file that the page links to has this output"}},
		"a file with another":           {"[b](b.go)\n\n```go\nc()\n```", wrong},
		"Java with its origin":          {"```java\n// A.java, lines 3-9, its-project 0123abcd, Apache-2.0.\nrun();\n```", nil},
		"Java without":                  {"\n\n```java\nrun();\n```", []string{"page.md:3: the Java block does not begin with a comment of the form: // File.java, lines 1-2, project commit, licence."}},
	}
	each(t, "Excerpts", "page.md", tests, map[string]string{"a/a.go": source, "b.go": "package b"})
}

func TestOutputs(t *testing.T) {
	const code = "package main\n\nfunc TestA(t *testing.T) { is(`one\n  two\n`, \"three\") }\n"
	tests := map[string]pageTest{
		"one string":          {"```sh\ngo run ./examples/a\n```\n\n```text\none\n  two\n```", nil},
		"a part of it":        {"```sh\ngo run ./examples/a\n```\n```text\n  two\n```", nil},
		"line by line":        {"```sh\ngo run ./examples/a\n```\n```text\nthree\nthree\n```", nil},
		"with lines left out": {"```sh\ngo run ./examples/a\n```\n```text\nthree\n...\n```", nil},
		"something else":      {"```sh\ngo run ./examples/a\n```\n```text\none\nthree\n```", []string{"page.md:4: no test of examples/a expects this output"}},
		"of no example":       {"```text\nfour\n```\n```sh\ngo run ./a\n```\n```text\nfour\n```", nil},
		"of a folder below":   {"```sh\ngo run ./examples/a/b\n```\n```text\none\n```", []string{"page.md:4: no test of examples/a/b expects this output"}},
		"of another folder":   {"```sh\ngo run ./examples/b\n```\n```text\none\n```", []string{"page.md:4: no test of examples/b expects this output"}},
	}
	each(t, "Outputs", "page.md", tests, map[string]string{"examples/a/main_test.go": code})
	const page = "```sh\ngo run ./examples/a\n```\n\n```text\none\n```"
	check(t, "Excerpts", map[string]string{"page.md": page})
}

func TestLinks(t *testing.T) {
	tests := map[string]pageTest{
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
		"to headings":           {"[a](docs/a.md#the-one--only-store) [b](docs/a.md#twice-1) [c](#here)\n# Here", nil},
		"to no heading": {"[a](docs/a.md#other) [b](#in-code)\n```\n# In code\n```", []string{
			`README.md:1: link to "docs/a.md#other": the file has no such heading`, `README.md:1: link to "#in-code": the file has no such heading`}},
		"to lines": {"[a](docs/a.go#L10)", nil},
		"to names": {"[`Put`](docs/a.go) [`Shelf.Put`](docs/a.go) [`docs.Shelf[T]`](docs/a.go) [`size`](docs/a.go) [`Box`](docs/a.go) [`go run .`](docs/a.go) [`Put`](docs/doc.go)", nil},
		"to names that moved": {"[`Take`](docs/a.go) [`Put`](docs/a.md)\n[a](docs/a.go), [`docs.Shelf[T]`](docs/b.go)", []string{
			`README.md:1: link to "docs/a.go": the file does not declare Take`, `README.md:2: link to "docs/b.go": the file does not declare Shelf`}},
	}
	each(t, "Links", "README.md", tests, map[string]string{
		"docs/a.md":          "# The *one* & only `store`\n## Twice\n## Twice\n[up](../README.md)",
		"docs/a.go":          "package docs\n\ntype Shelf[T any] struct{ size int }\n\nfunc (s *Shelf[T]) Put() {}\n\nfunc (*Box) Open() {}",
		"docs/b.go":          "package docs\n\nfunc Take() {}",
		"docs/doc.go":        "package docs",
		"docs/with space.md": "",
	})
}

func TestLinksOfWhatIsNotOursAreNotFollowed(t *testing.T) {
	check(t, "Links", map[string]string{
		".git/a.md":         "[a](b)",
		"testdata/a.md":     "[a](b)",
		"x/vendor/y/a.md":   "[a](b)",
		".github/readme.md": "[a](b)",
	}, `.github/readme.md:1: link to "b": there is no such file`)
}

func TestFigures(t *testing.T) {
	check(t, "Figures", map[string]string{
		"README.md":     "[1.35](docs/speed.md#events) [0.1](docs/speed.md) [2](docs/none.md) [9](a.go) [12 cases](docs/speed.md)\n[35](docs/speed.md)",
		"docs/speed.md": "## Events\n| event | 1.35 |\n\nand 10.1",
	}, "README.md:1: docs/speed.md does not say 0.1", "README.md:2: docs/speed.md does not say 35")
}

func TestFiguresAreInTheLinkedSectionAndNoGoals(t *testing.T) {
	check(t, "Figures", map[string]string{
		"docs/page.md": "[0.25](speed.md#events) [0.20](speed.md#events) [0.30](speed.md#events) [7.5](speed.md#events) [8.5](speed.md#events)\n" +
			"[1.01 to 1.16; 0.52](speed.md#events) [34.1 ms](speed.md#lists) [34 ms](speed.md#lists) [9.9](speed.md#events) [9.9](speed.md#none)\n" +
			"[100](speed.md#events) [5](speed.md#events) [3](speed.md#lists)",
		"docs/speed.md": "# Speed\n7.5\n## Events\nOne of 100.\n| case (5 pods) | ratio (goal) | goal |\n|--|--|--|\n| idle (5 pods) | 0.25 (0.20) | 0.30 |\n" +
			"| events | 1.01 / 1.16 (0.85) | |\n### Many\n0.52\n```sh\n# 9.9\n```\n## Lists\n34.1 ms, 8.5 and 3.\n",
	},
		"docs/page.md:1: speed.md#events does not say 0.20",
		"docs/page.md:1: speed.md#events does not say 0.30",
		"docs/page.md:1: speed.md#events does not say 7.5",
		"docs/page.md:1: speed.md#events does not say 8.5",
		"docs/page.md:2: speed.md#events does not say 9.9",
		"docs/page.md:2: speed.md#lists does not say 34",
	)
}
