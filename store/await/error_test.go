package await

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestErrorNamesTheRejectedKeysDuringAList(t *testing.T) {
	c := openWith(t, "3")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, reject(c.Cache, "b", "a"))
	batch := c.BeginBatch(c.Cache, true)
	require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Key: store.Key{Name: "0"}, Err: errUndecodable}))
	require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: pod("", "a", "u", "4")}))

	var during []store.Key
	_, err := store.AddIndex(c.Cache, "index", func(*corev1.Pod) []string { // Commit calls it, because the index is new
		var waitError *Error
		require.ErrorAs(t, Version(ctx, c, "9"), &waitError)
		during = waitError.Rejected
		return nil
	})
	require.NoError(t, err)
	require.Nil(t, during)
	require.Error(t, batch.Commit("5"))
	assert.Equal(t, []store.Key{{Name: "a"}, {Name: "b"}}, during)
	assert.Equal(t, []store.Key{{Name: "0"}}, c.Rejected())
	assert.Equal(t, "3", c.ResourceVersion())
}

func TestErrorNamesWhatIsLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace([]*corev1.Pod{pod("", "held", "u", "3")}, "3"))
		ctx, cancel := context.WithCancel(t.Context())
		lack := func(names ...string) { require.Error(t, reject(c.Cache, names...)) }
		lack("b", "a", "b")
		cancel()
		var waitError *Error
		for _, wait := range []func() error{
			func() error { return Version(ctx, c, "5") },
			func() error { return Object(ctx, c, pod("", "held", "u", "5")) },
			func() error { return Deletion(ctx, c, pod("", "held", "u", "3")) },
		} {
			require.ErrorAs(t, wait(), &waitError)
			assert.Equal(t, []store.Key{{Name: "a"}, {Name: "b"}}, waitError.Rejected)
		}
		require.EqualError(t, Version(ctx, c, "5"), `waiting for resource version "5", reached "3" before the rejected "a", "b": context canceled`)

		require.Error(t, c.Add(nil))
		require.NoError(t, c.DeleteKey(store.Key{Name: "b"}))
		require.EqualError(t, Version(ctx, c, "5"), `waiting for resource version "5", reached "3" before the rejected object without a key, "a": context canceled`)

		for i := range 100 {
			lack("x" + strconv.Itoa(100+i))
		}
		require.ErrorAs(t, Version(ctx, c, "5"), &waitError)
		assert.Len(t, waitError.Rejected, maxRejected)
		assert.ErrorContains(t, waitError, `"a", "x100", "x101", "x102" and others: context canceled`)
		require.NoError(t, c.Replace(nil, "4"))
		require.ErrorAs(t, Version(ctx, c, "5"), &waitError)
		assert.Empty(t, waitError.Rejected)
	})
}
