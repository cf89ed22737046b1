package docscheck

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// symbol is a name that a Go file declares at the top level, or a member of a type.
type symbol struct {
	kind       kind
	of         string // the type of a member
	name       *ast.Ident
	documented bool
}

type kind int

const (
	topLevel kind = iota
	method
	field    // or a method of an interface
	embedded // a field, whose members are also those of the type
	alias    // of a type elsewhere, whose members are not known
)

// exported reports whether a package exports a top-level name, or a method of such a type.
func (s symbol) exported() bool {
	return s.name.IsExported() && (s.kind == topLevel || s.kind == method && ast.IsExported(s.of))
}

// symbols returns what a file declares.
func symbols(file *ast.File) []symbol {
	var found []symbol
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			s := symbol{topLevel, "", d.Name, says(d.Doc)}
			if d.Recv != nil {
				s.kind, s.of = method, typeName(d.Recv.List[0].Type)
			}
			found = append(found, s)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					// A comment on a group of types does not describe each type. A comment on a
					// single type belongs to the declaration.
					documented := says(spec.Doc, spec.Comment) || !d.Lparen.IsValid() && says(d.Doc)
					found = append(found, symbol{topLevel, "", spec.Name, documented})
					found = append(found, members(spec)...)
				case *ast.ValueSpec:
					// One comment for a group of constants or variables is enough: they are read
					// together.
					for _, name := range spec.Names {
						found = append(found, symbol{topLevel, "", name, says(d.Doc, spec.Doc, spec.Comment)})
					}
				}
			}
		}
	}
	return found
}

// members returns the fields of a struct, and the methods of an interface.
func members(spec *ast.TypeSpec) []symbol {
	if spec.Assign.IsValid() {
		return []symbol{{kind: alias, of: spec.Name.Name, name: spec.Name}}
	}
	var fields []*ast.Field
	switch expression := spec.Type.(type) {
	case *ast.StructType:
		fields = expression.Fields.List
	case *ast.InterfaceType:
		fields = expression.Methods.List
	}
	var found []symbol
	for _, f := range fields {
		for _, name := range f.Names {
			found = append(found, symbol{kind: field, of: spec.Name.Name, name: name})
		}
		if name := typeName(f.Type); len(f.Names) == 0 && name != "" {
			found = append(found, symbol{kind: embedded, of: spec.Name.Name, name: ast.NewIdent(name)})
		}
	}
	return found
}

// typeName returns the name of a type without its pointer and its type arguments. It is empty for
// a type of another package.
func typeName(expression ast.Expr) string {
	switch typed := expression.(type) {
	case *ast.StarExpr:
		return typeName(typed.X)
	case *ast.ParenExpr:
		return typeName(typed.X)
	case *ast.IndexExpr:
		return typeName(typed.X)
	case *ast.IndexListExpr:
		return typeName(typed.X)
	case *ast.Ident:
		return typed.Name
	}
	return ""
}

// says reports whether comments have words. A directive such as //go:generate is a comment too.
func says(comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return strings.TrimSpace(c.Text()) != "" })
}

// isLibrary reports whether other modules import the package of a file. It returns false for
// examples, internal packages, commands and tests.
func (s source) isLibrary() bool {
	elements := strings.Split(s.folder(), "/")
	return !s.isTest() && s.Name.Name != "main" && !slices.Contains(elements, "internal") && !slices.Contains(elements, "examples")
}

// Names returns one line for each exported name without a comment. The comment of a type also
// covers its fields and the methods of an interface.
func Names(r *Repository) []string {
	var problems []string
	for _, source := range r.sources {
		if !source.isLibrary() {
			continue
		}
		for _, symbol := range symbols(source.File) {
			if symbol.exported() && !symbol.documented {
				at := line{source.name, r.positions.Position(symbol.name.Pos()).Line, ""}
				problems = append(problems, at.wrong("%s is exported and has no comment", symbol.name.Name))
			}
		}
	}
	return problems
}

// Packages returns one line for each package whose comment is missing or in the wrong file.
func Packages(r *Repository) []string {
	missing := map[string]string{} // by folder
	for _, source := range r.sources {
		folder, isDoc := source.folder(), path.Base(source.name) == "doc.go"
		problem, known := missing[folder]
		switch {
		case source.isTest() || known && problem == "":
		case says(source.Doc) && (isDoc || source.Name.Name == "main"):
			missing[folder] = ""
		case source.Name.Name == "main":
			missing[folder] = folder + ": no file says in a package comment what the command does"
		case isDoc:
			missing[folder] = source.name + ": it has no package comment"
		case !known:
			missing[folder] = folder + ": the package has no doc.go"
		}
	}
	var problems []string
	for _, problem := range missing {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	slices.Sort(problems)
	return problems
}

// Attached returns one line for each testable example that go doc shows nowhere, because its name
// begins with no name of its package. For a method it needs the type that declares the method: go
// doc shows a promoted method only there.
func Attached(r *Repository) []string {
	names := map[string]map[string]bool{} // by folder
	for _, source := range r.sources {
		if source.isTest() {
			continue
		}
		known := names[source.folder()]
		if known == nil {
			known = map[string]bool{"": true}
			names[source.folder()] = known
		}
		for _, s := range symbols(source.File) {
			switch {
			case !s.exported():
			case s.kind == method:
				known[s.of+"_"+s.name.Name] = true
			default:
				known[s.name.Name] = true
			}
		}
	}
	var problems []string
	for _, source := range r.sources {
		if !source.isTest() {
			continue
		}
		for _, s := range symbols(source.File) {
			of, found := strings.CutPrefix(s.name.Name, "Example")
			if found && s.kind == topLevel && !attached(of, names[source.folder()]) {
				line := source.at(r.positions.Position(s.name.Pos()).Offset)
				problems = append(problems, line.wrong("go doc does not show %s: its package declares no %s", s.name.Name, strings.Replace(of, "_", ".", 1)))
			}
		}
	}
	return problems
}

// attached reports whether an example's name is a known one, perhaps with a suffix. A suffix begins
// with a lower-case letter.
func attached(of string, known map[string]bool) bool {
	if known[of] {
		return true
	}
	for i, c := range of {
		if c == '_' && known[of[:i]] && i+1 < len(of) && of[i+1] >= 'a' && of[i+1] <= 'z' {
			return true
		}
	}
	return false
}
