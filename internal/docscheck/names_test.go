package docscheck

import (
	"slices"
	"strings"
	"testing"
)

func TestPackages(t *testing.T) {
	check(t, "Packages", map[string]string{
		"good/doc.go":            "// Package good is good.\npackage good",
		"good/testdata/x.go":     "package x",
		"none/none.go":           "// Package none has its comment in the wrong place.\npackage none",
		"silent/doc.go":          "//go:build linux\n\npackage silent",
		"directive/doc.go":       "//go:generate true\npackage directive",
		"command/main.go":        "// Command command is good.\npackage main",
		"mute/main.go":           "package main",
		"onlytests/some_test.go": "package onlytests",
		"internal/deep/deep.go":  "package deep",
	},
		"none: the package has no doc.go",
		"silent/doc.go: it has no package comment",
		"directive/doc.go: it has no package comment",
		"mute: no file says in a package comment what the command does",
		"internal/deep: the package has no doc.go",
	)
}

func TestNames(t *testing.T) {
	tests := map[string]struct {
		source string
		wrong  []string
	}{
		"functions":                 {"// F is good.\nfunc F() {}\nfunc G() {}\nfunc g() {}", []string{"G:4"}},
		"a directive is no comment": {"//go:noinline\nfunc F() {}", []string{"F:3"}},
		"types":                     {"// T is good.\ntype T int\ntype U int\ntype u int", []string{"U:4"}},
		"a group of types":          {"// All are good.\ntype (\n// T is good.\nT int\nU int\n)", []string{"U:6"}},
		"methods": {"// T is good.\ntype T[A, B any] struct{}\n// M is good.\nfunc (T[A, B]) M() {}\nfunc (t *T[A, B]) N() {}\n" +
			"type hidden struct{}\nfunc (hidden) String() string { return \"\" }", []string{"N:6"}},
		"a method of one parameter":    {"// T is good.\ntype T[A any] struct{}\nfunc (t *T[A]) N() {}", []string{"N:4"}},
		"constants and variables":      {"// A is good.\nconst A = 1\nconst B, c = 1, 2\nvar D int // D is good.\nvar E int", []string{"B:4", "E:6"}},
		"a group with one comment":     {"// All are good.\nconst (\nA = iota\nB\n)", nil},
		"a group with some comments":   {"const (\nA = 1 // A is good.\n// B is good.\nB = 2\nC = 3\n)", []string{"C:6"}},
		"fields and interface methods": {"// T is good.\ntype T struct{ A int }\n// I is good.\ntype I interface{ M() }", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, wrong := range test.wrong {
				name, line, _ := strings.Cut(wrong, ":")
				want = append(want, "a/b/c.go:"+line+": "+name+" is exported and has no comment")
			}
			check(t, "Names", map[string]string{"a/b/c.go": "package b\n" + test.source}, want...)
		})
	}
}

func TestNamesThatNobodyCanImportNeedNoComment(t *testing.T) {
	const source = "\nfunc F() {}"
	check(t, "Names", map[string]string{
		"internal/a/a.go":     "package a" + source,
		"a/internal/b/b.go":   "package b" + source,
		"examples/a/a.go":     "package a" + source,
		"command/main.go":     "package main" + source,
		"a/a_test.go":         "package a" + source,
		"contrib/nested/a.go": "package nested" + source,
	}, "contrib/nested/a.go:2: F is exported and has no comment")
}

func TestBudgets(t *testing.T) {
	repository := load(t, map[string]string{
		"a/doc.go":    "package a\n\ntype T[X any] struct{}\n\nfunc (T[X]) M() {}\nfunc (*T[X]) N() {}\nfunc (T[X]) m() {}\n\ntype t int\n\nfunc (t) M() {}\n",
		"a/more.go":   "package a\n\nconst C, d = 1, 2\n\nvar V int\n\nfunc F() {}\n",
		"a/a_test.go": "package a\n\nfunc Helper() {}\n",
		"b/doc.go":    "package b\n",
	})
	if got := checks["Budgets"](repository); len(got) < len(budgets) {
		t.Errorf("got %q for a repository without the packages", got)
	}
	got := compareBudgets(repository, map[string]exports{"a": {3, 3}, "b": {}, "c": {1, 0}})
	want := []string{
		"a exports 4 names, 1 more than its budget: unexport some, or raise the budget with a reason",
		"a exports 2 methods: lower its budget from 3",
		"c exports 0 names: lower its budget from 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q and not %q", got, want)
	}
}

func TestMentions(t *testing.T) {
	const source = `package shelf

type Shelf[T any] struct {
	inner[T]
	Wide bool
}

func (s *Shelf[T]) Put(T) {}

type inner[T any] struct{}

func (i *inner[T]) Take() {}

type Reader interface{ Read() }

type Alias = other.Thing

func New() {}

const Size = 1
`
	tests := map[string]pageTest{
		"what there is":          {"`shelf.New` `shelf.Shelf[T]` `shelf.Shelf.Put` `Shelf[T].Put(x)` `shelf.Size` `shelf.Shelf.Wide` `Reader.Read`", nil},
		"lent by a field":        {"`Shelf.Take`", nil},
		"of another package":     {"`shelf.Alias.Anything` `cache.Store` `Indexer.Index` `s.Put` `x.shelf.go`", nil},
		"no such name":           {"\n`shelf.Old`", []string{"docs/page.md:2: there is no shelf.Old"}},
		"no such member":         {"`shelf.Shelf.Get` `Shelf.Give()`", []string{"docs/page.md:1: there is no shelf.Shelf.Get", "docs/page.md:1: there is no Shelf.Give"}},
		"a member of a function": {"`shelf.New.Name`", []string{"docs/page.md:1: there is no shelf.New.Name"}},
		"in a diagram":           {"```mermaid\nflowchart LR\na[\"shelf.Old\"]\n```", []string{"docs/page.md:3: there is no shelf.Old"}},
		"not in code":            {"shelf.Old", nil},
	}
	each(t, "Mentions", "docs/page.md", tests, map[string]string{"shelf/shelf.go": source})
}

func TestAttached(t *testing.T) {
	check(t, "Attached", map[string]string{
		"a/a.go": "package a\n\ntype View struct{}\n\nfunc (v *View) All() {}\n\ntype Cache struct{ View }\n\nfunc New() {}\n",
		"a/a_test.go": "package a_test\n\nfunc Example() {}\nfunc Example_more() {}\nfunc ExampleNew() {}\nfunc ExampleNew_twice() {}\n" +
			"func ExampleView_All() {}\nfunc ExampleView_All_more() {}\nfunc ExampleCache() {}\n" +
			"func ExampleCache_All() {}\nfunc ExampleOther() {}\nfunc ExampleNew_Twice() {}\n",
	},
		"a/a_test.go:10: go doc does not show ExampleCache_All: its package declares no Cache.All",
		"a/a_test.go:11: go doc does not show ExampleOther: its package declares no Other",
		"a/a_test.go:12: go doc does not show ExampleNew_Twice: its package declares no New.Twice",
	)
}
