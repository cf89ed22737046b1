package docscheck

import "strings"

// block is the text between two fences of a page.
type block struct {
	number   int // of the line with the first fence
	language string
	text     string
}

// fenced returns the blocks of a page, in order.
func fenced(page string) []block {
	var found []block
	var open *block
	mark := ""
	for i, text := range strings.Split(page, "\n") {
		text = strings.TrimSuffix(text, "\r")
		match := fence.FindStringSubmatch(text)
		switch {
		case open == nil && match != nil:
			mark = match[1]
			open = &block{number: i + 1, language: strings.TrimSpace(strings.TrimLeft(text, " `~"))}
		case open != nil && match != nil && strings.HasPrefix(match[1], mark) && strings.TrimSpace(text) == match[1]:
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += text + "\n"
		}
	}
	return found
}

// blocks returns the blocks of a page in one language, with the lines on which they begin.
func blocks(page, language string) []line {
	var found []line
	for _, b := range fenced(page) {
		if b.language == language {
			found = append(found, line{b.number, b.text})
		}
	}
	return found
}
