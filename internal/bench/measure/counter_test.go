package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHandlerThatIsCalledTooOftenIsAnError(t *testing.T) {
	c := NewCounter(2)
	c.Expect(1)
	for _, n := range []int{0, 1, 1} {
		c.Handled(n)
	}
	assert.ErrorContains(t, c.Wait(), "1 times too often")
}
