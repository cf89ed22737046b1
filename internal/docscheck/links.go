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
	definition = regexp.MustCompile(`^ {0,3}\[([^\]^][^\]]*)\]:\s*<?([^\s>]+)`)
	// reference is [text][name]
	reference = regexp.MustCompile(`[^\]\s]\]\[([^\]^][^\]]*)\]`)
	// linkedName is [`name`](file.go), perhaps with a package or a type before the name.
	linkedName = regexp.MustCompile("\\[`(?:\\w+\\.)*(\\w+)(?:\\[\\w+\\])?`\\]\\(([^)#\\s]+\\.go)\\)")
	// htmlLink is an HTML link or image; pages use HTML for images with a width.
	htmlLink   = regexp.MustCompile(`<(?:a|img|source)\s[^>]*?(?:href|src|srcset)=["']([^"']+)["']`)
	inlineCode = regexp.MustCompile("(`+)[^`].*?(`+)")
	heading    = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.+?)(?:\s+#+)?\s*$`)
	markup     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|[*` + "`" + `]`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// Links returns one line for each relative link without a target, for each link by a name that its
// page does not define, and for each link from the name of code to a file that does not declare it.
func Links(r *Repository) []string {
	names := map[string]bool{} // by page and name
	for _, line := range r.prose {
		if match := definition.FindStringSubmatch(line.text); match != nil {
			names[line.file+" "+strings.ToLower(match[1])] = true
		}
	}
	anchors, declared := r.anchors(), r.declared()
	var problems []string
	for _, line := range r.prose {
		for _, match := range reference.FindAllStringSubmatch(inlineCode.ReplaceAllString(line.text, ""), -1) {
			if !names[line.file+" "+strings.ToLower(match[1])] {
				problems = append(problems, line.wrong("link by the name %q, which is not defined", match[1]))
			}
		}
		for _, target := range targets(line.text) {
			if problem := r.follow(line.file, target, anchors); problem != "" {
				problems = append(problems, line.wrong("link to %q: %s", target, problem))
			}
		}
		for _, match := range linkedName.FindAllStringSubmatch(line.text, -1) {
			names, known := declared[path.Join(path.Dir(line.file), match[2])]
			if known && !names[match[1]] {
				problems = append(problems, line.wrong("link to %q: the file does not declare %s", match[2], match[1]))
			}
		}
	}
	return problems
}

// declared returns the names that each Go file declares, members of types included, and the types whose
// methods it has. It leaves out doc.go, which describes the names of other files, and leaves tests to
// [Tests].
func (r *Repository) declared() map[string]map[string]bool {
	files := map[string]map[string]bool{}
	for _, source := range r.sources {
		if source.isTest() || path.Base(source.name) == "doc.go" {
			continue
		}
		names := map[string]bool{}
		for _, s := range symbols(source.File) {
			names[s.name.Name], names[s.of] = true, true
		}
		files[source.name] = names
	}
	return files
}

// targets returns the targets of a line's links.
func targets(text string) []string {
	text = inlineCode.ReplaceAllString(text, "")
	var found []string
	for _, match := range inlineLink.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1]+match[2]) // one of them is empty
	}
	for _, match := range htmlLink.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	if match := definition.FindStringSubmatch(text); match != nil {
		found = append(found, match[2])
	}
	return found
}

// follow returns the error of a link, or an empty string.
func (r *Repository) follow(page, target string, anchors map[string]bool) string {
	link, err := url.Parse(target)
	if err != nil {
		return "it is no URL"
	}
	if link.Scheme != "" || link.Host != "" {
		return "" // an external link
	}
	name := page
	switch {
	case strings.HasPrefix(link.Path, "/"):
		name = path.Clean(strings.TrimPrefix(link.Path, "/"))
	case link.Path != "":
		name = path.Join(path.Dir(page), link.Path)
	}
	if !fs.ValidPath(name) {
		return "it leads out of the repository"
	}
	if _, err := fs.Stat(r, name); err != nil {
		return "there is no such file"
	}
	// Lines of source files, such as #L10, are not checked: they would need care with every edit.
	if link.Fragment != "" && path.Ext(name) == ".md" && !anchors[name+"#"+strings.ToLower(link.Fragment)] {
		return "the file has no such heading"
	}
	return ""
}

// anchors returns the headings of all pages, as page#name. GitHub makes these names, and numbers
// repeated ones.
func (r *Repository) anchors() map[string]bool {
	found := map[string]bool{}
	seen := map[string]int{}
	for _, line := range r.prose {
		match := heading.FindStringSubmatch(line.text)
		if match == nil {
			continue
		}
		slug := line.file + "#" + slug(match[1])
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
