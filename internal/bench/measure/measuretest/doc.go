// Package measuretest has what the tests of all comparisons have in common.
package measuretest
