package docscheck

import (
	"path"
	"regexp"
	"slices"
)

const exampleTable = "examples/README.md"

// exampleRow is a row of a table of examples. It begins with a link.
var exampleRow = regexp.MustCompile(`^\| \[(\w+)\]\((\w+)/main\.go\) \|`)

// Examples returns one line for each example that has no row in the tables of examples/README.md,
// and one for each row without an example.
func Examples(r *Repository) []string {
	missing := map[string]bool{}
	for _, source := range r.sources {
		if path.Dir(source.folder()) == path.Dir(exampleTable) && source.Name.Name == "main" {
			missing[path.Base(source.folder())] = true
		}
	}
	var problems []string
	for _, line := range r.prose {
		row := exampleRow.FindStringSubmatch(line.text)
		switch {
		case row == nil || line.file != exampleTable:
		case row[1] != row[2]:
			problems = append(problems, line.wrong("%s leads to %s", row[1], row[2]))
		case !missing[row[1]]:
			problems = append(problems, line.wrong("there is no example %s, or it has two rows", row[1]))
		default:
			delete(missing, row[1])
		}
	}
	for name := range missing {
		problems = append(problems, "examples/"+name+": it has no row in "+exampleTable)
	}
	slices.Sort(problems)
	return problems
}
