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

func TestBudgetBoundsAListWhileItComes(t *testing.T) {
	c, gathered := limited(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("held", 30, 1)}, "1"))
	stage := StageOf(Store[*corev1.Pod](c))
	var err error
	n := 0
	for ; err == nil; n++ { // the list is never complete
		require.Less(t, n, 1_000_000)
		err = stage.Put(sized(strconv.Itoa(n), 40, 2), Identity{})
		require.LessOrEqual(t, gathered(), int64(130))
	}
	require.ErrorIs(t, err, ErrOverBudget)
	var ended *listBudgetError
	require.ErrorAs(t, err, &ended)
	assert.EqualValues(t, 100, ended.Limit)
	assert.Zero(t, gathered())
	require.Equal(t, err, stage.Put(sized("later", 1, 2), Identity{}))
	require.Equal(t, err, complete(stage, "9"))
	stage.Discard()
	assert.Equal(t, []string{"held"}, namesOf(c), "what is held stays")
	assert.Equal(t, "1", c.ResourceVersion())
	assert.Zero(t, gathered())
}

func TestObjectsBeyondTheBudgetAreNotKeptUntilTheListIsComplete(t *testing.T) {
	c, _ := limited(t, 100)
	stage := StageOf(Store[*corev1.Pod](c))
	require.NoError(t, stage.Put(sized("a", 90, 1), Identity{}))
	var over []weak.Pointer[corev1.Pod]
	for n := range 50 {
		p := sized(fmt.Sprint("over", n), 20, 1)
		over = append(over, weak.Make(p))
		require.NoError(t, stage.Put(p, Identity{}))
	}
	runtime.GC()
	for _, p := range over {
		require.Nil(t, p.Value())
	}
	var rejected *RejectedError
	require.ErrorAs(t, complete(stage, "9"), &rejected)
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
			stage, err := list(c, objects...)
			require.NoError(t, err)
			require.NoError(t, complete(stage, "9"))
			assert.Equal(t, len(objects), c.Len())
			assert.Equal(t, "9", c.ResourceVersion())
			assert.Zero(t, gathered())
		})
	}
}

func TestListsThatEndGiveBackTheirShareOfTheBudget(t *testing.T) {
	c := newPods()
	b, err := AddBudget(c, 100, func(p *corev1.Pod) int64 {
		if p.Name == "exit" {
			runtime.Goexit()
		}
		return sizeOfPod(p)
	})
	require.NoError(t, err)
	gathered := func() int64 { return b.fresh + b.same }
	for name, end := range map[string]func(Stage[*corev1.Pod]){
		"discarded": func(s Stage[*corev1.Pod]) { s.Discard() },
		"committed": func(s Stage[*corev1.Pod]) { require.NoError(t, complete(s, "9")) },
		"dropped":   func(s Stage[*corev1.Pod]) { s.Drop(0) },
		"ended goroutine": func(s Stage[*corev1.Pod]) {
			inGoroutine(func() {
				defer s.Discard()
				_ = s.Put(sized("exit", 1, 1), Identity{})
			})
		},
	} {
		stage, err := list(c, sized("a", 80, 1))
		require.NoError(t, err)
		require.EqualValues(t, 80, gathered(), name)
		end(stage)
		require.Zero(t, gathered(), name)
		stage.Discard()
		require.Zero(t, gathered(), name)
		require.NoError(t, c.Replace(nil, ""))
	}
}

func TestDroppedObjectOfAListIsNotKept(t *testing.T) {
	c := newPods()
	values := indexed(t, c, func(p *corev1.Pod) []string { return []string{p.Name} })
	stage := StageOf(Store[*corev1.Pod](c))
	p := pod("n", "a", "u", "1")
	object := weak.Make(p)
	require.NoError(t, stage.Put(p, Identity{}))
	p = nil
	stage.Drop(0)
	runtime.GC()
	assert.Nil(t, object.Value())
	assert.Zero(t, values())
	require.NoError(t, complete(stage, "9"))
	assert.Zero(t, c.Len())
}
