package versions

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

type versioned string

func (v versioned) GetResourceVersion() string { return string(v) }

func TestOf(t *testing.T) {
	assert.Equal(t, "7", Of(versioned("7")), "it needs no UID")
	assert.Empty(t, Of("7"))
	assert.Empty(t, Of(nil))
}

func TestLater(t *testing.T) {
	for _, test := range []struct {
		version, than string
		want          bool
	}{
		{"10", "9", true},
		{"9", "10", false},
		{"9", "9", false},
		{"", "9", false},
		{"9", "", false},
		{"b", "a", false},
		{"9", "a", false},
	} {
		assert.Equal(t, test.want, Later(test.version, test.than), "%q, %q", test.version, test.than)
	}
}
