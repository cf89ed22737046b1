package inspect_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/kubereflector/kubereflector/informer/inspect"
)

func TestMemberThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		p := show("blocked", b)
		for range 20 {
			assert.Equal(t, []inspect.Member{{Name: "blocked", Reason: "no answer for 2s"}}, p.State().Members)
			assert.Equal(t, http.StatusOK, get(p, "/").Code)
		}
		assert.EqualValues(t, 1, b.asked.Load())
		close(b.release)
		synctest.Wait()
		assert.EqualValues(t, 1, b.asked.Load())
		assert.Equal(t, []inspect.Member{{Name: "blocked", Ready: true}}, fresh(p).Members)
		assert.EqualValues(t, 2, b.asked.Load(), "a late answer is not shown")
	})
}

func TestPanicOfAMemberIsShown(t *testing.T) {
	p := show("broken", panicking{})
	assert.Equal(t, []inspect.Member{{Name: "broken", Reason: "panic: ouch"}}, p.State().Members)
}
