package binaries

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

// The real build, if the cache does not have its result yet. Documented as the way to build with a timeout of one's own.
func TestFindReturnsProgramsThatRun(t *testing.T) {
	ctx := t.Context()
	if deadline, set := t.Deadline(); set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-15*time.Second)) // an error says more than the panic of the testing package
		defer cancel()
	}
	found, err := Find(ctx)
	require.NoError(t, err)
	for _, program := range []string{found.APIServer, found.Etcd} {
		output, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
		require.NoError(t, err, "%s", output)
		if found.Version != "" && program == found.APIServer {
			require.Equal(t, "Kubernetes "+found.Version+"\n", string(output))
		}
	}
}

func TestAssetsOfTheUserAreUsedAsTheyAre(t *testing.T) {
	assets := t.TempDir()
	writePrograms(t, assets)
	t.Setenv(assetsVariable, assets)
	t.Setenv("HOME", filepath.Join(assets, "no such home"))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("PATH", "") // a build would not find the go command
	t.Chdir(t.TempDir()) // nor its source

	found, err := Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, &Binaries{APIServer: filepath.Join(assets, "kube-apiserver"), Etcd: filepath.Join(assets, "etcd")}, found)
	require.NoDirExists(t, filepath.Join(assets, "no such home"))
}

func TestAssetsOfTheUserMayBeARelativeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	working, err := os.Getwd()
	require.NoError(t, err)
	writePrograms(t, "bin")
	t.Setenv(assetsVariable, "bin")

	found, err := Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(working, "bin", "etcd"), found.Etcd)
}

func TestAssetsOfTheUserThatAreIncompleteAreAnErrorAndNotABuild(t *testing.T) {
	assets := t.TempDir()
	writePrograms(t, assets)
	require.NoError(t, os.Remove(filepath.Join(assets, "etcd")))
	t.Setenv(assetsVariable, assets)

	_, err := Find(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, assets)
	require.ErrorContains(t, err, "it has no etcd")
	require.ErrorContains(t, err, "unset it to have them built")
}

func TestAFileThatCannotBeRunIsNoProgram(t *testing.T) {
	folder := t.TempDir()
	writePrograms(t, folder)
	require.NoError(t, complete(folder))

	require.NoError(t, os.Chmod(filepath.Join(folder, etcdName), 0o644))
	require.ErrorContains(t, complete(folder), "its etcd is not a program")

	writePrograms(t, folder)
	require.NoError(t, os.Truncate(filepath.Join(folder, apiServerName), 0))
	require.ErrorContains(t, complete(folder), "its kube-apiserver is not a program")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writePrograms makes a folder complete, with programs that do nothing.
func writePrograms(t *testing.T, folder string) {
	t.Helper()
	for _, name := range []string{apiServerName, etcdName} {
		writeFile(t, filepath.Join(folder, name), "#!/bin/sh\n", 0o755)
	}
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
}

func TestSourceIsFoundFromAnyFolderOfAClone(t *testing.T) {
	clone := t.TempDir()
	source := filepath.Join(clone, "internal", "controlplane")
	writeFile(t, filepath.Join(source, "go.mod"), "module "+sourceModule+"\n", 0o644)
	deep := filepath.Join(clone, "internal", "bench", "deep")
	writeFile(t, filepath.Join(deep, "go.mod"), "module example.com/bench\n", 0o644)

	for _, from := range []string{clone, filepath.Join(clone, "internal"), source, deep} {
		found, err := findSource(from)
		require.NoError(t, err, from)
		require.Equal(t, source, found, from)
	}
}

func TestSourceOfAnotherModuleIsNotTaken(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "internal", "controlplane", "go.mod"), "module example.com/other/internal/controlplane\n", 0o644)

	_, err := findSource(folder)
	require.ErrorContains(t, err, "run from within a clone")
	require.ErrorContains(t, err, assetsVariable)
}

const goModFixture = `module ` + sourceModule + `

go 1.26.0

require (
	go.etcd.io/etcd/server/v3 v3.6.8
	k8s.io/kubernetes v1.36.3
)
`

func fixture(t *testing.T, goMod, goSum string) *recipe {
	t.Helper()
	source := t.TempDir()
	writeFile(t, filepath.Join(source, "go.mod"), goMod, 0o644)
	writeFile(t, filepath.Join(source, "go.sum"), goSum, 0o644)
	r, err := readRecipe(source)
	require.NoError(t, err)
	return r
}

