package docscheck

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// qualified is package.Name or package.Name.Member, with type parameters or without.
	qualified = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\[[^\]]*\])?(?:\.([A-Z]\w*))?`)
	// member is Type.Member without a package before it.
	member = regexp.MustCompile(`(?:^|[^\w.\])])([A-Z]\w*)(?:\[[^\]]*\])?\.([A-Z]\w*)`)
)

// Mentions returns one line for each name of this repository that a page mentions and that does not
// exist. It looks at inline code and diagrams. It knows package.Name and package.Name.Member for
// the packages of this repository, and Type.Member for their types.
func Mentions(r *Repository) []string {
	ours := r.names()
	var problems []string
	for _, line := range r.code("mermaid") {
		for _, name := range ours.missing(line.text) {
			problems = append(problems, line.wrong("there is no %s", name))
		}
	}
	return problems
}

// names holds the names of the packages that others can import.
type names struct {
	packages map[string]bool
	known    map[string]bool     // package.Name and package.Name.Member
	embedded map[string][]string // the names of embedded types, by package.Name
	aliases  map[string]bool     // package.Name
	where    map[string][]string // the packages of a name
}

// names collects the names of packages. It also keeps unexported types, because types that embed
// them get their members.
func (r *Repository) names() names {
	n := names{map[string]bool{}, map[string]bool{}, map[string][]string{}, map[string]bool{}, map[string][]string{}}
	for _, source := range r.sources {
		if !source.isLibrary() {
			continue
		}
		in := source.Name.Name
		n.packages[in] = true
		for _, s := range symbols(source.File) {
			name, of := s.name.Name, in+"."+s.of
			switch s.kind {
			case topLevel:
				n.known[in+"."+name] = true
				n.where[name] = append(n.where[name], in)
			case alias:
				n.aliases[of] = true
			case embedded:
				n.embedded[of] = append(n.embedded[of], name)
				n.known[of+"."+name] = true
			default:
				n.known[of+"."+name] = true
			}
		}
	}
	return n
}

// has reports whether a package has a name and, if of is not empty, whether the name has that
// member.
func (n names) has(in, name, of string) bool {
	name = in + "." + name
	if of == "" || !n.known[name] {
		return n.known[name]
	}
	if n.aliases[name] || n.known[name+"."+of] {
		return true
	}
	for _, embedded := range n.embedded[name] {
		if n.has(in, embedded, of) {
			return true
		}
	}
	return false
}

// missing returns the names in a piece of code that look like names of this repository but do not
// exist.
func (n names) missing(code string) []string {
	var missing []string
	for _, match := range qualified.FindAllStringSubmatch(code, -1) {
		if n.packages[match[1]] && !n.has(match[1], match[2], match[3]) {
			missing = append(missing, strings.TrimSuffix(match[1]+"."+match[2]+"."+match[3], "."))
		}
	}
	for _, match := range member.FindAllStringSubmatch(code, -1) {
		in := n.where[match[1]]
		if len(in) > 0 && !slices.ContainsFunc(in, func(in string) bool { return n.has(in, match[1], match[2]) }) {
			missing = append(missing, match[1]+"."+match[2])
		}
	}
	return missing
}
