package docscheck

import "testing"

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
	}
	each(t, "Links", "README.md", tests, map[string]string{
		"docs/a.md":          "# The *one* & only `store`\n## Twice\n## Twice\n[up](../README.md)",
		"docs/a.go":          "package docs",
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
		"docs/speed.md": "| event | 1.35 |\n\nand 10.1",
	}, "README.md:1: docs/speed.md does not say 0.1", "README.md:2: docs/speed.md does not say 35")
}
