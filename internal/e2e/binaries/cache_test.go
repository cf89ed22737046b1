package binaries

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

const key = "v1.36.3-0123456789abcdef"

func newCache(t *testing.T) *cache {
	t.Helper()
	return &cache{root: filepath.Join(t.TempDir(), "not there yet"), progress: io.Discard}
}

func mustNotBuild(context.Context, string) error { return errors.New("built again") }

func TestWhatWasBuiltIsNotBuiltAgain(t *testing.T) {
	c := newCache(t)
	folder, err := c.folder(t.Context(), key, func(_ context.Context, into string) error {
		writePrograms(t, into)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(c.root, key), folder)
	require.NoError(t, complete(folder))

	again, err := c.folder(t.Context(), key, mustNotBuild)
	require.NoError(t, err)
	require.Equal(t, folder, again)

	_, err = c.folder(t.Context(), key+"0", mustNotBuild)
	require.ErrorContains(t, err, "built again", "another key is another build")
}

func TestManyBuildersBuildOnce(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			// A cache for each, so that the lock is all that they share, as with processes.
			c := &cache{root: root, progress: io.Discard}
			_, err := c.folder(t.Context(), key, func(_ context.Context, into string) error {
				builds.Add(1)
				writePrograms(t, into)
				return nil
			})
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.EqualValues(t, 1, builds.Load())
}

func TestAFailedBuildIsNotTrusted(t *testing.T) {
	c := newCache(t)
	failure := errors.New("the linker was killed")
	_, err := c.folder(t.Context(), key, func(_ context.Context, into string) error {
		writePrograms(t, into) // go build may have written one program before it fails with the other
		return failure
	})
	require.ErrorIs(t, err, failure)
	requireOnlyLock(t, c)

	_, err = c.folder(t.Context(), key, mustNotBuild)
	require.ErrorContains(t, err, "built again")
}

func TestABuildThatLeavesAProgramOutIsNotTrusted(t *testing.T) {
	c := newCache(t)
	_, err := c.folder(t.Context(), key, func(_ context.Context, into string) error {
		writePrograms(t, into)
		return os.Remove(filepath.Join(into, etcdName))
	})
	require.ErrorContains(t, err, "the build reported success, but it has no etcd")
	requireOnlyLock(t, c)
}

func TestWhatAKilledBuildLeftIsRemovedAndNotTrusted(t *testing.T) {
	c := newCache(t)
	left := filepath.Join(c.root, unfinished+"123")
	writePrograms(t, left)

	folder, err := c.folder(t.Context(), key, func(_ context.Context, into string) error {
		require.NotEqual(t, left, into)
		require.NoDirExists(t, left)
		writePrograms(t, into)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, complete(folder))
}

func TestAFolderThatLostAProgramIsBuiltAgain(t *testing.T) {
	c := newCache(t)
	build := func(_ context.Context, into string) error { writePrograms(t, into); return nil }
	folder, err := c.folder(t.Context(), key, build)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(folder, apiServerName)))

	again, err := c.folder(t.Context(), key, build)
	require.NoError(t, err)
	require.NoError(t, complete(again))
}

func TestWaitingForAnotherBuilderIsAnnouncedAndEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	other := flock.New(filepath.Join(root, lockName))
	locked, err := other.TryLock()
	require.NoError(t, err)
	require.True(t, locked)
	defer other.Close()

	errNoTime := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNoTime)
	var progress bytes.Buffer
	c := &cache{root: root, progress: &progress}
	_, err = c.folder(ctx, key, mustNotBuild)
	require.ErrorIs(t, err, errNoTime)
	require.Contains(t, progress.String(), "waiting for another process")
}

func requireOnlyLock(t *testing.T, c *cache) {
	t.Helper()
	entries, err := os.ReadDir(c.root)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, lockName, entries[0].Name())
}
