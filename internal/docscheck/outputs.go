package docscheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// exampleCommand runs an example.
var exampleCommand = regexp.MustCompile(`^go run \./(examples/\w+)$`)

// output is a text that a page shows as the output of a command.
type output struct {
	number  int
	command string
	folder  string
	text    string
}

// outputs returns the blocks of text that follow a block of shell whose last command runs an example.
func outputs(page string) []output {
	var found []output
	previous := block{}
	for _, b := range fenced(page) {
		if b.language == "text" && previous.language == "sh" {
			commands := strings.Split(strings.TrimSpace(previous.text), "\n")
			last := commands[len(commands)-1]
			if match := exampleCommand.FindStringSubmatch(last); match != nil {
				found = append(found, output{b.number, last, match[1], b.text})
			}
		}
		previous = b
	}
	return found
}

// more is the line of an output that stands for lines that the page does not show.
const more = "..."

// Outputs returns one line for each block of text that a page shows as output of an example and
// that the example's tests do not expect. A test may expect it as one string or line by line. A
// line that is only "..." stands for any lines.
func Outputs(repository fs.FS) ([]string, error) {
	pages, err := files(repository, ".md")
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, page := range pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		for _, output := range outputs(string(text)) {
			expected, err := stringsOfTests(repository, output.folder)
			if err != nil {
				return nil, err
			}
			if !expects(expected, output.text) {
				problems = append(problems, fmt.Sprintf("%s:%d: no test of %s expects this output", page, output.number, output.folder))
			}
		}
	}
	return problems, nil
}

func expects(expected []string, text string) bool {
	if slices.ContainsFunc(expected, func(s string) bool { return strings.Contains(s, text) }) {
		return true
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != more && !slices.Contains(expected, line) {
			return false
		}
	}
	return true
}

// stringsOfTests returns the strings in the tests of a folder.
func stringsOfTests(repository fs.FS, folder string) ([]string, error) {
	names, err := fs.Glob(repository, path.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if value, err := strconv.Unquote(literal.Value); err == nil {
					found = append(found, value)
				}
			}
			return true
		})
	}
	return found, nil
}
