package docscheck

import (
	"fmt"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
)

const (
	exampleFolder = "examples"
	exampleTable  = exampleFolder + "/README.md"
)

// exampleRow is a row of a table of examples. It begins with a link.
var exampleRow = regexp.MustCompile(`^\| \[(\w+)\]\((\w+)/main\.go\) \|`)

// Examples returns one line for each example that has no row in the tables of examples/README.md,
// and one for each row without an example.
func Examples(repository fs.FS) ([]string, error) {
	folders, err := parse(repository, token.NewFileSet())
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, folder := range folders {
		if path.Dir(folder.path) != exampleFolder || !folder.isCommand() {
			continue
		}
		missing[path.Base(folder.path)] = true
	}
	if len(missing) == 0 {
		return nil, nil
	}
	text, err := fs.ReadFile(repository, exampleTable)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, line := range prose(string(text)) {
		row := exampleRow.FindStringSubmatch(line.text)
		switch {
		case row == nil:
		case row[1] != row[2]:
			problems = append(problems, fmt.Sprintf("%s:%d: %s leads to %s", exampleTable, line.number, row[1], row[2]))
		case !missing[row[1]]:
			problems = append(problems, fmt.Sprintf("%s:%d: there is no example %s, or it has two rows", exampleTable, line.number, row[1]))
		default:
			delete(missing, row[1])
		}
	}
	for name := range missing {
		problems = append(problems, fmt.Sprintf("%s/%s: it has no row in %s", exampleFolder, name, exampleTable))
	}
	slices.Sort(problems)
	return problems, nil
}
