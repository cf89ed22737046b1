package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCounterReachesEachTarget(t *testing.T) {
	c := NewCounter(2)
	for _, objects := range []int{3, 1, 2} {
		c.Expect(objects)
		for range objects {
			assert.Empty(t, c.Reached, "too early")
			c.Handled(0)
			c.Handled(1)
		}
		assert.NoError(t, c.Wait())
	}
}

func TestHandlerThatIsCalledTooOftenIsAnError(t *testing.T) {
	c := NewCounter(2)
	c.Expect(1)
	for _, n := range []int{0, 1, 1} {
		c.Handled(n)
	}
	assert.ErrorContains(t, c.Wait(), "1 times too often")
}
