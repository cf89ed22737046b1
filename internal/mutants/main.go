// Command mutants changes one line of the library at a time, runs the tests of the packages that
// must notice, and reports the changes that no test noticed.
//
//	go run ./internal/mutants              # all, in about a quarter of an hour on two cores
//	go run ./internal/mutants -run shard   # those whose name matches
//
// It changes no file: the go command reads each change through -overlay. Rapid leaves what it found
// in testdata/rapid, which git ignores. A change that no test notices is a behaviour without a test.
// Write the test, then add the change to the list.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one change: text is replaced by with in a file. The text occurs once in the file.
type mutant struct {
	name string // the package and the behaviour that is lost
	file string
	text string
	with string
	// tests are the packages that must notice, as arguments of go test. Other flags may precede them.
	tests []string
}

func main() {
	run := flag.String("run", "", "a regular expression: only mutants whose name matches")
	flag.Parse()
	matches, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survivors := 0
	for _, m := range mutants {
		if !matches.MatchString(m.name) {
			continue
		}
		start := time.Now()
		killed, err := m.try(ctx, ".")
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "mutants: %s: %v\n", m.name, err)
			os.Exit(1)
		case !killed:
			survivors++
			fmt.Printf("SURVIVED  %s: no test of %s notices %s\n", m.name, strings.Join(m.tests, " "), m.file)
		default:
			fmt.Printf("killed    %s (%v)\n", m.name, time.Since(start).Round(time.Second))
		}
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// try runs the tests with the change, in the checkout at root. It reports whether one failed.
func (m mutant) try(ctx context.Context, root string) (killed bool, err error) {
	changed, err := m.apply(root)
	if err != nil {
		return false, err
	}
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(folder)
	overlay, err := m.overlay(root, folder, changed)
	if err != nil {
		return false, err
	}
	if err := command(ctx, root, append([]string{"test", "-overlay", overlay, "-run", "^$", "-vet=off"}, m.packages()...)); err != nil {
		return false, fmt.Errorf("the change does not compile: %w", err)
	}
	err = command(ctx, root, append([]string{"test", "-overlay", overlay, "-failfast", "-vet=off", "-timeout", "5m"}, m.tests...))
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	return err != nil, nil
}

// packages returns the packages among tests.
func (m mutant) packages() (all []string) {
	for _, t := range m.tests {
		if strings.HasPrefix(t, "./") {
			all = append(all, t)
		}
	}
	return all
}

// apply returns the file with the change.
func (m mutant) apply(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(content, []byte(m.text)); n != 1 {
		return nil, fmt.Errorf("%s has this text %d times, and must have it once: %s", m.file, n, m.text)
	}
	changed := bytes.Replace(content, []byte(m.text), []byte(m.with), 1)
	_, err = parser.ParseFile(token.NewFileSet(), m.file, changed, parser.SkipObjectResolution)
	return changed, err
}

// overlay writes the changed file and the JSON that the go command takes to a folder. It returns
// the path of the JSON.
func (m mutant) overlay(root, folder string, changed []byte) (string, error) {
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	with := filepath.Join(folder, filepath.Base(m.file))
	content, err := json.Marshal(map[string]map[string]string{"Replace": {file: with}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, errors.Join(os.WriteFile(with, changed, 0o600), os.WriteFile(path, content, 0o600))
}

// command runs the go command. Its error has the last lines of the output.
func command(ctx context.Context, root string, args []string) error {
	workspace, err := filepath.Abs(filepath.Join(root, ".ci", "go.work")) // some tests are in modules of contrib
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = root
	c.Env = append(os.Environ(), "GOWORK="+workspace)
	output, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output[max(0, len(output)-2000):])
	}
	return nil
}
