// Package docscheck checks what the documentation of this repository promises its readers, as far as a program can: links lead somewhere, every
// package begins with its contract, and every exported name is explained. Its own test runs the checks on the repository, so go test ./... does.
//
//   - [Links]: every relative link of a Markdown file leads to a file or folder of the repository, and to a heading if it names one.
//   - [Packages]: every package has a doc.go with its comment; a command may keep it in any of its files.
//   - [Excerpts]: every Go block of a page that shows parts of a Go file is in that file.
//   - [Names]: every exported type, function, method, constant and variable of a package that others can import has a comment.
//
// Besides, a test builds every whole program that the README shows.
//
// All take a file system, so that their tests need none. Nested modules are checked too; what git does not show (names that begin with a dot), testdata
// and vendored code are not.
package docscheck
