package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// reminder is the interval of progress messages: go build is silent for minutes.
	reminder = 30 * time.Second

	// interruptGrace is how long go build has to end its compilers before it is killed.
	interruptGrace = 10 * time.Second

	// tailLines of a failed build's output are in the error: the first errors of a compiler come last, after the packages that went well.
	tailLines = 30
)

// build runs the recipe into a folder. The name of the place where it will be kept is for the user only.
func (r *recipe) build(ctx context.Context, into string, progress io.Writer, kept string) error {
	fmt.Fprintf(progress, "building kube-apiserver %s and etcd %s from source: about 3 minutes on two cores, once; cached in %s\n", r.kubernetes, r.etcd, kept)
	start := time.Now()
	if err := r.run(ctx, into, progress, start); err != nil {
		return err
	}
	// Go names a program after the last element of its package's path.
	if err := os.Rename(filepath.Join(into, "server"), filepath.Join(into, etcdName)); err != nil {
		return fmt.Errorf("%s did not build to a program called server: %w", etcdModule, err)
	}
	fmt.Fprintf(progress, "built kube-apiserver %s and etcd %s in %s\n", r.kubernetes, r.etcd, since(start))
	return nil
}

func (r *recipe) run(ctx context.Context, into string, progress io.Writer, start time.Time) error {
	arguments := slices.Insert(r.arguments(), 1, "-o", into+string(filepath.Separator))
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = r.source
	// A go.work around the clone does not know this module; go build would refuse.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	stop := remind(progress, start)
	err := cmd.Run()
	stop()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the build of kube-apiserver and etcd was stopped after %s: %w; what it compiled is in Go's build cache, so run it again, with more time if that ran out: go test -C internal/e2e -timeout 30m ./binaries",
			since(start), context.Cause(ctx))
	}
	return fmt.Errorf("build kube-apiserver %s and etcd %s: %w; to see it happen, run `go %s` in %s, or set %s to a folder that has both. The end of its output:\n%s",
		r.kubernetes, r.etcd, err, quote(arguments), r.source, assetsVariable, tail(output.String(), tailLines))
}

// remind says now and then that a build goes on, until it is stopped.
func remind(progress io.Writer, start time.Time) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(reminder)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintf(progress, "still building kube-apiserver and etcd (%s)\n", since(start))
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func since(start time.Time) time.Duration { return time.Since(start).Round(time.Second) }

// quote makes a command line that a person can paste into a shell.
func quote(arguments []string) string {
	quoted := make([]string, len(arguments))
	for i, argument := range arguments {
		if strings.Contains(argument, " ") {
			argument = "'" + argument + "'"
		}
		quoted[i] = argument
	}
	return strings.Join(quoted, " ")
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
