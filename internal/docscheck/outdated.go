package docscheck

import (
	"path"
	"regexp"
	"strings"
)

var (
	// announced are words about something that does not exist.
	announced = regexp.MustCompile(`(?i)\b(?:not yet|will be|(?:is|are) planned)\b`)
	// sentenceEnd is the end of a sentence, a cell of a table, a paragraph or an entry of a list.
	sentenceEnd = regexp.MustCompile(`[.:;?!|]\s+|\n\s*(?:\n|[-*] |\d+\. )`)
	// named is a name in inline code, in a link of a page or a comment, or behind "package".
	named = regexp.MustCompile("(?:`|\\[\\*?|\\]\\(|\\bpackage )([\\w./-]+)")
)

// Outdated returns one line for each sentence of a page or comment that announces a package or name
// that exists, with the words "not yet", "will be" or "is planned".
func Outdated(r *Repository) []string {
	ours := r.names()
	folders := map[string]bool{}
	for _, source := range r.sources {
		folders[source.folder()] = true
	}
	exists := func(file, name string) bool {
		first, rest, _ := strings.Cut(name, ".")
		second, third, _ := strings.Cut(rest, ".")
		return folders[name] || folders[path.Join(path.Dir(file), name)] || ours.has(first, second, third) || len(ours.where[first]) > 0
	}
	var problems []string
	for _, text := range append(r.paragraphs(), r.comments()...) {
		for _, sentence := range sentenceEnd.Split(text.text, -1) {
			words := announced.FindString(sentence)
			if words == "" {
				continue
			}
			for _, match := range named.FindAllStringSubmatch(sentence, -1) {
				if name := strings.TrimRight(match[1], "./"); exists(text.file, name) {
					before, _, _ := strings.Cut(text.text, sentence)
					at := line{text.file, text.number + strings.Count(before, "\n"), ""}
					problems = append(problems, at.wrong("it says %q, but %s exists", words, name))
				}
			}
		}
	}
	return problems
}

// paragraphs returns the prose of all pages. The number is that of the first line.
func (r *Repository) paragraphs() []line {
	found := []line{{}}
	next := line{}
	for _, l := range r.prose {
		if strings.TrimSpace(l.text) == "" || l.file != next.file || l.number != next.number {
			found = append(found, l)
		} else {
			found[len(found)-1].text += "\n" + l.text
		}
		next = line{l.file, l.number + 1, ""}
	}
	return found
}

// comments returns the comments of all Go files. The number is that of the first line.
func (r *Repository) comments() []line {
	var found []line
	for _, source := range r.sources {
		for _, group := range source.Comments {
			at := line{source.name, r.positions.Position(group.Pos()).Line, ""}
			for _, comment := range group.List {
				at.text += strings.TrimPrefix(comment.Text, "//") + "\n"
			}
			found = append(found, at)
		}
	}
	return found
}
