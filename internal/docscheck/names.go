package docscheck

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

// Names returns one line for each exported name without a comment. The comment of a type also
// covers its fields and the methods of an interface.
func Names(repository fs.FS) ([]string, error) {
	positions := token.NewFileSet()
	folders, err := parse(repository, positions)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, folder := range folders {
		if folder.isCommand() || !importable(folder.path) {
			continue
		}
		for _, file := range folder.files {
			for _, name := range undocumented(file) {
				at := positions.Position(name.Pos())
				problems = append(problems, fmt.Sprintf("%s:%d: %s is exported and has no comment", at.Filename, at.Line, name.Name))
			}
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// importable reports whether other modules import a package. It returns false for examples and for
// internal packages.
func importable(where string) bool {
	elements := strings.Split(where, "/")
	return !slices.Contains(elements, "internal") && !slices.Contains(elements, "examples")
}

func undocumented(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Name.IsExported() && exportedReceiver(declaration) && !says(declaration.Doc) {
				names = append(names, declaration.Name)
			}
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				names = append(names, undocumentedOf(declaration, spec)...)
			}
		}
	}
	return names
}

func undocumentedOf(declaration *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		// A comment on a group of types does not describe each type. A comment on a single type
		// belongs to the declaration.
		if says(spec.Doc, spec.Comment) || !declaration.Lparen.IsValid() && says(declaration.Doc) {
			return nil
		}
		names = []*ast.Ident{spec.Name}
	case *ast.ValueSpec:
		// One comment for a group of constants or variables is enough: they are read together.
		if says(declaration.Doc, spec.Doc, spec.Comment) {
			return nil
		}
		names = spec.Names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name *ast.Ident) bool { return !name.IsExported() })
}

// exportedReceiver is true for functions, and for the methods that a user can see.
func exportedReceiver(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return true
	}
	expression := function.Recv.List[0].Type
	for {
		switch typed := expression.(type) {
		case *ast.StarExpr:
			expression = typed.X
		case *ast.ParenExpr:
			expression = typed.X
		case *ast.IndexExpr:
			expression = typed.X
		case *ast.IndexListExpr:
			expression = typed.X
		case *ast.Ident:
			return typed.IsExported()
		default:
			return false
		}
	}
}
