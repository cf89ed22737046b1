// Package lifecycle has what all types with a Run share: one Run at a time, a state that others read
// and wait for, what happens once, and the error handler of a user. It reaches no other package of
// this module, so that all of them may use it. How a program ends is in docs/maintainers/shutdown.md.
package lifecycle
