package docscheck

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var runCommands = flag.Bool("commands", false, "run the commands that pages show and compare what they print, which takes minutes")

// elsewhere says of each other command that a page shows why this test does not run it.
var elsewhere = map[string]*regexp.Regexp{
	"a step of .ci/run":                      regexp.MustCompile(`^go test (?:-race |-C (?:internal/(?:e2e|bench|browser)|contrib/[\w/]+|docs/start/\w+) )?\./\.\.\.(?: -screenshots \S+)?$`),
	"a test":                                 regexp.MustCompile(`^go test (?:-v -run \w+ \./docs/series/exercises|\./examples/series -v(?: -run (?:\w+|'[\w|]+'))?|\./examples/simulation -run \w+)$`),
	"what runs this":                         regexp.MustCompile(`^(?:\.ci/run |(?:GOTOOLCHAIN=\S+ )?GOWORK=\$PWD/\.ci/(?:go|next)\.work go test )`),
	"goes on for minutes, and has tests":     regexp.MustCompile(`^(?:KUBEREFLECTOR_ALL_SCHEDULES=1 )?go (?:test -C internal/e2e -timeout 20m \./upstream/\.\.\.|test -C internal/e2e/upstream/testdata/operators/\w+ -timeout 30m \./\.\.\.|run -C internal/bench \. |test -C internal/bench \./latebench |test -C contrib/controllerruntime \./simulated(?: -run '\w+\$' -v)?$)`),
	"writes into the pages":                  regexp.MustCompile(`^go test \./internal/docscheck -run Written -update$`),
	"of a release":                           regexp.MustCompile(`^(?:\.ci/release |go list -m github\.com/kubereflector/)`),
	"for a module of your own, with network": regexp.MustCompile(`^(?:(?:go (?:mod (?:init|edit|tidy|vendor)|get)|git clone) |go generate -C \S+$)`),
	"needs a cluster":                        regexp.MustCompile(`^(?:(?:kubectl|curl|docker) |go run \./docs/start/\w+$|go run \./examples/\w+ -kubeconfig \S+$)`),
	"goes on until Ctrl-C, and has a test":   regexp.MustCompile(`^go run \./examples/tour$`),
}

// Every command that a page shows is run here, or somewhere else on purpose.
func TestCommandsPrintWhatThePagesSay(t *testing.T) {
	repository, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{} // the outputs that pages show, by command
	for _, shell := range repository.blocks {
		if shell.language != "sh" || strings.HasPrefix(shell.file, "internal/") {
			continue
		}
		for _, line := range shell.lines() {
			command := strings.TrimSpace(line.text)
			switch {
			case command == "" || runElsewhere(command):
			case exampleCommand.MatchString(command):
				said[command] = nil
			default:
				t.Error(line.wrong("nobody runs %s", command))
			}
		}
	}
	for _, output := range repository.outputs() {
		said[output.command] = append(said[output.command], output.text)
	}
	if len(said) < 10 {
		t.Errorf("there are only %d commands that run an example", len(said))
	}
	if !*runCommands {
		t.Skip("without -commands they are not run")
	}
	for _, block := range repository.blocks {
		if isProgram(block) {
			t.Run(block.file, func(t *testing.T) { runProgram(t, block) })
		}
	}
	for command, want := range said {
		t.Run(command, func(t *testing.T) { compare(t, command, want) })
	}
}

