package docscheck

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
)

var (
	// figure is a link whose text is a number.
	figure = regexp.MustCompile(`\[(\d[\d.,]*)\]\(([^)#\s]+\.md)(?:#[^)\s]*)?\)`)
	number = regexp.MustCompile(`\d[\d.,]*`)
)

// Figures returns one line for each link whose text is a number that the linked page does not
// contain. This happens, for example, after a new measurement.
func Figures(repository fs.FS) ([]string, error) {
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
		for _, line := range prose(string(text)) {
			for _, match := range figure.FindAllStringSubmatch(line.text, -1) {
				source, err := fs.ReadFile(repository, path.Join(path.Dir(page), match[2]))
				if err == nil && !slices.Contains(number.FindAllString(string(source), -1), match[1]) {
					problems = append(problems, fmt.Sprintf("%s:%d: %s does not say %s", page, line.number, match[2], match[1]))
				}
			}
		}
	}
	return problems, nil
}
