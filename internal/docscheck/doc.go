// Package docscheck checks the documentation of this repository, as far as a program can: links lead somewhere, code that is
// shown compiles, names and tests that are named exist, diagrams can be drawn, every package begins with its contract, and every exported name is explained.
// Its own test runs the checks on the repository, so go test ./... does.
//
//   - [Links]: every relative link of a Markdown file leads to a file or folder of the repository, and to a heading if it names one.
//   - [Excerpts]: every Go block of a page that is no whole program is part of a Go file that the page links to.
//   - [Mentions]: every name that a page calls one of ours, in inline code or in a diagram, is exported by its package.
//   - [Commands]: every command of a page that runs or tests a folder of this repository names one that exists.
//   - [Outputs]: what a page shows as printed by an example is what the example's tests expect.
//   - [Examples]: every example has a row in examples/README.md.
//   - [Figures]: every number that links to a page stands on that page.
//   - [Tests]: every test that a page names exists, where its link leads.
//   - [Promises]: every promise of a doc.go has its row, with a test, in docs/reference/guarantees.md.
//   - [Mermaid]: every line of a diagram is understood, and what it draws is declared.
//   - [Colours]: diagrams use the colours that all pages share, and each participant of a sequence diagram has the colour of its goroutine.
//   - [Packages]: every package has a doc.go with its comment; a command may keep it in any of its files.
//   - [Budgets]: no package exports more names or methods than its budget, which only goes down.
//   - [Names]: every exported type, function, method, constant and variable of a package that others can import has a comment.
//
// Besides, a test builds every whole program that a page shows, and one runs every command that needs no cluster and compares what it prints with what the
// page says. That one takes a while, so it is a step of CI of its own: go test ./internal/docscheck -run TestCommandsPrintWhatThePagesSay -commands.
//
// All take a file system, so that their tests need none. Nested modules are checked too; what git does not show (names that begin with a dot), testdata
// and vendored code are not.
package docscheck
