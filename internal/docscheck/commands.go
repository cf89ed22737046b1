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

	inQuotes = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	// ofShell is what zsh reads otherwise than bash, outside of quotes: a pattern that matches no file is
	// an error, and a comment is one only in scripts.
	ofShell = regexp.MustCompile(`[][*?()#]`)
)

// Commands returns one line for each go command that names a missing folder, in a shell block or in
// inline code of a page. It does not run the command. It also returns one for each line of a shell block
// that does not copy into zsh, except for scripts in READMEs of internal packages.
func Commands(r *Repository) []string {
	var problems []string
	for _, block := range r.blocks {
		if block.language != "sh" || strings.HasPrefix(block.file, "internal/") {
			continue
		}
		for _, line := range block.lines() {
			if ofShell.MatchString(inQuotes.ReplaceAllString(line.text, "")) {
				problems = append(problems, line.wrong("zsh takes a pattern or a comment otherwise than bash: quote it, or leave it out"))
			}
		}
	}
	for _, command := range r.code("sh") {
		if !folderCommand.MatchString(command.text) {
			continue
		}
		text := command.text
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
