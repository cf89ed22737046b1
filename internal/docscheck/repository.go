package docscheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Repository holds the Markdown pages and the Go files of a repository. All checks share one.
type Repository struct {
	fs.FS
	prose     []line  // the lines of all pages outside code blocks
	blocks    []block // the code blocks of all pages
	sources   []source
	positions *token.FileSet
}

// line is a line of a page or of a Go file.
type line struct {
	file   string
	number int
	text   string
}

func (l line) wrong(format string, arguments ...any) string {
	return fmt.Sprintf("%s:%d: ", l.file, l.number) + fmt.Sprintf(format, arguments...)
}

// block is a code block of a page. Its number is that of its first fence.
type block struct {
	line
	language string
}

func (b block) lines() []line {
	var lines []line
	for i, text := range strings.Split(b.text, "\n") {
		lines = append(lines, line{b.file, b.number + 1 + i, text})
	}
	return lines
}

// source is a Go file.
type source struct {
	name, text string
	*ast.File
}

func (s source) folder() string { return path.Dir(s.name) }
func (s source) isTest() bool   { return strings.HasSuffix(s.name, "_test.go") }

// at returns the line of an offset, without its text.
func (s source) at(offset int) line {
	return line{s.name, 1 + strings.Count(s.text[:offset], "\n"), ""}
}

// Load reads a repository with its nested modules. It skips testdata, vendored code and hidden
// folders.
func Load(files fs.FS) (*Repository, error) {
	r := &Repository{FS: files, positions: token.NewFileSet()}
	return r, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md" && path.Ext(name) != ".go":
			return nil
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(content), "\r\n", "\n")
		if path.Ext(name) == ".md" {
			r.addPage(name, text)
			return nil
		}
		file, err := parser.ParseFile(r.positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
		r.sources = append(r.sources, source{name, text, file})
		return err
	})
}

func skipped(folder string) bool {
	return folder == "testdata" || folder == "vendor" || strings.HasPrefix(folder, ".") && folder != "." && folder != ".github"
}

var fence = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})(.*)")

func (r *Repository) addPage(name, text string) {
	mark := ""
	for i, text := range strings.Split(text, "\n") {
		match := fence.FindStringSubmatch(text)
		switch {
		case mark == "" && match != nil:
			mark = match[1]
			r.blocks = append(r.blocks, block{line{name, i + 1, ""}, strings.TrimSpace(match[2])})
		case mark == "":
			r.prose = append(r.prose, line{name, i + 1, text})
		case match != nil && strings.HasPrefix(match[1], mark) && strings.TrimSpace(match[2]) == "":
			mark = "" // at least as many of the same marks end a block
		default:
			r.blocks[len(r.blocks)-1].text += text + "\n"
		}
	}
}

// span is a piece of inline code.
var span = regexp.MustCompile("`([^`]+)`")

// code returns the inline code of all pages, and the lines of their blocks in a language.
func (r *Repository) code(language string) []line {
	var found []line
	for _, l := range r.prose {
		for _, match := range span.FindAllStringSubmatch(l.text, -1) {
			found = append(found, line{l.file, l.number, match[1]})
		}
	}
	for _, block := range r.blocks {
		if block.language == language {
			found = append(found, block.lines()...)
		}
	}
	return found
}
