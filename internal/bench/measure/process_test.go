package measure

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

type task struct{ Objects float64 }

var count = InProcess("count", func(t task) (Figures, error) {
	if t.Objects == 0 {
		return nil, errors.New("there are no objects")
	}
	return Figures{"objects": t.Objects, "process": float64(os.Getpid())}, nil
})

func TestProcessOfItsOwnMeasures(t *testing.T) {
	figures, err := count(task{Objects: 7})
	require.NoError(t, err)
	assert.Equal(t, 7.0, figures["objects"])
	assert.NotEqual(t, float64(os.Getpid()), figures["process"])
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	_, err := count(task{})
	assert.ErrorContains(t, err, "there are no objects")
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
