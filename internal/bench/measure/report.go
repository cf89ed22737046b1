package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Report is a run as a file keeps it. docs/reference/results has those whose figures the pages show.
type Report struct {
	// Command repeats the run.
	Command string `json:"command"`
	// Commit is the revision of the sources, with "+changes" if files differed from it.
	Commit  string    `json:"commit"`
	Start   time.Time `json:"start"`
	Seconds int       `json:"seconds"`
	Machine string    `json:"machine"`
	// Load is the mean number of runnable threads of the machine in the minute before the run.
	Load     string            `json:"load"`
	Versions map[string]string `json:"versions"`
	Cases    []Measured        `json:"-"`
}

// Measured is a case with its figures.
type Measured struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Goal has the form of [Goal.String].
	Goal string `json:"goal"`
	Met  bool   `json:"met"`
	// Ours and Peer are medians, in Unit.
	Ours float64 `json:"ours"`
	Peer float64 `json:"peer"`
	// Spread is the distance of the least figure of a side and its greatest, as a part of its median:
	// that of the side where it is larger.
	Spread float64 `json:"spread"`
	// Rounds are the figures of each side in the order in which they were measured.
	Rounds [2][]float64 `json:"rounds"`
}

// NewReport describes the machine and the sources.
func NewReport(command string) *Report {
	r := &Report{
		Command:  command,
		Commit:   commit(),
		Start:    time.Now().UTC().Truncate(time.Second),
		Machine:  fmt.Sprintf("%s/%s, %s, %d CPUs%s", runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), processor()),
		Load:     load(),
		Versions: versions(),
	}
	return r
}

// add keeps the result of a case, with four significant digits.
func (r *Report) add(c Case, result result) {
	m := Measured{
		Name: c.Name, Unit: c.Unit, Goal: c.Goal.String(), Met: c.Goal.Met(result.ours, result.peer),
		Ours: significant(result.ours), Peer: significant(result.peer), Spread: significant(result.spread),
	}
	for i, figures := range result.rounds {
		for _, figure := range figures {
			m.Rounds[i] = append(m.Rounds[i], significant(figure))
		}
	}
	r.Cases = append(r.Cases, m)
}

// WriteFile writes JSON with a case on each line, so that a difference of two runs can be read.
func (r *Report) WriteFile(name string) error {
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		return err
	}
	return os.WriteFile(name, text.Bytes(), 0o644)
}

func (r *Report) write(b *bytes.Buffer) error {
	r.Seconds = int(time.Since(r.Start).Seconds())
	head, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	b.WriteString(",\n  \"cases\": [")
	for i, c := range r.Cases {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false) // goals have a "<"
		if err := encoder.Encode(c); err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "\n    %s", bytes.TrimSpace(line.Bytes()))
	}
	b.WriteString("\n  ]\n}\n")
	return nil
}

// significant rounds to four significant digits.
func significant(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// versions are those of the modules that a comparison depends on. It is empty without the go command.
func versions() map[string]string {
	all := map[string]string{}
	// The build information of a test has no modules, so the go command says them.
	list, _ := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "k8s.io/client-go", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime", "github.com/kubernetes-sigs/kro").Output()
	for line := range strings.Lines(string(list)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[path] = version
		}
	}
	return all
}

// commit is empty outside of a git checkout. Results that were written before are no change of the sources.
func commit() string {
	hash, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	text := strings.TrimSpace(string(hash))
	if changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)docs/reference/results").Output(); err != nil || len(changes) > 0 {
		text += "+changes"
	}
	return text
}

// processor names the processor, after a comma. It is empty on systems without /proc.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return ", " + strings.Trim(name, " \t:\n")
		}
	}
	return ""
}

// load is empty on systems without /proc.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
