package docscheck

import (
	"fmt"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
)

var (
	// qualified is package.Name or package.Name.Member, with type parameters or without.
	qualified = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\[[^\]]*\])?(?:\.([A-Z]\w*))?`)
	// member is Type.Member without a package before it.
	member = regexp.MustCompile(`(?:^|[^\w.\])])([A-Z]\w*)(?:\[[^\]]*\])?\.([A-Z]\w*)`)
	// span is a piece of inline code.
	span = regexp.MustCompile("`([^`]+)`")
)

// Mentions returns one line for each name of this repository that a page mentions and that does not
// exist. It looks at inline code and diagrams. It knows package.Name and package.Name.Member for
// the packages of this repository, and Type.Member for their types.
func Mentions(repository fs.FS) ([]string, error) {
	folders, err := parse(repository, token.NewFileSet())
	if err != nil {
		return nil, err
	}
	ours := exportedNames(folders)
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
		for _, line := range mentioning(string(text)) {
			for _, name := range ours.missing(line.text) {
				problems = append(problems, fmt.Sprintf("%s:%d: there is no %s", page, line.number, name))
			}
		}
	}
	return problems, nil
}

// mentioning returns the inline code and the diagrams of a page, line by line.
func mentioning(page string) []line {
	var found []line
	for _, l := range prose(page) {
		for _, match := range span.FindAllStringSubmatch(l.text, -1) {
			found = append(found, line{l.number, match[1]})
		}
	}
	for _, block := range blocks(page, "mermaid") {
		for i, text := range strings.Split(block.text, "\n") {
			found = append(found, line{block.number + 1 + i, text})
		}
	}
	return found
}

// missing returns the names in a piece of code that look like names of this repository but do not
// exist.
func (n names) missing(code string) []string {
	var missing []string
	for _, match := range qualified.FindAllStringSubmatch(code, -1) {
		where, name, of := match[1], match[2], match[3]
		if types, ok := n[where]; ok && !types.has(name, of) {
			missing = append(missing, strings.TrimSuffix(where+"."+name+"."+of, "."))
		}
	}
	for _, match := range member.FindAllStringSubmatch(code, -1) {
		known, found := false, false
		for _, types := range n {
			if _, ok := types[match[1]]; ok {
				known = true
				found = found || types.has(match[1], match[2])
			}
		}
		if known && !found {
			missing = append(missing, match[1]+"."+match[2])
		}
	}
	return missing
}