func runElsewhere(command string) bool {
	for _, commands := range elsewhere {
		if commands.MatchString(command) {
			return true
		}
	}
	return false
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// compare runs a command in the root of the repository. The order of lines is left to the example's own test: some print from several goroutines.
func compare(t *testing.T, command string, want []string) {
	run := exec.CommandContext(t.Context(), "go", strings.Fields(command)[1:]...)
	run.Dir = root
	run.Env = append(os.Environ(), "KUBECONFIG=/no/such/file") // examples run in memory whatever it says
	var problems strings.Builder
	run.Stderr = &problems
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	if len(out) == 0 {
		t.Error("it printed nothing")
	}
	got := port.ReplaceAllString(string(out), "127.0.0.1:PORT")
	for _, want := range want {
		if !prints(got, want) {
			t.Errorf("it prints\n%s\nand not\n%s", got, want)
		}
	}
}

// prints reports whether a page may show want for the output got.
func prints(got, want string) bool {
	shown := slices.Collect(strings.Lines(want))
	if !slices.Contains(shown, more+"\n") {
		return slices.Equal(sorted(got), sorted(want))
	}
	rest := slices.Collect(strings.Lines(got))
	for _, line := range shown {
		at := slices.Index(rest, line)
		switch {
		case line == more+"\n":
		case at < 0:
			return false
		default:
			rest = slices.Delete(rest, at, at+1)
		}
	}
	return true
}

func TestPrints(t *testing.T) {
	for _, test := range []struct {
		got, want string
		right     bool
	}{
		{"a\nb\n", "b\na\n", true},
		{"a\nb\n", "a\n", false},
		{"a\nb\n", "a\n...\n", true},
		{"a\nb\n", "a\na\n...\n", false},
		{"a\nb\n", "...\nc\n", false},
	} {
		if prints(test.got, test.want) != test.right {
			t.Errorf("%q for %q: not %v", test.got, test.want, test.right)
		}
	}
}

func sorted(text string) []string { return slices.Sorted(strings.Lines(text)) }

func TestCommands(t *testing.T) {
	check(t, "Commands", map[string]string{
		"a/b/c.go": "package b",
		"README.md": "```sh\ngo run ./a/b\ngo test ./...\ngo test -C a ./b/...\ngo run ./a/x\ngo test -C b ./...\ngo test -C a ./a/...\nls ./x\n```\n" +
			"```\ngo run ./x\n```\n`go run ./a/b` or `go run ./y`",
	}, "README.md:5: there is no folder a/x", "README.md:6: there is no folder b", "README.md:7: there is no folder a/a", "README.md:13: there is no folder y")
	const zsh = ": zsh takes a pattern or a comment otherwise than bash: quote it, or leave it out"
	check(t, "Commands", map[string]string{
		"README.md":          "```sh\nls 'a*' \"[b]\" 'c' # text\nls *.go\nls a[1]\nls $A ./... {a,b}\n```\n```go\nf(a[1])\n```",
		"internal/README.md": "```sh\nls *.go # text\n```",
	}, "README.md:2"+zsh, "README.md:3"+zsh, "README.md:4"+zsh)
}

// TestPrograms type-checks every whole program that a page shows. With -commands,
// TestCommandsPrintWhatThePagesSay runs them, too.
func TestPrograms(t *testing.T) {
	repository, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, block := range repository.blocks {
		if isProgram(block) {
			shown[block.file]++
			goCommand(t, block, "vet", sourceOf(t, block))
		}
	}
	if shown["README.md"] == 0 {
		t.Error("README.md shows no program")
	}
}

// runProgram builds a program and runs it without a server. The program reports a kubeconfig that
// does not exist, and a server that does not listen.
func runProgram(t *testing.T, program block) {
	source := sourceOf(t, program)
	binary := strings.TrimSuffix(source, ".go")
	goCommand(t, program, "build", "-o", binary, source)
	expectOutput(t, binary, "/no/such/file", "no configuration")
	expectOutput(t, binary, unreachable(t), "connection refused")
}

func sourceOf(t *testing.T, program block) string {
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program.text), 0o600); err != nil {
		t.Fatal(err)
	}
	return source
}

func goCommand(t *testing.T, program block, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = root
	command.Env = append(os.Environ(), "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatal(program.wrong("go %s: %v\n%s", arguments[0], err, out))
	}
}

// unreachable returns a kubeconfig whose server refuses connections.
func unreachable(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "k"}}],
"clusters": [{"name": "k", "cluster": {"server": "https://%s"}}]}`, address)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// expectOutput runs a program until it prints a line that contains text.
func expectOutput(t *testing.T, program, kubeconfig, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=")
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it fails, or is killed
		writer.Close()
	}()
	found := false
	var printed strings.Builder
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if found = found || strings.Contains(lines.Text(), text); found {
			cancel() // the program may run until it is killed
		}
	}
	<-ended
	if !found {
		t.Errorf("%s with KUBECONFIG=%s does not print %q, but\n%s", program, kubeconfig, text, printed.String())
	}
}
