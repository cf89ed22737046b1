package binaries

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
