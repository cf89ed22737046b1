package docscheck

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

var (
	// testName is a test, perhaps with one of its cases, as inline code.
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*|Example(?:[A-Z_]\\w*)?)(?:/([^`]+))?`")
	// testLink is a link whose text or title is the name of a test.
	testLink = regexp.MustCompile("\\[`((?:Test|Fuzz|Benchmark|Example)\\w*)(?:/[^`]+)?`\\]\\(([^)\\s]+_test\\.go)\\)|\\]\\(([^)\\s]+) \"((?:Test|Fuzz|Benchmark)[A-Z]\\w*)\"\\)")
)

// Tests returns one line for each test that a page names, as inline code or as the title of a link,
// and that does not exist. The test must be in the linked file or, without a link, in any file. If
// the page names a case of the test, the case must be a string in the same folder.
func Tests(r *Repository) []string {
	folders := map[string][]string{} // by test
	inFile := map[string]bool{}      // file and test
	texts := map[string]string{}     // by folder
	for _, source := range r.sources {
		texts[source.folder()] += source.text
		if !source.isTest() {
			continue
		}
		for _, declaration := range source.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				folders[function.Name.Name] = append(folders[function.Name.Name], source.folder())
				inFile[source.name+" "+function.Name.Name] = true
			}
		}
	}
	exists := func(test, of string) bool {
		for _, folder := range folders[test] {
			if of == "" || strings.Contains(texts[folder], `"`+of+`"`) {
				return true
			}
		}
		return false
	}
	var problems []string
	for _, line := range r.prose {
		for _, match := range testName.FindAllStringSubmatch(line.text, -1) {
			if !exists(match[1], match[2]) {
				problems = append(problems, line.wrong("there is no test %s", strings.Trim(match[0], "`")))
			}
		}
		for _, match := range testLink.FindAllStringSubmatch(line.text, -1) {
			test, file := match[1]+match[4], match[2]+match[3] // two of them are empty
			if !inFile[path.Join(path.Dir(line.file), file)+" "+test] {
				problems = append(problems, line.wrong("%s is not in %s", test, file))
			}
		}
	}
	return problems
}
