package controllerruntime

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
)

func TestSelectorsThatImplyOthers(t *testing.T) {
	for _, test := range []struct {
		selector, other string
		want            bool
	}{
		{"a=1", "a=1", true},
		{"a=1,b=2", "a=1", true},
		{"a=1", "a=1,b=2", false},
		{"a=1", "a=2", false},
		{"b=1", "a=1", false},
		{"a in (1,2)", "a in (1,2,3)", true},
		{"a in (1,4)", "a in (1,2,3)", false},
		{"a=1", "a", true},
		{"a=1", "a!=2", true},
		{"a=1", "a!=1", false},
		{"a=1", "!a", false},
		{"!a", "!a", true},
		{"!a", "a!=1", true},
		{"!a", "a", false},
		{"a notin (1,2)", "a!=1", true},
		{"a!=1", "a notin (1,2)", false},
		{"a!=1", "a", false},
		{"a", "a", true},
		{"a", "a!=1", false},
		{"a>5", "a>5", true},
		{"a>5", "a", true},
		{"a>6", "a>5", false}, // not known
		{"a=7", "a>5", true},
		{"a in (4,7)", "a>5", false},
		{"", "a=1", false},
		{"a=1", "", true},
	} {
		selector, err := labels.Parse(test.selector)
		require.NoError(t, err)
		other, err := labels.Parse(test.other)
		require.NoError(t, err)
		assert.Equal(t, test.want, implies(selector, other), "%s implies %s", test.selector, test.other)
	}
	assert.False(t, implies(nil, mine))
	assert.False(t, implies(mine, labels.Nothing()))
	assert.True(t, implies(labels.Nothing(), mine))
}
