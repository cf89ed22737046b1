package clientgo

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestCacheOfAnInformerIsWritableUntilTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		create(t, server, named("a", "listed"), named("c", "listed"))
		s := NewTyped(configMaps(t, server))
		x := s.GetIndexer()
		require.NoError(t, x.Add(named("a", "seeded")))
		require.NoError(t, x.Add(named("b", "seeded")))
		require.NoError(t, x.Update(named("b", "seeded again")))
		require.NoError(t, x.Add(named("d", "seeded")))
		require.NoError(t, x.Delete(named("d")))
		x.Bookmark("9")
		assert.Equal(t, []string{"default/a", "default/b"}, x.ListKeys())
		assert.Empty(t, s.LastSyncResourceVersion(), "the informer has to list")

		var d diary
		handle, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		assert.False(t, s.HasSynced() || handle.HasSynced())
		run(t, s)
		synctest.Wait()
		assert.True(t, s.HasSynced() && handle.HasSynced())
		assert.Equal(t, []string{"default/a", "default/c"}, x.ListKeys(), "the first list replaces what was seeded")
		a, _, err := x.GetByKey("default/a")
		require.NoError(t, err)
		assert.Equal(t, "a:listed", short(a))

		assert.Empty(t, reported.take())
		for range 2 {
			assert.ErrorIs(t, x.Add(named("e")), ErrReadOnly)
			assert.ErrorIs(t, x.Update(named("e")), ErrReadOnly)
			assert.ErrorIs(t, x.Delete(named("a")), ErrReadOnly)
			assert.ErrorIs(t, x.Replace(nil, ""), ErrReadOnly)
		}
		x.Bookmark("9")
		assert.Equal(t, []string{"default/a", "default/c"}, x.ListKeys())
		errs := reported.take()
		require.Len(t, errs, 1, "once is enough")
		assert.ErrorIs(t, errs[0], ErrReadOnly)
	})
}

func TestReplaceBeforeTheStartStillLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("c"))
		s := NewTyped(configMaps(t, server))
		require.NoError(t, s.GetStore().Add(named("a")))
		require.NoError(t, s.GetStore().Replace([]any{named("b")}, "5"))
		assert.Equal(t, []string{"default/b"}, s.GetStore().ListKeys())
		run(t, s)
		synctest.Wait()
		assert.Equal(t, []string{"default/c"}, s.GetStore().ListKeys())
	})
}

func TestInformerThatWasMadeElsewhereIsReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		s := AsSharedIndexInformer(informer.New(configMaps(t, reflectortest.Start(t))))
		assert.ErrorIs(t, s.GetIndexer().Add(named("a")), ErrReadOnly)
		assert.Len(t, reported.take(), 1)
	})
}
