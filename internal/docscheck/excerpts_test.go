package docscheck

import "testing"

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
		"of another folder":   {"```sh\ngo run ./examples/b\n```\n```text\none\n```", []string{"page.md:4: no test of examples/b expects this output"}},
	}
	each(t, "Outputs", "page.md", tests, map[string]string{"examples/a/main_test.go": code})
	const page = "```sh\ngo run ./examples/a\n```\n\n```text\none\n```"
	check(t, "Excerpts", map[string]string{"page.md": page})
}
