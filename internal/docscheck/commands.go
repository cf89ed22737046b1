package docscheck

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	goCommand = regexp.MustCompile(`^go (?:run|test|build|vet) `)
	changed   = regexp.MustCompile(` -C ?=?(\S+)`)
	relative  = regexp.MustCompile(` \./([\w./-]*)`)
)

// Commands returns one line for each go command that names a missing folder, in a shell block or in
// inline code of a page. It does not run the command; CI runs some of them.
func Commands(repository fs.FS) ([]string, error) {
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
			for _, match := range span.FindAllStringSubmatch(line.text, -1) {
				if folder := missingFolder(repository, match[1]); folder != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no folder %s", page, line.number, folder))
				}
			}
		}
		for _, block := range blocks(string(text), "sh") {
			for i, command := range strings.Split(block.text, "\n") {
				if folder := missingFolder(repository, command); folder != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no folder %s", page, block.number+1+i, folder))
				}
			}
		}
	}
	return problems, nil
}

// missingFolder returns the folder that a command names, if that folder does not exist.
func missingFolder(repository fs.FS, command string) string {
	if !goCommand.MatchString(command) {
		return ""
	}
	command, _, _ = strings.Cut(command, "#")
	from := "."
	if match := changed.FindStringSubmatch(command); match != nil {
		from = path.Clean(match[1])
	}
	folders := []string{from}
	for _, match := range relative.FindAllStringSubmatch(command, -1) {
		folders = append(folders, path.Join(from, strings.TrimSuffix(match[1], "...")))
	}
	for _, folder := range folders {
		if info, err := fs.Stat(repository, folder); err != nil || !info.IsDir() {
			return folder
		}
	}
	return ""
}
