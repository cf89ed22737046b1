package restguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked returns the seconds at which a question is asked that somebody wants answered all the time.
func asked(p *Pace, from time.Time, seconds int) (at []int) {
	for s := range seconds {
		if p.Due(from.Add(time.Duration(s) * time.Second)) {
			at = append(at, s)
		}
	}
	return at
}

func TestQuestionIsRepeatedOftenAtFirstAndSeldomLater(t *testing.T) {
	var p Pace
	now := time.Now()
	at := asked(&p, now, 3600)
	assert.Equal(t, []int{0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 46, 56, 66}, at[:15])
	assert.Less(t, len(at), 10+360, "six a minute")
	assert.False(t, p.Due(now.Add(time.Hour)))
}

func TestQuestionThatNobodyAskedForLongIsNew(t *testing.T) {
	var p Pace
	now := time.Now()
	assert.True(t, p.Idle(now))
	asked(&p, now, 57)
	later := now.Add(56*time.Second + 2*LongestPause)
	assert.False(t, p.Idle(later.Add(-time.Second)))
	assert.True(t, p.Idle(later))
	assert.Equal(t, []int{0, 1, 2, 3}, asked(&p, later, 4))
}
