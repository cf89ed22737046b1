package store

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S11 while a list comes.

func TestBudgetBoundsAListWhileItComes(t *testing.T) {
	c, gathered := limited(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("held", 30, 1)}, "1"))
	batch, _ := begun(c)
	var err error
	n := 0
	for ; err == nil; n++ { // the list is never complete
		require.Less(t, n, 1_000_000)
		err = batch.Write(adding(sized(strconv.Itoa(n), 40, 2)))
		require.LessOrEqual(t, gathered(), int64(130))
	}
	require.ErrorIs(t, err, ErrOverBudget)
	require.ErrorContains(t, err, "beyond 100 bytes")
	assert.Zero(t, gathered())
	require.Equal(t, err, batch.Write(adding(sized("later", 1, 2))))
	require.Equal(t, err, batch.Commit("9"))
	batch.Discard()
	assert.Equal(t, []string{"held"}, namesOf(c), "what is held stays")
	assert.Equal(t, "1", c.ResourceVersion())
	assert.Zero(t, gathered())
}

func TestObjectsBeyondTheBudgetAreNotKeptUntilTheListIsComplete(t *testing.T) {
	c, _ := limited(t, 100)
	batch, _ := begun(c)
	require.NoError(t, batch.Write(adding(sized("a", 90, 1))))
	var over []weak.Pointer[corev1.Pod]
	for n := range 50 {
		p := sized(fmt.Sprint("over", n), 20, 1)
		over = append(over, weak.Make(p))
		require.NoError(t, batch.Write(adding(p)))
	}
	runtime.GC()
	for _, p := range over {
		require.Nil(t, p.Value())
	}
	var rejected *RejectedError
	require.ErrorAs(t, batch.Commit("9"), &rejected)
	assert.Len(t, rejected.Rejections, 50)
	assert.Equal(t, "over0", rejected.Rejections[0].Key.Name)
	assert.Equal(t, []string{"a"}, namesOf(c))
}

func TestListWhoseStateFitsTheBudgetIsTaken(t *testing.T) {
	for name, objects := range map[string][]*corev1.Pod{
		"the same": {sized("a", 60, 3), sized("b", 40, 3)},
		"others":   {sized("c", 100, 3)},
		"grown":    {sized("a", 100, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			c, gathered := limited(t, 100)
			require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 60, 1), sized("b", 40, 2)}, "2"))
			batch, err := begun(c, objects...)
			require.NoError(t, err)
			require.NoError(t, batch.Commit("9"))
			assert.Equal(t, len(objects), c.Len())
			assert.Equal(t, "9", c.ResourceVersion())
			assert.Zero(t, gathered())
		})
	}
}

func TestListStoresObjectsThatDoNotGrowAfterOthersFilledTheBudget(t *testing.T) {
	c, gathered := limited(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("z", 50, 1)}, "1"))
	batch, err := begun(c, sized("a1", 50, 2), sized("a2", 50, 2), sized("a3", 50, 2), sized("z", 50, 2))
	require.NoError(t, err)
	require.ErrorIs(t, batch.Commit("9"), ErrOverBudget)
	assert.Equal(t, []string{"a1", "z"}, namesOf(c))
	held, _ := c.Get(Key{Namespace: "n", Name: "z"})
	assert.Equal(t, "2", held.ResourceVersion)
	assert.Zero(t, gathered())
}

func TestListThatFilledTheBudgetKeepsNoOtherFromItsHeldObjects(t *testing.T) {
	c, b := budgeted(t, 100)
	endless, other := partition(t, c, Scope{Namespace: "m"}), partition(t, c, Scope{Namespace: "n"})
	require.NoError(t, other.Replace([]*corev1.Pod{sized("a", 40, 1), sized("b", 40, 1)}, "1"))
	batch, _ := begun(endless)
	for i := range 20 {
		p := sized(strconv.Itoa(i), 20, 2)
		p.Namespace = "m"
		require.NoError(t, batch.Write(adding(p)))
	}
	assert.EqualValues(t, 100, b.pending)
	again, err := begun(other, sized("a", 40, 3), sized("b", 30, 3))
	require.NoError(t, err)
	require.NoError(t, again.Commit("3"))
	assert.Equal(t, "3", other.ResourceVersion())
	assert.EqualValues(t, 70, b.Bytes())
	batch.Discard()
	assert.Zero(t, b.pending)
	assert.Zero(t, b.growing)
}

