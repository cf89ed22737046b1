package eventqueue

import (
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type blob struct {
	name    string
	version int
}

func newBlobs(opts ...Option) *Collection[*blob] {
	return New(func(b *blob) (store.Key, error) { return store.Key{Name: b.name}, nil },
		append([]Option{WithCompaction(KeepAll)}, opts...)...)
}

func TestBytesAreThoseOfObjectsThatTheCacheDoesNotHold(t *testing.T) {
	const of = 1 << 20 // an event is small beside it
	objects := func(c *Collection[*blob]) int { return int(c.Bytes(func(*blob) int64 { return of }) / of) }
	for _, test := range []struct {
		compaction Compaction
		want       []int
	}{
		{KeepLatest, []int{0, 0, 1, 1, 1}},
		{KeepAll, []int{0, 1, 2, 3, 4}},
	} {
		t.Run(test.compaction.String(), func(t *testing.T) {
			c := newBlobs(WithCompaction(test.compaction))
			defer c.Close()
			got := []int{}
			require.NoError(t, c.Add(&blob{"a", 1}))
			got = append(got, objects(c))
			require.NoError(t, c.Update(&blob{"a", 2}))
			got = append(got, objects(c))
			if test.compaction == KeepLatest {
				for q := range c.Queues(t.Context()) {
					_ = q
					break
				}
				settleAll(t, c)
			}
			for version := 3; version <= 5; version++ {
				require.NoError(t, c.Update(&blob{"a", version}))
				got = append(got, objects(c))
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func settleAll(t *testing.T, c *Collection[*blob]) {
	t.Helper()
	for q := range c.Queues(t.Context()) {
		q.Done()
		break
	}
	require.Zero(t, c.Len())
}

func TestBytesOfDeletedObjectsAndOfMany(t *testing.T) {
	c := newBlobs()
	defer c.Close()
	assert.Zero(t, c.Bytes(nil))
	const n = 10 * sample
	for i := range n {
		b := &blob{strconv.Itoa(i), 1}
		require.NoError(t, c.Add(b))
		require.NoError(t, c.Delete(b))
	}
	measured := 0
	bytes := c.Bytes(func(*blob) int64 { measured++; return 1 << 20 })
	assert.Equal(t, sample, measured)
	assert.InDelta(t, n, float64(bytes>>20), 16, "one object each, and the events")
}

func TestBytesOfValues(t *testing.T) {
	c := New(func(b []string) (store.Key, error) { return store.Key{Name: b[0]}, nil })
	defer c.Close()
	require.NoError(t, c.Add([]string{"a"}))
	assert.Greater(t, c.Bytes(nil), int64(0))
}
