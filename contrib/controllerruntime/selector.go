package controllerruntime

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// implies reports whether every object that one selector selects is also selected by another. It may
// return false for selectors that imply the other in a way that it does not know.
func implies(selector, other labels.Selector) bool {
	wanted, selectable := other.Requirements()
	if !selectable {
		return false // other selects nothing
	}
	if selector == nil {
		return len(wanted) == 0
	}
	given, selectable := selector.Requirements()
	if !selectable {
		return true // selector selects nothing
	}
	for i := range wanted {
		if !slices.ContainsFunc(given, func(r labels.Requirement) bool { return requires(&r, &wanted[i]) }) {
			return false
		}
	}
	return true
}

// requires reports whether one requirement implies another.
func requires(given, wanted *labels.Requirement) bool {
	key := wanted.Key()
	if given.Key() != key {
		return false
	}
	switch given.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		for value := range given.Values() {
			if !wanted.Matches(labels.Set{key: value}) {
				return false
			}
		}
		return true
	case selection.DoesNotExist:
		return wanted.Matches(labels.Set{})
	case selection.NotEquals, selection.NotIn:
		excludes := wanted.Operator() == selection.NotEquals || wanted.Operator() == selection.NotIn
		return excludes && given.Values().IsSuperset(wanted.Values())
	case selection.Exists, selection.GreaterThan, selection.LessThan:
		return wanted.Operator() == selection.Exists || given.Equal(*wanted)
	}
	return false
}
