// Package versions compares resource versions.
package versions
