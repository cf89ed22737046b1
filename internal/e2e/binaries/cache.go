package binaries

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockName is the lock file of all builders, whatever their key. Two builds at once would only
	// compete for processors.
	lockName = "lock"

	// unfinished is the prefix of folders that a build still writes to. No key begins with it.
	unfinished = "unfinished-"

	// lockRetry is the interval at which a waiting process tries the lock.
	lockRetry = 250 * time.Millisecond
)

// cache keeps folders of binaries by key.
type cache struct {
	root     string
	progress io.Writer
}

// folder returns the folder of a key, and has it built if there is none. The build writes to a folder of its own, which gets its final name
// once it is complete and on disk: a rename is the one step that happens fully or not at all.
func (c *cache) folder(ctx context.Context, key string, build func(ctx context.Context, into string) error) (string, error) {
	final := filepath.Join(c.root, key)
	if complete(final) == nil {
		return final, nil
	}
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return "", fmt.Errorf("make the cache of control plane binaries: %w; set XDG_CACHE_HOME to a folder that can be written, or %s to one that has them", err, assetsVariable)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if complete(final) == nil { // built while we waited for the lock
		return final, nil
	}
	if err := c.removeUnfinished(); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(c.root, unfinished)
	if err != nil {
		return "", fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(fresh) // after the rename there is nothing left to remove
	if err := build(ctx, fresh); err != nil {
		return "", err
	}
	if err := complete(fresh); err != nil {
		return "", fmt.Errorf("the build reported success, but %w", err)
	}
	if err := commit(fresh, final); err != nil {
		return "", fmt.Errorf("keep the binaries that were built: %w", err)
	}
	return final, nil
}

// lock waits for the builders of other processes. The system releases a lock when its process ends,
// in whatever way.
func (c *cache) lock(ctx context.Context) (unlock func(), err error) {
	file := flock.New(filepath.Join(c.root, lockName))
	locked, err := file.TryLock()
	if err == nil && !locked {
		fmt.Fprintf(c.progress, "waiting for another process that builds kube-apiserver and etcd (it holds %s)\n", file.Path())
		_, err = file.TryLockContext(ctx, lockRetry)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("wait for the lock %s, under which kube-apiserver and etcd are built: %w", file.Path(), err)
	}
	// Keep the lock file. Removing it could remove a file that another process has just locked.
	return func() { _ = file.Close() }, nil
}

// removeUnfinished removes the folders of builds that were killed. The caller holds the lock, so no
// build writes to them.
func (c *cache) removeUnfinished() error {
	entries, err := os.ReadDir(c.root)
	if err != nil {
		return fmt.Errorf("look for unfinished builds: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), unfinished) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.root, entry.Name())); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	return nil
}

// commit gives a complete folder its final name. It first writes the contents to disk: otherwise
// the name could survive a loss of power without the contents.
func commit(fresh, final string) error {
	for _, path := range []string{filepath.Join(fresh, apiServerName), filepath.Join(fresh, etcdName), fresh} {
		if err := flush(path); err != nil {
			return err
		}
	}
	// The existing folder is incomplete, or the cache would have used it. A rename does not replace
	// a folder that has files.
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	return os.Rename(fresh, final)
}

func flush(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}
