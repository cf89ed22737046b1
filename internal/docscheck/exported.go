package docscheck

import (
	"go/ast"
	"maps"
)

// names holds the exported names of the importable packages: by package, then by name.
type names map[string]members

// members maps each name of a package to the selectors that may follow it. The value is nil for a
// name that is not a type, and for a type whose members are in another package.
type members map[string]*typeMembers

type typeMembers struct {
	names    map[string]bool
	embedded []string
	alias    bool // of a type that is defined elsewhere
}

// has reports whether a package has a name and, if of is not empty, whether the name has that
// member.
func (m members) has(name, of string) bool {
	typed, ok := m[name]
	switch {
	case !ok:
		return false
	case of == "":
		return true
	case typed == nil:
		return false
	case typed.alias || typed.names[of]:
		return true
	}
	for _, embedded := range typed.embedded {
		if m.has(embedded, of) {
			return true
		}
	}
	return false
}

// exportedNames collects the names of packages. It also keeps unexported types, because types that
// embed them get their members. A page cannot name them, since they begin with a lower-case letter.
func exportedNames(folders []folder) names {
	found := names{}
	for _, folder := range folders {
		if folder.isCommand() || !importable(folder.path) {
			continue
		}
		for _, file := range folder.files {
			here := found[file.Name.Name]
			if here == nil {
				here = members{}
				found[file.Name.Name] = here
			}
			maps.Copy(here, declared(file))
		}
	}
	// Methods may be in other files than their type.
	for _, folder := range folders {
		for _, file := range folder.files {
			if here := found[file.Name.Name]; here != nil && importable(folder.path) {
				addMethods(here, file)
			}
		}
	}
	return found
}

func declared(file *ast.File) members {
	here := members{}
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Recv == nil {
				here[declaration.Name.Name] = nil
			}
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					here[spec.Name.Name] = membersOf(spec)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						here[name.Name] = nil
					}
				}
			}
		}
	}
	return here
}

// membersOf returns the fields of a struct and the methods of an interface.
func membersOf(spec *ast.TypeSpec) *typeMembers {
	typed := &typeMembers{names: map[string]bool{}, alias: spec.Assign.IsValid()}
	var fields *ast.FieldList
	switch expression := spec.Type.(type) {
	case *ast.StructType:
		fields = expression.Fields
	case *ast.InterfaceType:
		fields = expression.Methods
	}
	if fields == nil {
		return typed
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			typed.names[name.Name] = true
		}
		if name := typeName(field.Type); len(field.Names) == 0 && name != "" {
			typed.names[name] = true
			typed.embedded = append(typed.embedded, name)
		}
	}
	return typed
}

func addMethods(here members, file *ast.File) {
	for _, declaration := range file.Decls {
		method, ok := declaration.(*ast.FuncDecl)
		if !ok || method.Recv == nil {
			continue
		}
		if typed := here[typeName(method.Recv.List[0].Type)]; typed != nil {
			typed.names[method.Name.Name] = true
		}
	}
}

// typeName returns the name of a type without its pointer and its type arguments; it is empty for a type of another package.
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
