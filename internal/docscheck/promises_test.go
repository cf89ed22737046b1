package docscheck

import "testing"

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
