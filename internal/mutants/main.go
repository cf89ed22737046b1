// Command mutants changes one line of the library at a time, runs the tests of the packages that
// must notice, and reports the changes that no test noticed.
//
//	go run ./internal/mutants                          # all, in about a quarter of an hour on two cores
//	go run ./internal/mutants -run shard               # those whose name matches
//	go run ./internal/mutants -sample 20               # new ones, in packages that you have changed
//	go run ./internal/mutants -sample 20 ./store       # new ones, in these packages
//
// It changes no file: the go command reads each change through -overlay. Rapid leaves what it found
// in testdata/rapid, which git ignores. A change that no test notices is a behaviour without a test.
// Write the test, then add the change to the list. Of the new ones, some make no difference to anybody:
// a larger buffer, a second check. sample.go says how they are drawn.
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
	"math/rand/v2"
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

// change is a file with one change.
type change struct {
	name    string
	file    string
	content []byte
	tests   []string // see mutant
	timeout time.Duration
}

// errCompile means that a change does not compile.
var errCompile = errors.New("the change does not compile")

func main() {
	run := flag.String("run", "", "a regular expression: only mutants whose name matches")
	sample := flag.Int("sample", 0, "draw so many new mutants, instead of those of the list")
	seed := flag.Uint64("seed", rand.Uint64(), "of -sample: the same seed draws the same mutants of the same code")
	flag.Parse()
	matches, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var survivors int
	if *sample > 0 {
		survivors, err = trySample(ctx, *sample, *seed, flag.Args())
	} else {
		survivors, err = tryList(ctx, matches)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || survivors > 0 {
		os.Exit(1)
	}
}

// tryList tries the mutants of the list whose name matches, and returns how many survived.
func tryList(ctx context.Context, matches *regexp.Regexp) (survivors int, err error) {
	for _, m := range mutants {
		if !matches.MatchString(m.name) {
			continue
		}
		c, err := m.apply(".")
		if err != nil {
			return survivors, fmt.Errorf("%s: %w", m.name, err)
		}
		killed, err := c.report(ctx)
		switch {
		case errors.Is(err, errCompile): // that of the others is worth knowing all the same
			fmt.Printf("BROKEN    %s: %v\n", m.name, err)
			survivors++
		case err != nil:
			return survivors, fmt.Errorf("%s: %w", m.name, err)
		case !killed:
			survivors++
		}
	}
	return survivors, nil
}

// report tries a change and prints what came of it.
func (c *change) report(ctx context.Context) (killed bool, err error) {
	start := time.Now()
	killed, err = c.try(ctx, ".")
	switch {
	case err != nil:
	case !killed:
		fmt.Printf("SURVIVED  %s: no test of %s notices %s\n", c.name, strings.Join(c.tests, " "), c.file)
	default:
		fmt.Printf("killed    %s (%v)\n", c.name, time.Since(start).Round(time.Second))
	}
	return killed, err
}

// try runs the tests with the change, in the checkout at root. It reports whether one failed.
func (c *change) try(ctx context.Context, root string) (killed bool, err error) {
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(folder)
	overlay, err := c.overlay(root, folder)
	if err != nil {
		return false, err
	}
	if err := command(ctx, root, append([]string{"test", "-overlay", overlay, "-run", "^$", "-vet=off"}, c.packages()...)); err != nil {
		return false, fmt.Errorf("%w: %w", errCompile, err)
	}
	err = command(ctx, root, append([]string{"test", "-overlay", overlay, "-failfast", "-vet=off", "-timeout", c.timeout.String()}, c.tests...))
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
func (c *change) packages() (all []string) {
	for _, t := range c.tests {
		if strings.HasPrefix(t, "./") {
			all = append(all, t)
		}
	}
	return all
}

// apply returns the change of a mutant.
func (m mutant) apply(root string) (*change, error) {
	content, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(content, []byte(m.text)); n != 1 {
		return nil, fmt.Errorf("%s has this text %d times, and must have it once: %s", m.file, n, m.text)
	}
	content = bytes.Replace(content, []byte(m.text), []byte(m.with), 1)
	_, err = parser.ParseFile(token.NewFileSet(), m.file, content, parser.SkipObjectResolution)
	return &change{name: m.name, file: m.file, content: content, tests: m.tests, timeout: 5 * time.Minute}, err
}

// overlay writes the changed file and the JSON that the go command takes to a folder. It returns
// the path of the JSON.
func (c *change) overlay(root, folder string) (string, error) {
	file, err := filepath.Abs(filepath.Join(root, c.file))
	if err != nil {
		return "", err
	}
	with := filepath.Join(folder, filepath.Base(c.file))
	content, err := json.Marshal(map[string]map[string]string{"Replace": {file: with}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, errors.Join(os.WriteFile(with, c.content, 0o600), os.WriteFile(path, content, 0o600))
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
