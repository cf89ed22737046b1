package docscheck

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var runCommands = flag.Bool("commands", false, "run the commands that pages show and compare what they print, which takes minutes")

// elsewhere says of each other command that a page shows why this test does not run it.
var elsewhere = map[string]*regexp.Regexp{
	"a step of .ci/run":                      regexp.MustCompile(`^go test (?:-race |-C (?:internal/(?:e2e|bench|browser)|contrib/[\w/]+) )?\./\.\.\.(?: -screenshots \S+)?$`),
	"a test":                                 regexp.MustCompile(`^go test -v -run \w+ \./docs/series/exercises$`),
	"what runs this":                         regexp.MustCompile(`^(?:\.ci/run |GOWORK=\$PWD/\.ci/go\.work go test )`),
	"measures for minutes, and has tests":    regexp.MustCompile(`^go run -C internal/bench \. `),
	"of a release":                           regexp.MustCompile(`^(?:\.ci/release |go list -m github\.com/kubereflector/)`),
	"for a module of your own, with network": regexp.MustCompile(`^go (?:mod init|get) `),
	"needs a cluster":                        regexp.MustCompile(`^(?:(?:kubectl|curl) |go run \./docs/start/)`),
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
			command, _, _ := strings.Cut(line.text, "#")
			command = strings.TrimSpace(command)
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
		"README.md": "```sh\ngo run ./a/b\ngo test ./...\ngo test -C a ./b/...\ngo run ./a/x # text\ngo test -C b ./...\ngo test -C a ./a/...\nls ./x\n```\n" +
			"```\ngo run ./x\n```\n`go run ./a/b` or `go run ./y`",
	}, "README.md:5: there is no folder a/x", "README.md:6: there is no folder b", "README.md:7: there is no folder a/a", "README.md:13: there is no folder y")
}
