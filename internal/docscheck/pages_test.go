package docscheck

import "testing"

func TestExcerpts(t *testing.T) {
	const source = "package a\n\nfunc a() {\n\tif b() {\n\t\tc()\n\t}\n\n\td()\n\t// Output:\n\t// one\n\t//   two\n}\n"
	const link = "[a](a/a.go)\n"
	wrong := []string{"page.md:3: the Go block is in no Go file that the page links to"}
	tests := map[string]struct {
		page  string
		wrong []string
	}{
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
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "Excerpts", map[string]string{"page.md": test.page, "a/a.go": source, "b.go": "package b"}, test.wrong...)
		})
	}
}

func TestMentions(t *testing.T) {
	const source = `package shelf

type Shelf[T any] struct {
	inner[T]
	Wide bool
}

func (s *Shelf[T]) Put(T) {}

type inner[T any] struct{}

func (i *inner[T]) Take() {}

type Reader interface{ Read() }

type Alias = other.Thing

func New() {}

const Size = 1
`
	tests := map[string]struct {
		page  string
		wrong []string
	}{
		"what there is":          {"`shelf.New` `shelf.Shelf[T]` `shelf.Shelf.Put` `Shelf[T].Put(x)` `shelf.Size` `shelf.Shelf.Wide` `Reader.Read`", nil},
		"lent by a field":        {"`Shelf.Take`", nil},
		"of another package":     {"`shelf.Alias.Anything` `cache.Store` `Indexer.Index` `s.Put` `x.shelf.go`", nil},
		"no such name":           {"\n`shelf.Old`", []string{"docs/page.md:2: there is no shelf.Old"}},
		"no such member":         {"`shelf.Shelf.Get` `Shelf.Give()`", []string{"docs/page.md:1: there is no shelf.Shelf.Get", "docs/page.md:1: there is no Shelf.Give"}},
		"a member of a function": {"`shelf.New.Name`", []string{"docs/page.md:1: there is no shelf.New.Name"}},
		"in a diagram":           {"```mermaid\nflowchart LR\na[\"shelf.Old\"]\n```", []string{"docs/page.md:3: there is no shelf.Old"}},
		"not in code":            {"shelf.Old", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "Mentions", map[string]string{"docs/page.md": test.page, "shelf/shelf.go": source}, test.wrong...)
		})
	}
}

func TestCommands(t *testing.T) {
	check(t, "Commands", map[string]string{
		"a/b/c.go": "package b",
		"README.md": "```sh\ngo run ./a/b\ngo test ./...\ngo test -C a ./b/...\ngo run ./a/x # text\ngo test -C b ./...\ngo test -C a ./a/...\nls ./x\n```\n" +
			"```\ngo run ./x\n```\n`go run ./a/b` or `go run ./y`",
	}, "README.md:5: there is no folder a/x", "README.md:6: there is no folder b", "README.md:7: there is no folder a/a", "README.md:13: there is no folder y")
}

func TestOutputs(t *testing.T) {
	const code = "package main\n\nfunc TestA(t *testing.T) { is(`one\n  two\n`, \"three\") }\n"
	tests := map[string]struct {
		page  string
		wrong []string
	}{
		"one string":          {"```sh\ngo run ./examples/a\n```\n\n```text\none\n  two\n```", nil},
		"a part of it":        {"```sh\ngo run ./examples/a\n```\n```text\n  two\n```", nil},
		"line by line":        {"```sh\ngo run ./examples/a\n```\n```text\nthree\nthree\n```", nil},
		"with lines left out": {"```sh\ngo run ./examples/a\n```\n```text\nthree\n...\n```", nil},
		"something else":      {"```sh\ngo run ./examples/a\n```\n```text\none\nthree\n```", []string{"page.md:4: no test of examples/a expects this output"}},
		"of no example":       {"```text\nfour\n```\n```sh\ngo run ./a\n```\n```text\nfour\n```", nil},
		"of another folder":   {"```sh\ngo run ./examples/b\n```\n```text\none\n```", []string{"page.md:4: no test of examples/b expects this output"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "Outputs", map[string]string{"page.md": test.page, "examples/a/main_test.go": code}, test.wrong...)
		})
	}
	const page = "```sh\ngo run ./examples/a\n```\n\n```text\none\n```"
	check(t, "Excerpts", map[string]string{"page.md": page})
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

func TestFigures(t *testing.T) {
	check(t, "Figures", map[string]string{
		"README.md":     "[1.35](docs/speed.md#events) [0.1](docs/speed.md) [2](docs/none.md) [9](a.go) [12 cases](docs/speed.md)\n[35](docs/speed.md)",
		"docs/speed.md": "| event | 1.35 |\n\nand 10.1",
	}, "README.md:1: docs/speed.md does not say 0.1", "README.md:2: docs/speed.md does not say 35")
}

