package docscheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// folder is the Go files of one folder, without its tests.
type folder struct {
	path  string
	files map[string]*ast.File // by file name
}

func (f folder) isCommand() bool {
	for _, file := range f.files {
		return file.Name.Name == "main"
	}
	return false
}

// parse returns the folders that have Go files other than tests, in order.
func parse(repository fs.FS, positions *token.FileSet) ([]folder, error) {
	names, err := files(repository, ".go")
	if err != nil {
		return nil, err
	}
	byPath := map[string]folder{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		where := path.Dir(name)
		if byPath[where].files == nil {
			byPath[where] = folder{path: where, files: map[string]*ast.File{}}
		}
		byPath[where].files[path.Base(name)] = file
	}
	var folders []folder
	for _, where := range slices.Sorted(maps.Keys(byPath)) {
		folders = append(folders, byPath[where])
	}
	return folders, nil
}

// Packages returns one line for each package whose comment is missing or in the wrong file.
func Packages(repository fs.FS) ([]string, error) {
	folders, err := parse(repository, token.NewFileSet())
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, folder := range folders {
		if folder.isCommand() {
			if !slices.ContainsFunc(slices.Collect(maps.Values(folder.files)), documented) {
				problems = append(problems, fmt.Sprintf("%s: no file says in a package comment what the command does", folder.path))
			}
			continue
		}
		switch file := folder.files["doc.go"]; {
		case file == nil:
			problems = append(problems, fmt.Sprintf("%s: the package has no doc.go", folder.path))
		case !documented(file):
			problems = append(problems, fmt.Sprintf("%s/doc.go: it has no package comment", folder.path))
		}
	}
	return problems, nil
}

func documented(file *ast.File) bool { return says(file.Doc) }

// says reports whether comments have words. A directive such as //go:generate is a comment too.
func says(comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return strings.TrimSpace(c.Text()) != "" })
}
