package await

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// These tests hold await-A1.

func TestWaitForIsWokenByWhateverReachesTheVersion(t *testing.T) {
	for name, reach := range map[string]func(*podCache) error{
		"object":   func(c *podCache) error { return c.Add(pod("", "a", "u1", "5")) },
		"later":    func(c *podCache) error { return c.Update(pod("", "a", "u1", "10")) },
		"deletion": func(c *podCache) error { return c.Delete(pod("", "none", "u1", "5")) },
		"bookmark": func(c *podCache) error { return c.Bookmark("5") },
		"replace":  func(c *podCache) error { return c.Replace(nil, "6") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newPods()
				require.NoError(t, c.Replace(nil, "3"))
				require.NoError(t, Version(t.Context(), c, "3"), "at once")
				done := waiting(func() error { return Version(t.Context(), c, "5") })
				require.NoError(t, c.Bookmark("4"))
				synctest.Wait()
				require.Empty(t, done, "not yet")
				require.NoError(t, reach(c))
				require.NoError(t, <-done)
				checkQuiet(t, c)
			})
		})
	}
}

func TestWaitForWaitsForTheFirstReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		done := waiting(func() error { return Version(t.Context(), c, "5") })
		require.NoError(t, c.Add(pod("", "a", "u1", "9")))
		synctest.Wait()
		require.Empty(t, done, "nobody knows what is missing")
		require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "9")}, "9"))
		require.NoError(t, <-done)
	})
}

func TestWaitForStaysBeforeWhatIsLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "3"))
		require.Error(t, reject(c.Cache, "a"))
		done := waiting(func() error { return Version(t.Context(), c, "5") })
		require.NoError(t, c.Bookmark("6"))
		synctest.Wait()
		require.Empty(t, done)
		require.NoError(t, c.Add(pod("", "a", "u1", "7")))
		require.NoError(t, <-done)
	})
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "3"))
		reason := errors.New("reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		var all []<-chan error
		for _, wanted := range []string{"5", "7", "6", "5"} {
			all = append(all, waiting(func() error { return Version(ctx, c, wanted) }))
		}
		stays := waiting(func() error { return Version(t.Context(), c, "6") })
		assert.Equal(t, 5, waitsOf(c))
		cancel(reason)
		for i, done := range all {
			err := <-done
			require.ErrorIs(t, err, reason)
			if i == 1 {
				assert.EqualError(t, err, `waiting for resource version "7", reached "3": reason`)
			}
		}
		synctest.Wait()
		assert.Equal(t, 1, waitsOf(c), "a call that ended is forgotten")
		require.NoError(t, c.Bookmark("6"))
		require.NoError(t, <-stays)
		checkQuiet(t, c)

		for range 100 { // of two reasons to return, select takes any
			require.NoError(t, Version(ctx, c, "6"), "reached is reached")
		}
		require.ErrorIs(t, Version(ctx, c, "8"), reason)
		checkQuiet(t, c)
	})
}

func TestWaitForFailsWhenTheVersionIsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "100"))
		done := waiting(func() error { return Version(t.Context(), c, "150") })
		object := waiting(func() error { return Object(t.Context(), c, pod("", "a", "u1", "150")) })
		require.NoError(t, c.Replace(nil, "100"))
		synctest.Wait()
		require.Empty(t, done, "the same is not lower")
		require.NoError(t, c.Replace(nil, "20"))
		require.ErrorIs(t, <-done, errVersionLowered)
		err := <-object
		require.ErrorIs(t, err, errVersionLowered)
		assert.EqualError(t, err, `waiting for resource version "150" of "a", reached "20": `+errVersionLowered.Error())

		again := waiting(func() error { return Version(t.Context(), c, "30") })
		require.NoError(t, c.Bookmark("30"))
		require.NoError(t, <-again, "from there on it goes on")
	})
}

func TestWaitForFailsWhenTheVersionIsLoweredBeforeItFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []func(*podCache) error{
			func(c *podCache) error { return Version(t.Context(), c, "120") },
			func(c *podCache) error { return Object(t.Context(), c, pod("", "a", "u1", "120")) },
		} {
			c := openWith(t, "100")
			c.beforeFollow = func() { require.NoError(t, c.Replace(nil, "60")) }
			done := waiting(func() error { return wait(c) })
			require.Len(t, done, 1)
			require.ErrorIs(t, <-done, errVersionLowered)
			checkQuiet(t, c)
		}
	})
}

