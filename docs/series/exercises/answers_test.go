package exercises

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The relist shows only the difference between the cache and the list: first the deletions, then
// the objects of the list. The states between are lost, so "a" never is "two", and the last state
// of "b" is unknown. "c" never was in the cache.
func TestExpired(t *testing.T) {
	assert.Equal(t, `Addition of a: prior none, now one (initial)
Addition of b: prior none, now one (initial)
-- the watch ends with a 410
Deletion of b: prior one, now one (final state unknown)
Modification of a: prior one, now three
`, run(t, expired))
}

// The queue of an object merges its modifications. It never merges two objects: a new UID under an
// old key is a deletion and an addition.
func TestRecreated(t *testing.T) {
	assert.Equal(t, `Addition of a: prior none, now one
-- the handler returns
Modification of a: prior one, now three
Addition of b: prior none, now one
-- the handler returns
Deletion of b: prior one, now one
Addition of b: prior none, now two
`, run(t, recreated))
}

// The second subscriber starts from the cache, as a list would. A shared informer has one watch.
func TestLate(t *testing.T) {
	assert.Equal(t, `Addition of a: prior none, now one (initial)
Addition of b: prior none, now two (initial)
-- a changes
Modification of a: prior one, now two
requests: 0
`, run(t, late))
}

// A failed queue keeps its events and merges new ones into them. A new event of the object brings the
// next attempt forward, but only one in each back-off, because an object that changes all the time
// would otherwise have no back-off at all: "three" waits for the end of the hour. The addition of "a"
// was never acknowledged, so it stays an addition. Other objects do not wait.
func TestFailing(t *testing.T) {
	assert.Equal(t, `Addition of a: prior none, now one
  fails
Addition of b: prior none, now one
-- a changes to two
Addition of a: prior none, now two
  fails
-- a changes to three
-- the hour ends
Addition of a: prior none, now three
`, run(t, failing))
}

// A resync repeats only objects without a waiting event, and comes after live events. It never
// brings back a deleted object.
func TestResync(t *testing.T) {
	assert.Equal(t, `Addition of a: prior none, now one
Addition of b: prior none, now one
Addition of c: prior none, now one
-- after the resync
Modification of b: prior one, now two
Deletion of c: prior one, now one
Modification of a: prior one, now one (resync)
`, run(t, resync))
}
