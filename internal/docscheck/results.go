package docscheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// resultFolder has a file for each subcommand of internal/bench: the run whose figures the pages show.
const resultFolder = "docs/reference/results"

// measured is a case of a run. internal/bench/measure writes it.
type measured struct {
	Name, Unit, Goal string
	Met              bool
	Ours, Peer       float64
	Spread           float64
}

var (
	// resultHeading is the heading of the column that names cases, and their subcommand.
	resultHeading = regexp.MustCompile("^case of `(\\w+)`$")
	// metricHeading is the heading of a column with a figure of its own for each row.
	metricHeading = regexp.MustCompile("`([^`]+)`(?:, (ratio|peer))?$")
	// resultLink is a figure on another page than its table: its title names the subcommand, the case
	// and the column.
	resultLink = regexp.MustCompile(`\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)? "(\w+) (\S+), (ours|peer|ratio)"\)`)
)

// Results returns one line for each figure that differs from the run that is kept: in tables whose
// heading has "case of" and a subcommand of internal/bench, and in links whose title names a case. A
// number that links to a section with such a table must name its case.
//
// The columns "ours", "peer", "ratio" and so on have the figures of the case of their row. A column whose
// heading ends with inline code has those of the case that this continues; ", peer" or ", ratio" behind
// the code, or ", peer" behind the case of a row, chooses the figure.
func Results(r *Repository) []string {
	var problems []string
	for _, c := range r.resultCorrections() {
		problems = append(problems, c.wrong("%s", c.problem))
	}
	return problems
}

// correction is a wrong figure. In its line, was becomes want, which is empty if nothing can be corrected.
type correction struct {
	line
	was, want, problem string
}

func (c correction) correct(text string) string { return strings.Replace(text, c.was, c.want, 1) }

func (r *Repository) resultCorrections() (found []correction) {
	runs, err := r.results()
	if err != nil {
		return []correction{{line: line{file: resultFolder}, problem: err.Error()}}
	}
	shown := map[string][]string{} // the cases of the tables of a section, by page#section
	var topic, section string
	var columns []string
	var before line
	for _, l := range r.prose {
		if l.file != before.file || !strings.HasPrefix(l.text, "|") || l.number != before.number+1 {
			topic, columns = "", nil
		}
		if l.file != before.file {
			section = ""
		}
		before = l
		if title := heading.FindStringSubmatch(l.text); title != nil {
			section = slug(title[1])
		}
		cells := tableCells(l.text)
		switch {
		case cells == nil:
		case columns == nil:
			columns = cells
			if i := slices.IndexFunc(cells, resultHeading.MatchString); i >= 0 {
				topic = resultHeading.FindStringSubmatch(cells[i])[1]
			}
		case topic == "" || strings.HasPrefix(cells[0], "-"):
		default:
			name, corrected, problem := correctRow(columns, cells, runs[topic])
			shown[l.file+"#"+section] = append(shown[l.file+"#"+section], topic+" "+name)
			if problem != "" {
				found = append(found, correction{l, l.text, corrected, fmt.Sprintf("%s/%s.json: %s", resultFolder, topic, problem)})
			}
		}
	}
	for _, l := range r.prose {
		for _, match := range resultLink.FindAllStringSubmatch(l.text, -1) {
			text, page, at, name, column := match[1], match[2], match[3], match[4]+" "+match[5], match[6]
			target := l.file
			if page != "" {
				target = path.Join(path.Dir(l.file), page)
			}
			m, ok := runs[match[4]][match[5]]
			switch {
			case !ok:
				found = append(found, correction{l, "", "", fmt.Sprintf("no run has the case %q", name)})
			case !slices.Contains(shown[target+at], name):
				found = append(found, correction{l, "", "", fmt.Sprintf("%s%s has no row of the case %q", target, at, name)})
			default:
				want := m.column(column)
				if _, unit, ok := strings.Cut(text, " "); ok {
					want += " " + unit
				}
				if text != want {
					found = append(found, correction{l, match[0], strings.Replace(match[0], text, want, 1), fmt.Sprintf("%s of %s is %s, not %s", column, name, want, text)})
				}
			}
		}
		for _, match := range linkedNumbers.FindAllStringSubmatch(l.text, -1) {
			if shown[path.Join(path.Dir(l.file), match[2])+"#"+match[3]] != nil {
				found = append(found, correction{l, "", "", fmt.Sprintf("%s names no case: write [%[1]s](%s#%s \"subcommand case, ours\")", match[1], match[2], match[3])})
			}
		}
	}
	return found
}

