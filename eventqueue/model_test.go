package eventqueue

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// consumer is a handler as the guarantees of the package see it: what it has
// acknowledged is all that it knows.
type consumer struct {
	policy Compaction
	known  map[store.Key]*thing
}

// check holds a queue to the guarantees: it starts from what was acknowledged,
// and each event follows from the one before. It returns the state at the end.
func (c *consumer) check(t require.TestingT, q *Queue[*thing]) *thing {
	state := c.known[q.Key()]
	first := true
	for e := range q.Events() {
		require.Equal(t, q.Key(), e.Key)
		require.Equal(t, q.Key().Name, e.Object.name)
		switch e.Type {
		case Addition:
			require.Nil(t, state, "addition of an object that is there")
			require.False(t, e.PriorKnown)
		case Modification:
			require.NotNil(t, state, "modification of an object that is not there")
			require.Same(t, state, e.Prior)
		case Deletion:
			// One that was tried only is deleted without a known prior.
			require.Equal(t, state != nil, e.PriorKnown)
			if state != nil {
				require.Same(t, state, e.Prior)
			}
		}
		if first && c.known[q.Key()] != nil {
			require.Same(t, c.known[q.Key()], e.Prior, "the first prior is what was acknowledged")
		}
		first = false
		if state = e.Object; e.Type == Deletion {
			state = nil
		}
	}
	if c.policy == KeepLatest {
		require.LessOrEqual(t, q.Len(), 3)
	}
	return state
}

// TestCollectionAgainstAModel runs random histories of writes and of ways to
// settle, with several queues out at a time. Whatever happens, each queue is
// legal, and in the end the consumer knows what the cache holds.
func TestCollectionAgainstAModel(t *testing.T) {
	for _, policy := range []Compaction{KeepAll, KeepLatest} {
		t.Run(policy.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { runModel(rt, policy) })
		})
	}
}

func runModel(rt *rapid.T, policy Compaction) {
	c := newThings(WithCompaction(policy), WithBackoff(time.Nanosecond, time.Nanosecond))
	defer c.Close()
	con := &consumer{policy, map[store.Key]*thing{}}
	var out []*Queue[*thing]
	ends := map[*Queue[*thing]]*thing{}
	version := 0
	draw := func() *thing {
		version++
		return &thing{
			name:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"),
			uid:     types.UID(rapid.SampledFrom([]string{"u", "v", ""}).Draw(rt, "uid")),
			version: strconv.Itoa(version),
		}
	}
	takeOne := func(t require.TestingT) bool {
		q, err := c.tryTake()
		require.NoError(t, err)
		if q == nil {
			return false
		}
		for _, other := range out {
			require.NotEqual(t, other.Key(), q.Key(), "two queues of one key are out")
		}
		ends[q] = con.check(t, q)
		out = append(out, q)
		return true
	}
	settle := func(i int, how string) {
		q := out[i]
		out = append(out[:i], out[i+1:]...)
		switch how {
		case "done":
			if con.known[q.Key()] = ends[q]; ends[q] == nil {
				delete(con.known, q.Key())
			}
			q.Done()
		case "fail":
			q.Fail(errors.New("no"))
		case "break":
			q.of.settle(q, outcome{})
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"put":    func(rt *rapid.T) { require.NoError(rt, c.Add(draw())) },
		"delete": func(rt *rapid.T) { require.NoError(rt, c.Delete(draw())) },
		"replace": func(rt *rapid.T) {
			var next []*thing
			for _, o := range c.Cache().All() {
				if rapid.Bool().Draw(rt, "stays") {
					next = append(next, o)
				}
			}
			for range rapid.IntRange(0, 3).Draw(rt, "n") {
				next = append(next, draw())
			}
			version++
			require.NoError(rt, c.Replace(next, strconv.Itoa(version)))
		},
		"resync": func(*rapid.T) { c.Resync() },
		"take":   func(rt *rapid.T) { takeOne(rt) },
		"settle": func(rt *rapid.T) {
			if len(out) == 0 {
				rt.Skip()
			}
			settle(rapid.IntRange(0, len(out)-1).Draw(rt, "which"), rapid.SampledFrom([]string{"done", "fail", "break"}).Draw(rt, "how"))
		},
	})

	version++
	require.NoError(rt, c.Replace(nil, strconv.Itoa(version)))
	require.NoError(rt, c.Add(draw()))
	for len(out) > 0 {
		settle(0, "done")
	}
	for c.Len() > 0 {
		if takeOne(rt) {
			settle(0, "done")
		} else {
			c.release()
		}
	}
	held := map[store.Key]*thing{}
	for k, o := range c.Cache().All() {
		held[k] = o
	}
	require.Equal(rt, held, con.known)
	require.True(rt, isClosed(c.Synced()))
}