func TestVersionsComeFromGoMod(t *testing.T) {
	r := fixture(t, goModFixture, "")
	require.Equal(t, "v1.36.3", r.kubernetes)
	require.Equal(t, "v3.6.8", r.etcd)
	require.Contains(t, r.arguments(), "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36")
}

func TestAGoModWithoutTheVersionsIsAnError(t *testing.T) {
	source := t.TempDir()
	writeFile(t, filepath.Join(source, "go.mod"), "module "+sourceModule+"\n", 0o644)
	writeFile(t, filepath.Join(source, "go.sum"), "", 0o644)
	_, err := readRecipe(source)
	require.ErrorContains(t, err, "does not require both")
}

func TestTheKeyDoesNotDependOnTheClone(t *testing.T) {
	require.Equal(t, fixture(t, goModFixture, "sums").key(), fixture(t, goModFixture, "sums").key())
}

func TestTheKeyChangesWithWhateverChangesTheBinaries(t *testing.T) {
	change := func(edit func(*recipe)) *recipe {
		r := fixture(t, goModFixture, "sums")
		edit(r)
		return r
	}
	recipes := map[string]*recipe{
		"nothing":      fixture(t, goModFixture, "sums"),
		"go.mod":       fixture(t, goModFixture+"\n// a comment\n", "sums"),
		"go.sum":       fixture(t, goModFixture, "other sums"),
		"boundary":     change(func(r *recipe) { r.goMod, r.goSum = append(r.goMod, 's'), []byte("ums") }),
		"toolchain":    change(func(r *recipe) { r.toolchain += ".1" }),
		"system":       change(func(r *recipe) { r.goos = "plan9" }),
		"architecture": change(func(r *recipe) { r.goarch = "mips" }),
		"arguments":    change(func(r *recipe) { r.kubernetes = "v1.36.4" }),
	}
	keys := map[string]string{}
	for name, r := range recipes {
		key := r.key()
		require.Empty(t, keys[key], "%s has the same key", name)
		keys[key] = name
	}
}

func TestTheKeyBeginsWithTheVersionForPeopleWhoLookIntoTheCache(t *testing.T) {
	require.Regexp(t, `^v1\.36\.3-[0-9a-f]{16}$`, fixture(t, goModFixture, "").key())
}

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

// fakeGo puts a go command first on the path that runs a script; its $3 is the folder to build to.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "go"), "#!/bin/sh\n"+script, 0o755)
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestABuildMakesBothProgramsAndSaysSo(t *testing.T) {
	fakeGo(t, `test "$2" = -o && echo api >"$3kube-apiserver" && echo etcd >"$3server" && chmod +x "$3"*`)
	into := t.TempDir()
	var progress strings.Builder
	require.NoError(t, fixture(t, goModFixture, "").build(t.Context(), into, &progress, "/the/cache"))
	require.NoError(t, complete(into))
	require.Contains(t, progress.String(), "building kube-apiserver v1.36.3 and etcd v3.6.8")
	require.Contains(t, progress.String(), "cached in /the/cache")
}

func TestAFailedBuildShowsTheEndOfItsOutput(t *testing.T) {
	fakeGo(t, `for i in $(seq 100); do echo "line $i"; done; exit 3`)
	r := fixture(t, goModFixture, "")
	err := r.build(t.Context(), t.TempDir(), io.Discard, "")
	require.ErrorContains(t, err, "build kube-apiserver v1.36.3 and etcd v3.6.8: exit status 3")
	require.ErrorContains(t, err, "run `go build")
	require.ErrorContains(t, err, r.source)
	require.True(t, strings.HasSuffix(err.Error(), "line 99\nline 100"), err)
	require.NotContains(t, err.Error(), "line 70\n")
}

func TestABuildThatRanOutOfTimeSaysHowToGoOn(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	fakeGo(t, `: >'`+started+`'; exec tail -f /dev/null`)

	errNoTime := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	result := make(chan error)
	go func() { result <- fixture(t, goModFixture, "").build(ctx, t.TempDir(), io.Discard, "") }()
	require.Eventually(t, func() bool { _, err := os.Stat(started); return err == nil }, time.Minute, 10*time.Millisecond)
	cancel(errNoTime)
	err := <-result
	require.ErrorIs(t, err, errNoTime)
	require.ErrorContains(t, err, "-timeout 30m")
}
