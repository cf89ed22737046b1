package docscheck

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	folderCommand = regexp.MustCompile(`^go (?:run|test|build|vet) `)
	changed       = regexp.MustCompile(` -C ?=?(\S+)`)
	relative      = regexp.MustCompile(` \./([\w./-]*)`)
)

// Commands returns one line for each go command that names a missing folder, in a shell block or in
// inline code of a page. It does not run the command.
func Commands(r *Repository) []string {
	var problems []string
	for _, command := range r.code("sh") {
		if !folderCommand.MatchString(command.text) {
			continue
		}
		text, _, _ := strings.Cut(command.text, "#")
		from := "."
		if match := changed.FindStringSubmatch(text); match != nil {
			from = path.Clean(match[1])
		}
		folders := []string{from}
		for _, match := range relative.FindAllStringSubmatch(text, -1) {
			folders = append(folders, path.Join(from, strings.TrimSuffix(match[1], "...")))
		}
		for _, folder := range folders {
			if info, err := fs.Stat(r, folder); err != nil || !info.IsDir() {
				problems = append(problems, command.wrong("there is no folder %s", folder))
				break
			}
		}
	}
	return problems
}
