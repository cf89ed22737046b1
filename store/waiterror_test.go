package store

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestWaitErrorNamesTheRejectedKeysDuringAList(t *testing.T) {
	c := openWith(t, "3")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reject := func(name string) Write[*corev1.Pod] {
		return Write[*corev1.Pod]{Key: Key{Name: name}, Err: errUndecodable}
	}
	require.Error(t, apply(c, reject("b"), reject("a")))
	batch, _ := begin(c, true)
	require.NoError(t, batch.Write(reject("0")))
	require.NoError(t, batch.Write(adding(pod("", "a", "u", "4"))))

	var during []Key
	indexed(t, c, func(*corev1.Pod) []string { // Commit calls it, because the index is new
		var waitError *WaitError
		require.ErrorAs(t, c.WaitFor(ctx, "9"), &waitError)
		during = waitError.Rejected
		return nil
	})
	require.Nil(t, during)
	require.Error(t, batch.Commit("5"))
	assert.Equal(t, []Key{{Name: "a"}, {Name: "b"}}, during)
	assert.Equal(t, rejectedKeys{{Name: "0"}: true}, c.whole.rejected)
	assert.Equal(t, "3", c.ResourceVersion())
}

func TestWaitErrorNamesWhatIsLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace([]*corev1.Pod{pod("", "held", "u", "3")}, "3"))
		ctx, cancel := context.WithCancel(t.Context())
		lack := func(names ...string) {
			var batch writes[*corev1.Pod]
			for _, name := range names {
				batch.Fail(Rejection{Key: Key{Name: name}, Err: errUndecodable})
			}
			require.Error(t, batch.to(c))
		}
		lack("b", "a", "b")
		cancel()
		var waitError *WaitError
		for _, wait := range []func() error{
			func() error { return c.WaitFor(ctx, "5") },
			func() error { return c.WaitForObject(ctx, pod("", "held", "u", "5")) },
			func() error { return c.WaitForDeletion(ctx, pod("", "held", "u", "3")) },
		} {
			require.ErrorAs(t, wait(), &waitError)
			assert.Equal(t, []Key{{Name: "a"}, {Name: "b"}}, waitError.Rejected)
		}
		require.EqualError(t, c.WaitFor(ctx, "5"), `waiting for resource version "5", reached "3" before the rejected "a", "b": context canceled`)

		require.Error(t, c.Add(nil))
		require.NoError(t, c.DeleteKey(Key{Name: "b"}))
		require.EqualError(t, c.WaitFor(ctx, "5"), `waiting for resource version "5", reached "3" before the rejected object without a key, "a": context canceled`)

		for i := range 100 {
			lack("x" + strconv.Itoa(100+i))
		}
		require.ErrorAs(t, c.WaitFor(ctx, "5"), &waitError)
		assert.Len(t, waitError.Rejected, maxRejectedKeys)
		assert.ErrorContains(t, waitError, `"a", "x100", "x101", "x102" and others: context canceled`)
		require.NoError(t, c.Replace(nil, "4"))
		require.ErrorAs(t, c.WaitFor(ctx, "5"), &waitError)
		assert.Empty(t, waitError.Rejected)
	})
}
