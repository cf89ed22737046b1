// Package panicked makes the errors of functions of a user that panicked, for package store and the
// packages around it, and bounds how many of them keep a stack.
package panicked