func TestALoweredVersionIsForgottenAlsoIfSomethingIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "100"))
		above := waiting(func() error { return Version(t.Context(), c, "150") })
		require.Error(t, c.Replace([]*corev1.Pod{nil}, "20"))
		require.ErrorIs(t, <-above, errVersionLowered)
		assert.Empty(t, c.ResourceVersion(), "a watch from 100 would miss what comes after 20")

		below := waiting(func() error { return Version(t.Context(), c, "50") })
		require.NoError(t, c.Bookmark("60"))
		synctest.Wait()
		require.Empty(t, below, "50 is of a history that was lost; the new one is not seen yet")
		require.Error(t, c.Replace([]*corev1.Pod{nil}, "61"))
		synctest.Wait()
		require.Empty(t, below, "something is lacking still")
		require.NoError(t, c.Replace(nil, "62"))
		require.NoError(t, <-below)
		checkQuiet(t, c)
	})
}

func TestWaitForRefusesWhatIsNoNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "3"))
		var invalid resourceversion.InvalidResourceVersion
		for _, wanted := range []string{"", "0", "x", "-1"} {
			var waitError *Error
			err := Version(t.Context(), c, wanted)
			require.ErrorAs(t, err, &waitError, wanted)
			require.ErrorAs(t, err, &invalid, wanted)
		}
		done := waiting(func() error { return Version(t.Context(), c, "5") })
		require.NoError(t, c.Bookmark("abc"))
		require.ErrorAs(t, <-done, &invalid)
		require.ErrorAs(t, Version(t.Context(), c, "5"), &invalid, "the cache is at one")
		require.NoError(t, c.Bookmark("5"))
		require.NoError(t, Version(t.Context(), c, "5"))
	})
}

func TestAVersionThatIsSeenHasItsObjects(t *testing.T) {
	// A writer at full speed; the cache rejects some of its objects for a while.
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	const last = 3000
	visible := func(version int) {
		for v := max(2, version-3); v <= version; v++ {
			key := store.Key{Name: strconv.Itoa(v % 50)}
			p, ok := c.Get(key)
			if held := 0; ok {
				held, _ = strconv.Atoi(p.ResourceVersion)
				ok = held >= v
			}
			if !ok {
				t.Errorf("%d was reached before %d was visible", version, v)
			}
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := 2; i <= last; i++ {
			if i%10 == 0 && i < last {
				batch := c.BeginBatch(c.Cache, false)
				_ = batch.Write(store.Write[*corev1.Pod]{Key: store.Key{Name: strconv.Itoa(i % 50)}, Err: errUndecodable})
				_ = batch.Write(store.Write[*corev1.Pod]{Type: store.Modification, Object: pod("", strconv.Itoa((i+1)%50), "u", strconv.Itoa(i+1))})
				_ = batch.Commit("")
				_ = c.Add(pod("", strconv.Itoa(i%50), "u", strconv.Itoa(i+1)))
				i++
				continue
			}
			_ = c.Add(pod("", strconv.Itoa(i%50), "u", strconv.Itoa(i)))
		}
	})
	for waiter := range 3 {
		all.Go(func() {
			for v := 2 + waiter; v <= last; v += 7 {
				if err := Version(t.Context(), c, strconv.Itoa(v)); err != nil {
					t.Error(err)
				}
				visible(v)
			}
		})
	}
	all.Go(func() {
		for v := 0; v < last; {
			v, _ = strconv.Atoi(c.ResourceVersion())
			visible(v)
			runtime.Gosched()
		}
	})
	all.Wait()
	checkQuiet(t, c)
}

func TestWaitForObject(t *testing.T) {
	mine := func() *corev1.Pod { return pod("", "a", "u1", "5") }
	for name, tt := range map[string]struct {
		before, after func(*podCache) error
	}{
		"created": {nil, func(c *podCache) error { return c.Add(mine()) }},
		"updated": {func(c *podCache) error { return c.Add(pod("", "a", "u1", "4")) },
			func(c *podCache) error { return c.Update(mine()) }},
		"newer":            {nil, func(c *podCache) error { return c.Update(pod("", "a", "u1", "8")) }},
		"filtered out":     {nil, func(c *podCache) error { return c.Bookmark("5") }},
		"deleted meantime": {nil, func(c *podCache) error { return c.Delete(pod("", "a", "u1", "6")) }},
		"another one": {func(c *podCache) error { return c.Add(pod("", "a", "u0", "4")) },
			func(c *podCache) error { return c.Add(pod("", "a", "u2", "7")) }},
		"held, though something else is lacking": {
			func(c *podCache) error {
				if err := c.Add(nil); err == nil {
					return errors.New("no error")
				}
				return c.Add(pod("", "b", "u5", "4"))
			},
			func(c *podCache) error { return c.Add(mine()) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newPods()
				require.NoError(t, c.Replace(nil, "3"))
				if tt.before != nil {
					require.NoError(t, tt.before(c))
				}
				done := waiting(func() error { return Object(t.Context(), c, mine()) })
				require.Empty(t, done, "not yet")
				require.NoError(t, tt.after(c))
				require.NoError(t, <-done)
				require.NoError(t, Object(t.Context(), c, mine()), "at once")
				checkQuiet(t, c)
			})
		})
	}
}

