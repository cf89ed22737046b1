package docscheck

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// leftOut is the line of a Go block that stands for omitted lines.
	leftOut = "// ..."
	// more is the line of an output that stands for omitted lines.
	more = "..."
)

// origin is the first line of a Java block: file, lines, project, commit and licence of what is quoted.
var origin = regexp.MustCompile(`^// \w+\.java, lines? \d+(-\d+)?, [\w-]+ [0-9a-f]{7,40}, \S+-\d+\.\d+\.`)

// Excerpts returns one line for each Go block of a page that is neither a whole program nor found,
// line by line, in one Go file that the page links to. It also returns one line for each block of
// text that is not the output of a command and not in a comment of such a file, where tests look
// for an example's output. Indentation and blank lines at the ends do not count. Java is the code of
// others, so that a block of it has to begin with its origin.
func Excerpts(r *Repository) []string {
	linked := r.linkedSources()
	printed := map[line]bool{}
	for _, output := range r.outputs() {
		printed[output.line] = true
	}
	var problems []string
	for _, block := range r.blocks {
		text, problem := block.text, "the Go block is in no Go file that the page links to"
		switch {
		case block.language == "go" && !isProgram(block):
		case block.language == "text" && !printed[block.line]:
			text = "// " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n// ")
			problem = "no example in a Go file that the page links to has this output"
		case block.language == "java":
			if !origin.MatchString(text) {
				problems = append(problems, block.wrong("the Java block does not begin with a comment of the form: // File.java, lines 1-2, project commit, licence."))
			}
			continue
		default:
			continue
		}
		if !slices.ContainsFunc(linked[block.file], func(source string) bool { return isExcerpt(text, source) }) {
			problems = append(problems, block.wrong("%s", problem))
		}
	}
	return problems
}

// isProgram reports whether a block is a whole program, which a test builds.
func isProgram(b block) bool {
	return b.language == "go" && strings.HasPrefix(b.text, "package ")
}

// linkedSources returns the Go files that each page links to, without indentation.
func (r *Repository) linkedSources() map[string][]string {
	linked := map[string][]string{}
	for _, line := range r.prose {
		for _, target := range targets(line.text) {
			target, _, _ = strings.Cut(target, "#")
			name := path.Join(path.Dir(line.file), target)
			if path.Ext(name) != ".go" {
				continue
			}
			if code, err := fs.ReadFile(r, name); err == nil { // Links reports the error
				linked[line.file] = append(linked[line.file], "\n"+unindented(string(code))+"\n")
			}
		}
	}
	return linked
}

// isExcerpt reports whether the parts of a block are in a source, in their order.
func isExcerpt(block, source string) bool {
	rest := source
	for part := range strings.SplitSeq("\n"+unindented(block)+"\n", "\n"+leftOut+"\n") {
		part = "\n" + strings.Trim(part, "\n") + "\n"
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part)-1:] // the next part may begin with the line end of this one
	}
	return true
}

func unindented(code string) string {
	lines := strings.Split(strings.Trim(code, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

// exampleCommand runs an example, or a program of docs/start in memory.
var exampleCommand = regexp.MustCompile(`^go run (?:\./|-C )(examples(?:/\w+)+|docs/start/\w+)(?: \.| -demo)?$`)

// output is a block of text that a page shows as the output of a command.
type output struct {
	block
	command string
	folder  string
}

// outputs returns the blocks of text behind a block of shell whose last command runs an example.
func (r *Repository) outputs() []output {
	var found []output
	previous := block{}
	for _, b := range r.blocks {
		if b.language == "text" && previous.language == "sh" && b.file == previous.file {
			commands := strings.Split(strings.TrimSpace(previous.text), "\n")
			last := commands[len(commands)-1]
			if match := exampleCommand.FindStringSubmatch(last); match != nil {
				found = append(found, output{b, last, match[1]})
			}
		}
		previous = b
	}
	return found
}

// Outputs returns one line for each output of an example that the example's tests do not expect. A
// test may expect it as one string or line by line.
func Outputs(r *Repository) []string {
	var problems []string
	for _, output := range r.outputs() {
		if !expects(r.stringsOfTests(output.folder), output.text) {
			problems = append(problems, output.wrong("no test of %s expects this output", output.folder))
		}
	}
	return problems
}

func expects(expected []string, text string) bool {
	if slices.ContainsFunc(expected, func(s string) bool { return strings.Contains(s, text) }) {
		return true
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != more && !slices.Contains(expected, line) {
			return false
		}
	}
	return true
}

// stringsOfTests returns the strings in the tests of a folder.
func (r *Repository) stringsOfTests(folder string) []string {
	var found []string
	for _, source := range r.sources {
		if !source.isTest() || source.folder() != folder {
			continue
		}
		ast.Inspect(source.File, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if value, err := strconv.Unquote(literal.Value); err == nil {
					found = append(found, value)
				}
			}
			return true
		})
	}
	return found
}
