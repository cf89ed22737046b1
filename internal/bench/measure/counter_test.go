package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHandlerThatIsCalledTooOftenIsAnError(t *testing.T) {
	c := NewCounter(2)
	c.Expect(1)
	for range 3 {
		c.Handled()
	}
	assert.ErrorContains(t, c.Wait(), "1 times too often")
}
