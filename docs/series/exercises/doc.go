// Package exercises has five programs with a question each: what does the program print, on the small
// types of examples/series and on the library? README.md lists them. The answers are in
// answers_test.go.
package exercises
