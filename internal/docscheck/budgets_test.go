package docscheck

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestBudgetsAreExact(t *testing.T) {
	repository := fstest.MapFS{
		"a/doc.go":    {Data: []byte("package a\n\ntype T[X any] struct{}\n\nfunc (T[X]) M() {}\nfunc (*T[X]) N() {}\nfunc (T[X]) m() {}\n\ntype t int\n\nfunc (t) M() {}\n")},
		"a/more.go":   {Data: []byte("package a\n\nconst C, d = 1, 2\n\nvar V int\n\nfunc F() {}\n")},
		"a/a_test.go": {Data: []byte("package a\n\nfunc Helper() {}\n")},
		"b/doc.go":    {Data: []byte("package b\n")},
	}
	for name, test := range map[string]struct {
		budgets map[string]exports
		want    []string
	}{
		"met":    {map[string]exports{"a": {4, 2}, "b": {}}, nil},
		"passed": {map[string]exports{"a": {3, 2}}, []string{"a exports 4 names, 1 more than its budget: unexport some, or raise the budget with a reason"}},
		"loose":  {map[string]exports{"a": {4, 3}}, []string{"a exports 2 methods: lower its budget from 3"}},
		"gone":   {map[string]exports{"c": {1, 0}}, []string{"c exports 0 names: lower its budget from 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := compareBudgets(repository, test.budgets)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v and not %q", got, err, test.want)
			}
		})
	}
}