func TestListsThatEndGiveBackTheirShareOfTheBudget(t *testing.T) {
	c := newPods()
	b, err := AddBudget(c, 100, sizeOfPod)
	require.NoError(t, err)
	gathered := func() int64 { return b.pending }
	for name, end := range map[string]func(Batch[*corev1.Pod]){
		"discarded": func(b Batch[*corev1.Pod]) { b.Discard() },
		"committed": func(b Batch[*corev1.Pod]) { require.NoError(t, b.Commit("9")) },
		"dropped": func(b Batch[*corev1.Pod]) {
			require.NoError(t, b.Write(deleting(sized("a", 80, 2))))
			require.NoError(t, b.Commit("9"))
		},
	} {
		batch, err := begun(c, sized("a", 80, 1))
		require.NoError(t, err)
		require.EqualValues(t, 80, gathered(), name)
		end(batch)
		require.Zero(t, gathered(), name)
		batch.Discard()
		require.Zero(t, gathered(), name)
		require.NoError(t, c.Replace(nil, ""))
	}
}

// A watch-list may go on for long while objects change and go.
func TestListKeepsNoStatesThatItSupersedes(t *testing.T) {
	c := newPods()
	values := indexed(t, c, func(p *corev1.Pod) []string { return []string{p.ResourceVersion} })
	batch, err := begun(c)
	require.NoError(t, err)
	for n := range 20 * maxScratch {
		p := pod("n", strconv.Itoa(n%10), "u", strconv.Itoa(n))
		require.NoError(t, batch.Write(adding(p)))
		require.NoError(t, batch.Write(deleting(pod("n", fmt.Sprint("gone", n), "u", "1"))))
		require.LessOrEqual(t, values(), 2*maxScratch)
	}
	for n := range 20 * maxScratch { // in the order of keys
		require.NoError(t, batch.Write(deleting(pod("z", fmt.Sprintf("%06d", n), "u", "1"))))
	}
	assert.LessOrEqual(t, len(batch.(*replaceBatch[*corev1.Pod]).writes), 4*maxScratch)
	require.NoError(t, batch.Commit("9"))
	assert.Equal(t, 10, c.Len())
	assert.Equal(t, 10, values())
}

// A watch-list names a key again while it goes on.
func TestBudgetCountsTheLastWordOnAKeyOfAList(t *testing.T) {
	c, gathered := limited(t, 100)
	batch, err := begun(c, sized("a", 40, 1), sized("a", 40, 2), sized("a", 60, 3))
	require.NoError(t, err)
	assert.EqualValues(t, 60, gathered())
	require.NoError(t, batch.Write(deleting(sized("a", 60, 4))))
	assert.Zero(t, gathered())
	require.NoError(t, batch.Write(adding(sized("b", 100, 5))))
	batch.Keep(Key{Namespace: "n", Name: "b"})
	assert.Zero(t, gathered())
	require.NoError(t, batch.Write(adding(sized("b", 100, 6))))
	require.NoError(t, batch.Commit("9"))
	assert.Equal(t, []string{"b"}, namesOf(c))
	assert.Equal(t, "9", c.ResourceVersion())
	assert.Zero(t, gathered())
}

func TestEndlessListOfNamelessObjectsEnds(t *testing.T) {
	c, _ := limited(t, 100)
	batch, err := begun(c)
	require.NoError(t, err)
	n := 0
	for ; err == nil; n++ {
		require.LessOrEqual(t, n, maxOverBudget)
		err = batch.Write(adding(nameless("1")))
	}
	require.ErrorIs(t, err, ErrOverBudget)
	batch.Keep(Key{Name: "a"})
	require.Equal(t, err, batch.Commit("9"))
}

func TestEndlessListOfOneKeyEnds(t *testing.T) {
	c, _ := limited(t, 100)
	batch, err := begun(c)
	require.NoError(t, err)
	for n := range maxOverBudget {
		require.NoError(t, batch.Write(adding(sized("a", 101, n))))
	}
	require.ErrorIs(t, batch.Write(adding(sized("a", 101, 1))), ErrOverBudget)
}
