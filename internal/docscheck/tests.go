package docscheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// testName is a test, perhaps with one of its cases, as inline code.
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*|Example(?:[A-Z_]\\w*)?)(?:/([^`]+))?`")
	// testLink is a link whose text is the name of a test.
	testLink = regexp.MustCompile("\\[`((?:Test|Fuzz|Benchmark)[A-Z]\\w*|Example(?:[A-Z_]\\w*)?)(?:/[^`]+)?`\\]\\(([^)\\s]+)\\)")
	// testTitle is a link whose title is the name of a test.
	testTitle = regexp.MustCompile(`\]\(([^)\s]+) "((?:Test|Fuzz|Benchmark)[A-Z]\w*)"\)`)
	// promise is an entry of the guarantees in a doc.go, and promised its row in guarantees.md.
	promise  = regexp.MustCompile(`(?m)^//   - ((?:[a-z]+-)?[A-Z]\d+)[.:] `)
	promised = regexp.MustCompile(`^\| ((?:[a-z]+-)?[A-Z]\d+) \|(.*)\|\s*$`)
)

// guarantees is the page with a row for each promise.
const guarantees = "docs/reference/guarantees.md"

// Tests returns one line for each test that a page names, as inline code or as the title of a link,
// and that does not exist. The test must be in the linked file or, without a link, in any file. If
// the page names a case of the test, the case must be a string in the same file.
func Tests(repository fs.FS) ([]string, error) {
	byFile, err := testFiles(repository)
	if err != nil {
		return nil, err
	}
	pages, err := files(repository, ".md")
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, page := range pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		for _, line := range prose(string(text)) {
			for _, match := range testName.FindAllStringSubmatch(line.text, -1) {
				if !hasTest(byFile, match[1], match[2]) {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no test %s", page, line.number, strings.Trim(match[0], "`")))
				}
			}
			for _, match := range testLink.FindAllStringSubmatch(line.text, -1) {
				file, ok := byFile[path.Join(path.Dir(page), match[2])]
				if ok && !file.tests[match[1]] {
					problems = append(problems, fmt.Sprintf("%s:%d: %s is not in %s", page, line.number, match[1], match[2]))
				}
			}
			for _, match := range testTitle.FindAllStringSubmatch(line.text, -1) {
				if !byFile[path.Join(path.Dir(page), match[1])].tests[match[2]] {
					problems = append(problems, fmt.Sprintf("%s:%d: %s is not in %s", page, line.number, match[2], match[1]))
				}
			}
		}
	}
	return problems, nil
}

// testFile is the tests of one file, and its text for their cases.
type testFile struct {
	folder string
	tests  map[string]bool
	text   string
}

func testFiles(repository fs.FS) (map[string]testFile, error) {
	names, err := files(repository, ".go")
	if err != nil {
		return nil, err
	}
	found := map[string]testFile{}
	for _, name := range names {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		file := testFile{folder: path.Dir(name), tests: map[string]bool{}, text: string(text)}
		if strings.HasSuffix(name, "_test.go") {
			parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, declaration := range parsed.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
					file.tests[function.Name.Name] = true
				}
			}
		}
		found[name] = file
	}
	return found, nil
}

// hasTest reports whether a test exists and, in its folder, the case.
func hasTest(byFile map[string]testFile, name, of string) bool {
	for _, file := range byFile {
		if !file.tests[name] {
			continue
		}
		if of == "" || strings.Contains(file.text, `"`+of+`"`) {
			return true
		}
		for _, other := range byFile {
			if other.folder == file.folder && strings.Contains(other.text, `"`+of+`"`) {
				return true
			}
		}
	}
	return false
}

// Promises compares the guarantees of each doc.go with docs/reference/guarantees.md. It returns one line for
// each guarantee without a row under the heading of its package's folder. It also returns one line
// for each row without a test, and for each row without a guarantee.
func Promises(repository fs.FS) ([]string, error) {
	made, err := promises(repository)
	if err != nil {
		return nil, err
	}
	page, err := fs.ReadFile(repository, guarantees)
	if err != nil {
		return nil, err
	}
	var problems []string
	folder := ""
	for _, line := range prose(string(page)) {
		if match := heading.FindStringSubmatch(line.text); match != nil {
			folder = strings.Trim(match[1], "`")
		}
		match := promised.FindStringSubmatch(line.text)
		if match == nil {
			continue
		}
		if key := folder + "/doc.go promises " + match[1]; !made[key] {
			problems = append(problems, fmt.Sprintf("%s:%d: no %s, or there are two rows for it", guarantees, line.number, key))
		} else {
			delete(made, key)
		}
		if !testName.MatchString(match[2]) {
			problems = append(problems, fmt.Sprintf("%s:%d: no test is named for %s", guarantees, line.number, match[1]))
		}
	}
	for key := range made {
		problems = append(problems, fmt.Sprintf("%s, which has no row in %s", key, guarantees))
	}
	slices.Sort(problems)
	return problems, nil
}

// promises returns the guarantees of the importable packages, each as "folder/doc.go promises X1".
func promises(repository fs.FS) (map[string]bool, error) {
	sources, err := files(repository, ".go")
	if err != nil {
		return nil, err
	}
	made := map[string]bool{}
	for _, name := range sources {
		if path.Base(name) != "doc.go" || !importable(path.Dir(name)) {
			continue
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		for _, match := range promise.FindAllStringSubmatch(string(text), -1) {
			made[name+" promises "+match[1]] = true
		}
	}
	return made, nil
}
