package docscheck

import (
	"fmt"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	exampleFolder = "examples"
	exampleTable  = exampleFolder + "/README.md"
)

var (
	// exampleRow is a row of the table of examples: number, link.
	exampleRow = regexp.MustCompile(`^\| (\d+) \| \[(\w+)\]\((\w+)/main\.go\) \|`)
	// exampleNumber matches the number in the package comment of an example.
	exampleNumber = regexp.MustCompile(`\bexample (\d+) of examples/README\.md`)
)

// Examples returns one line for each example that is missing from the table of examples/README.md,
// or whose package comment has another number. It also returns one line for each row without an
// example. Numbers begin with 1 and have no gaps.
func Examples(repository fs.FS) ([]string, error) {
	folders, err := parse(repository, token.NewFileSet())
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	for _, folder := range folders {
		if path.Dir(folder.path) != exampleFolder || !folder.isCommand() {
			continue
		}
		for _, file := range folder.files {
			comments[path.Base(folder.path)] += strings.Join(strings.Fields(file.Doc.Text()), " ")
		}
	}
	if len(comments) == 0 {
		return nil, nil
	}
	text, err := fs.ReadFile(repository, exampleTable)
	if err != nil {
		return nil, err
	}
	var problems []string
	rows := 0
	for _, line := range prose(string(text)) {
		row := exampleRow.FindStringSubmatch(line.text)
		if row == nil {
			continue
		}
		wrong := func(format string, arguments ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: ", exampleTable, line.number)+fmt.Sprintf(format, arguments...))
		}
		rows++
		if row[1] != strconv.Itoa(rows) {
			wrong("this is number %d, and not %s", rows, row[1])
		}
		name := row[2]
		comment, ok := comments[name]
		switch number := exampleNumber.FindStringSubmatch(comment); {
		case name != row[3]:
			wrong("%s leads to %s", name, row[3])
		case !ok:
			wrong("there is no example %s, or it has two rows", name)
		case number == nil:
			wrong(`the package comment of %s does not say "example %s of %s"`, name, row[1], exampleTable)
		case number[1] != row[1]:
			wrong("%s says that it is example %s", name, number[1])
		}
		delete(comments, name)
	}
	for name := range comments {
		problems = append(problems, fmt.Sprintf("%s/%s: it has no row in %s", exampleFolder, name, exampleTable))
	}
	slices.Sort(problems)
	return problems, nil
}
