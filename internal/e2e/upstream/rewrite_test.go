package upstream

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewriting says how a file of tests becomes one of another package.
type rewriting struct {
	clause string            // instead of the package clause
	drop   map[string]string // functions that go, with the reason
	rename map[string]string // names that are replaced wherever they are used
	suffix string
}

type edit struct {
	from, to int
	text     string
}

// apply returns the changed file. Imports that only dropped functions used go as well. What stays keeps its line, unless a function before it goes.
func (r rewriting) apply(t *testing.T, name string, source []byte) []byte {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	at := func(p token.Pos) int { return files.Position(p).Offset }
	edits := []edit{{at(file.Package), at(file.Name.End()), r.clause}}
	used := map[string]bool{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
		case *ast.FuncDecl:
			if _, drop := r.drop[d.Name.Name]; drop && d.Recv == nil {
				edits = append(edits, edit{at(d.Pos()), at(d.End()), ""})
				continue
			}
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok {
					used[of.Name] = true
					return false
				}
			case *ast.Ident:
				if to, ok := r.rename[n.Name]; ok {
					edits = append(edits, edit{at(n.Pos()), at(n.End()), to})
				}
			}
			return true
		})
	}
	for _, imported := range file.Imports {
		if !used[importName(imported)] {
			edits = append(edits, edit{at(imported.Pos()), at(imported.End()), ""})
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	for _, e := range edits {
		source = slices.Replace(source, e.from, e.to, []byte(e.text)...)
	}
	return append(source, r.suffix...)
}

var majorVersion = regexp.MustCompile(`/v([2-9]|[1-9][0-9]+)$`)

func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(majorVersion.ReplaceAllString(spec.Path.Value[1:len(spec.Path.Value)-1], ""))
}
