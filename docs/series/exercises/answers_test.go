package exercises

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both list again, and compare the list with what is known. The states between are lost, so "a" never
// is "two", the last state of "b" is unknown, and no handler hears of "d".
//
// The small types turn each object of the list into an event first, also the unchanged "c", and then
// add the deletions. The library makes events of the difference only, first the deletions.
func TestExpired(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one
Addition of b: prior none, now one
Addition of c: prior none, now one
-- the server goes away, and comes back
Modification of a: prior one, now three
Modification of c: prior one, now one
Deletion of b: prior none, now one
`, output(t, expired, onModel))
	})
	t.Run("the library", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one (initial)
Addition of b: prior none, now one (initial)
Addition of c: prior none, now one (initial)
-- the server goes away, and comes back
Deletion of b: prior one, now one (final state unknown)
Modification of a: prior one, now three
`, output(t, expired, onLibrary))
	})
}

// This is the bug of 2018. The deletion of "b" still waits when the list comes, and a queue that ends
// with a deletion ignores what a list says about its object. So the new "b" is lost, and stays unknown
// until it changes. The small types also keep each change of "a", and add one for the list.
//
// The library merges the changes of "a". It never merges two objects: a new UID under an old key is a
// deletion and an addition.
func TestRecreated(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one
Addition of b: prior none, now one
Modification of a: prior one, now two
-- the handler returns
Modification of a: prior two, now three
Modification of a: prior three, now four
Modification of a: prior four, now four
Deletion of b: prior none, now one
known: [a]
`, output(t, recreated, onModel))
	})
	t.Run("the library", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one (initial)
Addition of b: prior none, now one (initial)
Modification of a: prior one, now two
-- the handler returns
Modification of a: prior two, now four
Deletion of b: prior one, now one
Addition of b: prior none, now five
known: [a b]
`, output(t, recreated, onLibrary))
	})
}

// A shared informer has one watch, so a second handler costs no request. The small type passes on only
// what comes from now on, as the Java outcome; client-go 6.0 sent the stored objects first. The second
// handler of the library starts from the cache, as a list would.
func TestLate(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		assert.Equal(t, `-- a changes
Modification of a: prior one, now two
requests: 0
`, output(t, late, onSharedModel))
	})
	t.Run("the library", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one (initial)
Addition of b: prior none, now two (initial)
-- a changes
Modification of a: prior one, now two
requests: 0
`, output(t, late, onLibrary))
	})
}

// On neither side does "b" wait for "a". The loop of the small types drops errors, so they go on as if
// the handler had succeeded: "a" is handled only because it changes again, and "c" never is.
//
// A failed queue of the library keeps its events and merges new ones into them. The addition of "a" was
// never acknowledged, so it stays an addition. A new event brings the next attempt forward, but only
// one in each back-off, because an object that changes all the time would otherwise have no back-off at
// all: "three" waits for the end of the hour.
func TestFailing(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one
  fails
Addition of b: prior none, now one
-- a changes to two
Modification of a: prior one, now two
  fails
-- a changes to three
Modification of a: prior two, now three
-- the hour ends
-- c is created
Addition of c: prior none, now one
  fails
-- another hour ends
`, output(t, failing, onModel))
	})
	t.Run("the library", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one
  fails
Addition of b: prior none, now one
-- a changes to two
Addition of a: prior none, now two
  fails
-- a changes to three
-- the hour ends
Addition of a: prior none, now three
-- c is created
Addition of c: prior none, now one
  fails
-- another hour ends
Addition of c: prior none, now one
`, output(t, failing, onLibrary))
	})
}

// A resync repeats the known objects that have no waiting event: not "b". It comes after live events.
//
// For the small types, as for the Java outcome, "a" has none either, because the consumer has taken it,
// and what is known of "a" is still "one". So the resync brings the old state back. In the library, a
// queue that was taken counts until it is acknowledged, and the cache has had "two" all the time.
func TestResync(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one
Addition of b: prior none, now one
Addition of c: prior none, now one
-- after the resync
Modification of a: prior one, now two
Deletion of b: prior none, now one
Modification of a: prior two, now one (sync)
Modification of c: prior one, now one (sync)
`, output(t, resync, onModel))
	})
	t.Run("the library", func(t *testing.T) {
		assert.Equal(t, `Addition of a: prior none, now one
Addition of b: prior none, now one
Addition of c: prior none, now one
-- after the resync
Modification of a: prior one, now two
Deletion of b: prior one, now one
Modification of c: prior one, now one (resync)
`, output(t, resync, onLibrary))
	})
}
