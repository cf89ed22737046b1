package measure

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

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

func TestGateStopsHandlersWhileItIsShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate Gate
		gate.Pass()
		c := NewCounter(1)
		c.Expect(1)
		open := gate.Shut()
		go func() {
			gate.Pass()
			c.Handled(0)
		}()
		synctest.Wait()
		assert.Empty(t, c.Reached, "a handler passed the gate")
		open()
		assert.NoError(t, c.Wait())
	})
}

func TestContenderThatEndsIsNotWaitedFor(t *testing.T) {
	r := Start(func(context.Context) error { return io.ErrUnexpectedEOF })
	_, err := Wait(r, make(chan int))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorIs(t, r.Close(), io.ErrUnexpectedEOF)
}
