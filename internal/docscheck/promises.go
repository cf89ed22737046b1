package docscheck

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// guarantees is the page with a row for each promise.
const guarantees = "docs/reference/guarantees.md"

var (
	// promise is an entry of the guarantees in a doc.go, and promised its row in guarantees.md.
	promise  = regexp.MustCompile(`(?m)^//   - (([a-z]+)-[A-Z]\d+): `)
	promised = regexp.MustCompile(`^\| ([a-z]+-[A-Z]\d+) \|(.*)\|\s*$`)
	// citation is an id anywhere.
	citation = regexp.MustCompile(`\b([a-z]+)-[A-Z]\d+\b`)
)

// Promises compares the guarantees of each doc.go with docs/reference/guarantees.md. It returns one
// line for each guarantee without a row under the heading of its package's folder, and for each row
// without a test or without a guarantee. It also returns one line for each id that is given twice,
// and for each id on a page or in a Go file that no doc.go gives.
func Promises(r *Repository) []string {
	var problems []string
	given := map[string]string{} // the doc.go of each id
	prefixes := map[string]bool{}
	for _, source := range r.sources {
		if path.Base(source.name) != "doc.go" {
			continue
		}
		for _, match := range promise.FindAllStringSubmatchIndex(source.text, -1) {
			id := source.text[match[2]:match[3]]
			if other := given[id]; other != "" {
				problems = append(problems, source.at(match[2]).wrong("%s promises %s, too", other, id))
				continue
			}
			given[id] = source.name
			prefixes[source.text[match[4]:match[5]]] = true
		}
	}
	unknown := func(text string) (at int, id string) {
		for _, match := range citation.FindAllStringSubmatchIndex(text, -1) {
			if id := text[match[0]:match[1]]; prefixes[text[match[2]:match[3]]] && given[id] == "" {
				return match[0], id
			}
		}
		return 0, ""
	}
	for _, source := range r.sources {
		if at, id := unknown(source.text); id != "" {
			problems = append(problems, source.at(at).wrong("no doc.go promises %s", id))
		}
	}
	missing := maps.Clone(given)
	folder := ""
	for _, line := range r.prose {
		if line.file != guarantees {
			if _, id := unknown(line.text); id != "" {
				problems = append(problems, line.wrong("no doc.go promises %s", id))
			}
			continue
		}
		if match := heading.FindStringSubmatch(line.text); match != nil {
			folder = strings.Trim(match[1], "`")
		}
		row := promised.FindStringSubmatch(line.text)
		if row == nil {
			continue
		}
		if missing[row[1]] != folder+"/doc.go" {
			problems = append(problems, line.wrong("no %s/doc.go promises %s, or there are two rows for it", folder, row[1]))
		}
		delete(missing, row[1])
		if !testName.MatchString(row[2]) {
			problems = append(problems, line.wrong("no test is named for %s", row[1]))
		}
	}
	for id, file := range missing {
		problems = append(problems, file+" promises "+id+", which has no row in "+guarantees)
	}
	slices.Sort(problems)
	return problems
}