func TestWaitForObjectIsNotWokenByALesserState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "3"))
		require.Error(t, c.Add(nil)) // so that the version of the cache stays where it is
		ctx, cancel := context.WithCancel(t.Context())
		done := waiting(func() error { return Object(ctx, c, pod("", "a", "u1", "50")) })
		for _, p := range []*corev1.Pod{pod("", "a", "u1", "6"), pod("", "a", "u2", "60"), pod("", "b", "u1", "60"), pod("", "a", "u1", "49")} {
			require.NoError(t, c.Update(p))
			synctest.Wait()
			require.Empty(t, done, p.ResourceVersion)
		}
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, `"50" of "a", reached "3"`)
		checkQuiet(t, c)
	})
}

func TestWaitForObjectRefusesWhatCannotBeWaitedFor(t *testing.T) {
	c := newPods()
	for _, wait := range []waitForObject{Object[*corev1.Pod], Deletion[*corev1.Pod]} {
		for name, row := range map[string]struct {
			err    error
			object *corev1.Pod
		}{
			"nil":        {store.ErrBadKey, nil},
			"no name":    {store.ErrBadKey, pod("", "", "u1", "1")},
			"no version": {errNoVersion, pod("", "a", "u1", "")},
		} {
			failure := wait(t.Context(), c, row.object)
			require.ErrorIs(t, failure, row.err, name)
			var waitError *Error
			require.ErrorAs(t, failure, &waitError)
			if row.object != nil {
				require.Equal(t, store.Key{Name: row.object.Name}, waitError.Key)
			}
		}
	}
	partition(t, c, store.Scope{Namespace: "n"})
	require.ErrorIs(t, Object(t.Context(), c, pod("m", "a", "u1", "1")), store.ErrOutOfScope)
	checkQuiet(t, c)
}

func TestWaitForDeletion(t *testing.T) {
	mine := func() *corev1.Pod { return pod("", "a", "u1", "5") }
	type step = func(*podCache) error
	add := func(uid, version string) step {
		return func(c *podCache) error { return c.Update(pod("", "a", uid, version)) }
	}
	for name, tt := range map[string]struct {
		steps []step // the last one ends it
	}{
		"deleted":           {[]step{add("u1", "5"), func(c *podCache) error { return c.Delete(pod("", "a", "u1", "6")) }}},
		"deleted by key":    {[]step{add("u1", "5"), func(c *podCache) error { return c.DeleteKey(store.Key{Name: "a"}) }}},
		"missing in a list": {[]step{add("u1", "5"), func(c *podCache) error { return c.Replace(nil, "9") }}},
		"not seen yet":      {[]step{add("u1", "4"), add("u1", "5"), add("u1", "7"), func(c *podCache) error { return c.Delete(mine()) }}},
		"recreated":         {[]step{add("u1", "5"), add("u2", "9")}},
		"recreated, and the old one not seen yet": {[]step{add("u0", "4"), add("u1", "5"), add("u2", "9")}},
		"never selected": {[]step{func(c *podCache) error { return c.Bookmark("4") }, func(c *podCache) error { return c.Bookmark("5") }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newPods()
				require.NoError(t, c.Replace(nil, "3"))
				done := waiting(func() error { return Deletion(t.Context(), c, mine()) })
				for i, step := range tt.steps {
					require.Empty(t, done, "before step %d", i)
					require.NoError(t, step(c))
					synctest.Wait()
				}
				require.NoError(t, <-done)
				checkQuiet(t, c)
			})
		})
	}
}

func TestWaitForDeletionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "3")}, "3"))
		ctx, cancel := context.WithCancel(t.Context())
		done := waiting(func() error { return Deletion(ctx, c, pod("", "a", "u1", "3")) })
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, `of "a"`)
		checkQuiet(t, c)
	})
}

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
