package docscheck

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
)

var (
	// inlineLink is [text](target) and ![text](target "title"); <target> may contain spaces.
	inlineLink = regexp.MustCompile(`\]\(\s*(?:<([^>]*)>|([^)\s]+))(?:\s+["'(][^)]*)?\s*\)`)
	// definition is [name]: target
	definition = regexp.MustCompile(`^ {0,3}\[[^\]^][^\]]*\]:\s*<?([^\s>]+)`)
	// reference is [text][name]
	reference = regexp.MustCompile(`[^\]\s]\]\[([^\]^][^\]]*)\]`)
	defined   = regexp.MustCompile(`^ {0,3}\[([^\]^][^\]]*)\]:`)
	// htmlLink matches HTML links and images; pages use HTML for images with a width.
	htmlLink = regexp.MustCompile(`<(?:a|img|source)\s[^>]*?(?:href|src|srcset)=["']([^"']+)["']`)

	fence      = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
	inlineCode = regexp.MustCompile("(`+)[^`].*?(`+)")
	heading    = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.+?)(?:\s+#+)?\s*$`)
	anchorTag  = regexp.MustCompile(`<[^>]+\s(?:id|name)=["']([^"']+)["']`)
	markup     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|[*` + "`" + `]`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// Links returns one line for each relative link without a target, and for each link by a name that
// its page does not define.
func Links(repository fs.FS) ([]string, error) {
	documents, err := files(repository, ".md")
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, document := range documents {
		content, err := fs.ReadFile(repository, document)
		if err != nil {
			return nil, err
		}
		names := map[string]bool{}
		for _, line := range prose(string(content)) {
			for _, match := range defined.FindAllStringSubmatch(line.text, -1) {
				names[strings.ToLower(match[1])] = true
			}
		}
		for _, line := range prose(string(content)) {
			for _, match := range reference.FindAllStringSubmatch(inlineCode.ReplaceAllString(line.text, ""), -1) {
				if !names[strings.ToLower(match[1])] {
					problems = append(problems, fmt.Sprintf("%s:%d: link by the name %q, which is not defined", document, line.number, match[1]))
				}
			}
			for _, target := range targets(line.text) {
				if problem := follow(repository, document, target); problem != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: link to %q: %s", document, line.number, target, problem))
				}
			}
		}
	}
	return problems, nil
}

type line struct {
	number int
	text   string
}

// prose returns the lines outside fenced code blocks.
func prose(content string) []line {
	var lines []line
	open := ""
	for i, text := range strings.Split(content, "\n") {
		text = strings.TrimSuffix(text, "\r")
		switch mark := fence.FindStringSubmatch(text); {
		case open == "" && mark != nil:
			open = mark[1]
		case open != "":
			// A block ends with at least as many of the same marks as it began with, and nothing else.
			if mark != nil && strings.HasPrefix(mark[1], open) && strings.TrimSpace(text) == mark[1] {
				open = ""
			}
		default:
			lines = append(lines, line{i + 1, text})
		}
	}
	return lines
}

// targets returns the targets of a line's links.
func targets(text string) []string {
	text = inlineCode.ReplaceAllString(text, "")
	var found []string
	for _, pattern := range []*regexp.Regexp{inlineLink, definition, htmlLink} {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			found = append(found, strings.Join(match[1:], "")) // the alternatives of a pattern exclude each other
		}
	}
	return found
}

// follow returns the error of a link, or an empty string.
func follow(repository fs.FS, document, target string) string {
	link, err := url.Parse(target)
	if err != nil {
		return "it is no URL"
	}
	if link.Scheme != "" || link.Host != "" {
		return "" // an external link
	}
	name := document
	switch {
	case strings.HasPrefix(link.Path, "/"):
		name = path.Clean(strings.TrimPrefix(link.Path, "/"))
	case link.Path != "":
		name = path.Join(path.Dir(document), link.Path)
	}
	if !fs.ValidPath(name) {
		return "it leads out of the repository"
	}
	info, err := fs.Stat(repository, name)
	if err != nil {
		return "there is no such file"
	}
	if link.Fragment == "" || info.IsDir() || path.Ext(name) != ".md" {
		return "" // lines of source files (#L10) are not checked: they would need care with every edit
	}
	content, err := fs.ReadFile(repository, name)
	if err != nil {
		return err.Error()
	}
	if !anchors(string(content))[strings.ToLower(link.Fragment)] {
		return "the file has no such heading"
	}
	return ""
}

// anchors returns the names of a document's headings as GitHub makes them: repeated ones are numbered.
func anchors(content string) map[string]bool {
	found := map[string]bool{}
	seen := map[string]int{}
	for _, line := range prose(content) {
		for _, match := range anchorTag.FindAllStringSubmatch(line.text, -1) {
			found[strings.ToLower(match[1])] = true
		}
		match := heading.FindStringSubmatch(line.text)
		if match == nil {
			continue
		}
		slug := slug(match[1])
		if n := seen[slug]; n > 0 {
			found[fmt.Sprintf("%s-%d", slug, n)] = true
		} else {
			found[slug] = true
		}
		seen[slug]++
	}
	return found
}

func slug(heading string) string {
	text := markup.ReplaceAllString(heading, "$1")
	text = notInSlug.ReplaceAllString(strings.ToLower(text), "")
	return strings.ReplaceAll(strings.TrimSpace(text), " ", "-")
}