// results reads the runs, by subcommand and case.
func (r *Repository) results() (map[string]map[string]measured, error) {
	runs := map[string]map[string]measured{}
	files, err := fs.Glob(r.FS, resultFolder+"/*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(r.FS, file)
		if err != nil {
			return nil, err
		}
		var run struct{ Cases []measured }
		if err := json.Unmarshal(text, &run); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		cases := map[string]measured{}
		for _, c := range run.Cases {
			cases[c.Name] = c
		}
		runs[strings.TrimSuffix(path.Base(file), ".json")] = cases
	}
	return runs, nil
}

// tableCells returns the trimmed cells of a line of a table, and nil for another line.
func tableCells(text string) []string {
	text, ok := strings.CutPrefix(strings.TrimSpace(text), "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(text, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// correctRow returns the case of a row, the row with the figures of the run, and what is wrong with it.
func correctRow(columns, cells []string, run map[string]measured) (name, corrected, problem string) {
	if len(cells) != len(columns) {
		return "", "", fmt.Sprintf("the row has %d cells, and the table %d columns", len(cells), len(columns))
	}
	side := "ours"
	for i, column := range columns {
		if resultHeading.MatchString(column) {
			code, rest, _ := strings.Cut(strings.TrimPrefix(cells[i], "`"), "`")
			if name = code; strings.HasPrefix(rest, ", peer") {
				side = "peer"
			}
		}
	}
	right := slices.Clone(cells)
	var wrong []string
	for i, column := range columns {
		heading, of := column, name
		if metric := metricHeading.FindStringSubmatch(column); metric != nil && !resultHeading.MatchString(column) {
			of = name + "/" + metric[1]
			heading = cmp.Or(metric[2], side)
		}
		if i > 0 && columns[i-1] == "ours" {
			heading = "peer" // whatever its name is
		}
		m, ok := run[of]
		want := m.column(heading)
		if heading == "ratio" && side == "peer" {
			want = "1"
		}
		if want != "" && !ok {
			return name, "", fmt.Sprintf("the run has no case %q", of)
		}
		if want != "" && want != cells[i] {
			right[i] = want
			wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", column, want, cells[i]))
		}
	}
	if wrong != nil {
		problem = name + ": " + strings.Join(wrong, "; ")
	}
	return name, "| " + strings.Join(right, " | ") + " |", problem
}

// column returns a cell of a case. It is empty for a column that has no figures of a run.
func (m measured) column(heading string) string {
	switch heading {
	case "ours":
		return figure(m.Ours)
	case "peer", "client-go", "controller-runtime":
		return figure(m.Peer)
	case "ratio":
		return m.ratio()
	case "ratio (goal)":
		return m.ratio() + m.goal()
	case "spread":
		return fmt.Sprintf("%.0f%%", 100*m.Spread)
	case "unit":
		return m.Unit
	default:
		return ""
	}
}

func (m measured) ratio() string {
	if m.Peer == 0 {
		return "-"
	}
	return strconv.FormatFloat(m.Ours/m.Peer, 'f', 2, 64)
}

// goal returns the goal in parentheses, after a space: that of the ratio, or a number with the unit.
func (m measured) goal() string {
	kind, limit, ok := strings.Cut(m.Goal, "<=")
	if !ok {
		return ""
	}
	if kind == "ours" {
		limit += " " + m.Unit
	}
	if !m.Met {
		limit += " missed"
	}
	return " (" + limit + ")"
}

// figure formats a number with three significant digits, and with all digits before the point.
func figure(v float64) string {
	decimals := 0
	switch {
	case v == 0 || v >= 100:
	case v >= 10:
		decimals = 1
	case v >= 1:
		decimals = 2
	default:
		decimals = 3
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', decimals, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}
