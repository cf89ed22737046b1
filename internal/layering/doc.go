// Package layering holds a test of which packages may import which. It has no
// code of its own.
package layering
