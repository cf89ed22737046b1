package docscheck

import "testing"

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
