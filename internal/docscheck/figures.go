package docscheck

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// linkedNumbers is a link whose text begins with a number.
	linkedNumbers = regexp.MustCompile(`\[(\d[^\]]*)\]\(([^)#\s]+\.md)(?:#([^)\s]*))?\)`)
	number        = regexp.MustCompile(`\d(?:[\d.,]*\d)?`)
	// beside are the words of a text that has only figures. A text with another word, such as
	// "12 cases", is not copied from the other page.
	beside = regexp.MustCompile(`^(?:to|and|ns|µs|ms|s|min|h|bytes|kB|MB|GB|KiB|MiB|GiB|%|times|[;,]|)$`)
	// goal is a goal beside a measured figure in a cell of a table.
	goal = regexp.MustCompile(`\(\d[^)]*\)`)
	// headingMarks are those at the beginning of a heading.
	headingMarks = regexp.MustCompile(`^ {0,3}(#{1,6})\s`)
)

// Figures returns one line for each linked number that the section of the link, or the page of a
// link without a section, does not contain. This happens, for example, after a new measurement. A
// goal in a table is no figure: a page must not cite it as measured.
func Figures(r *Repository) []string {
	var problems []string
	for _, line := range r.prose {
		for _, match := range linkedNumbers.FindAllStringSubmatch(line.text, -1) {
			text, page, section := match[1], match[2], match[3]
			if !slices.ContainsFunc(strings.Fields(number.ReplaceAllString(text, " ")), func(word string) bool { return !beside.MatchString(word) }) {
				said, found := r.figuresOf(path.Join(path.Dir(line.file), page), section)
				for _, n := range number.FindAllString(text, -1) {
					if found && !said[n] {
						problems = append(problems, line.wrong("%s does not say %s", strings.TrimSuffix(page+"#"+section, "#"), n))
					}
				}
			}
		}
	}
	return problems
}

// figuresOf returns the numbers in the prose and tables of a section with its subsections, or of a
// whole page. found is false if there is no such section: Links reports it.
func (r *Repository) figuresOf(page, section string) (said map[string]bool, found bool) {
	said = map[string]bool{}
	level := 0             // of the section's heading, while its lines come; 0 outside
	var goals map[int]bool // the columns of a table that hold nothing but goals
	for _, line := range r.prose {
		if line.file != page {
			continue
		}
		if marks := headingMarks.FindStringSubmatch(line.text); marks != nil && section != "" {
			title := heading.FindStringSubmatch(line.text)
			switch {
			case title != nil && slug(title[1]) == section && level == 0 && !found:
				level = len(marks[1])
			case level > 0 && len(marks[1]) <= level:
				level = 0
			}
		}
		if level == 0 && section != "" {
			continue
		}
		found = true
		if !strings.HasPrefix(line.text, "|") {
			goals = nil
			addNumbers(said, line.text)
			continue
		}
		cells := strings.Split(line.text, "|")
		if goals == nil { // the heading of a table
			goals = map[int]bool{}
			for i, cell := range cells {
				goals[i] = strings.TrimSpace(cell) == "goal"
			}
		}
		for i, cell := range cells {
			if !goals[i] && i < 2 {
				addNumbers(said, cell)
			} else if !goals[i] {
				addNumbers(said, goal.ReplaceAllString(cell, ""))
			}
		}
	}
	return said, found
}

func addNumbers(to map[string]bool, text string) {
	for _, n := range number.FindAllString(text, -1) {
		to[n] = true
	}
}