func TestTests(t *testing.T) {
	repository := map[string]string{
		"a/a_test.go":  "package a\n\nfunc TestA(t *testing.T) { t.Run(\"one case\", nil) }\n\nfunc ExampleA() {}\n\nfunc (x) TestB() {}\n",
		"a/run.go":     "package a\n\nvar cases = []string{\"of the suite\"}\n\nfunc TestC() {}\n",
		"b/b_test.go":  "package b\n\nfunc FuzzB(f *testing.F) {}\n",
		"docs/page.md": "",
	}
	tests := map[string]struct {
		page  string
		wrong []string
	}{
		"what there is":           {"`TestA` `FuzzB` `ExampleA` [`TestA`](../a/a_test.go)", nil},
		"cases":                   {"`TestA/one case` [`TestA/of the suite`](../a/a_test.go)", nil},
		"no such case":            {"`TestA/another`", []string{"docs/page.md:1: there is no test TestA/another"}},
		"methods and other files": {"`TestB` `TestC`", []string{"docs/page.md:1: there is no test TestB", "docs/page.md:1: there is no test TestC"}},
		"in another file":         {"[`TestA`](../b/b_test.go)", []string{"docs/page.md:1: TestA is not in ../b/b_test.go"}},
		"titles":                  {"[yes](../a/a_test.go \"TestA\") [yes](../a/a_test.go \"TestC\")", []string{"docs/page.md:1: TestC is not in ../a/a_test.go"}},
		"not in code":             {"TestD", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			repository["docs/page.md"] = test.page
			check(t, "Tests", repository, test.wrong...)
		})
	}
}

func TestPromises(t *testing.T) {
	check(t, "Promises", map[string]string{
		"a/doc.go":          "// Package a keeps promises.\n//\n//   - A1. First.\n//   - A2. Second, unlike\n//     A1.\n//   - A3. Third.\npackage a",
		"a/c/doc.go":        "// Package c has an A1, too.\n//\n//   - A1. First.\npackage c",
		"internal/b/doc.go": "// Package b is our own.\n//\n//   - B1. First.\npackage b",
		"docs/reference/guarantees.md": "## a\n| | what | test |\n|--|--|--|\n| A1 | first | `TestA` |\n| A2 | second | none |\n| A1 | first | `TestA` |\n" +
			"## `a/c`\n| A1 | first | `TestA` |\n| A2 | second | `TestA` |\n",
	},
		"docs/reference/guarantees.md:5: no test is named for A2",
		"docs/reference/guarantees.md:6: no a/doc.go promises A1, or there are two rows for it",
		"docs/reference/guarantees.md:9: no a/c/doc.go promises A2, or there are two rows for it",
		"a/doc.go promises A3, which has no row in docs/reference/guarantees.md",
	)
}

func TestMermaid(t *testing.T) {
	tests := map[string]struct {
		diagram string
		wrong   []string
	}{
		"a flowchart": {"flowchart LR\n%% a remark\nsubgraph in [\"inside\"]\ndirection TB\na[\"A\"]:::ours --> b(\"B\") -->|\"a label\"| c\nend\nc -.-> a\n" +
			"classDef ours fill:#fff,stroke:#000\nclass b,c ours", nil},
		"a sequence": {"sequenceDiagram\nautonumber\nbox rgb(255,217,179) yours\nparticipant a as A\nend\nactor b\na->>+b: ask\nb-->>-a: answer\nactivate a\n" +
			"Note over a,b: text\nloop often\nalt one\na->>b: x\nelse other\nb->>a: y\nend\nend\ndeactivate a", nil},
		"nothing":                {"", []string{"page.md:2: the diagram is empty"}},
		"another head":           {"flowchart XY\na --> b", []string{`page.md:2: no diagram begins with "flowchart XY"`}},
		"no end":                 {"flowchart LR\nsubgraph a\nb --> c", []string{"page.md:3: it has no end"}},
		"an end too many":        {"flowchart LR\na --> b\nend", []string{"page.md:4: there is nothing to end"}},
		"text without quotes":    {"flowchart LR\na[f(x)] --> b", []string{"page.md:3: not understood: a[f(x)] --> b"}},
		"an arrow to nothing":    {"flowchart LR\na --> ", []string{"page.md:3: not understood: a -->"}},
		"a broken arrow":         {"flowchart LR\na -> b", []string{"page.md:3: not understood: a -> b"}},
		"a class of nobody":      {"flowchart LR\na:::x --> b\nclassDef y fill:#fff\nclass c y", []string{"page.md:3: there is no classDef x", "page.md:5: there is no node c"}},
		"a strange participant":  {"sequenceDiagram\nparticipant a\na->>b: x", []string{"page.md:4: there is no participant b"}},
		"a message without text": {"sequenceDiagram\nparticipant a\na->>a", []string{"page.md:4: not understood: a->>a"}},
		"a semicolon in a message": {"sequenceDiagram\nparticipant a\na->>a: x; y", []string{
			"page.md:4: a semicolon ends a statement, and a # begins a character's number: a->>a: x; y"}},
		"an else of nothing":    {"sequenceDiagram\nelse x", []string{"page.md:3: nothing is open that could have another branch"}},
		"activity without end":  {"sequenceDiagram\nparticipant a\nactivate a", []string{"page.md:2: a is never deactivated"}},
		"an end of no activity": {"sequenceDiagram\nparticipant a\ndeactivate a", []string{"page.md:4: a is not active"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "Mermaid", map[string]string{"page.md": "```mermaid\n" + test.diagram + "\n```\n"}, test.wrong...)
		})
	}
}

func TestColours(t *testing.T) {
	check(t, "Colours", map[string]string{"page.md": "```mermaid\nflowchart LR\na:::yours --> b:::red\n" +
		"classDef yours fill:#ffd9b3,stroke:#b36b00,color:#000\nclassDef inside fill:#fff\nclassDef red fill:#f00\n```\n" +
		"```mermaid\nsequenceDiagram\nbox rgb(1,2,3) one\nparticipant a\nend\nparticipant b as B\nbox two\nactor c\nend\na->>b: x\n```\n"},
		"page.md:5: another colour, or another name, than on the other pages: inside",
		"page.md:6: another colour, or another name, than on the other pages: red",
		"page.md:13: b is in no box, whose colour is that of its goroutine",
		"page.md:14: the box has no colour",
	)
}
