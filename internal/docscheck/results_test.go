package docscheck

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the figures of docs/reference/results into the pages")

// TestResultsAreWritten renews the figures of the pages.
func TestResultsAreWritten(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	r, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]string{}
	for _, c := range r.resultCorrections() {
		if c.want == "" {
			continue // TestRepository reports it
		}
		if pages[c.file] == nil {
			text, err := os.ReadFile(filepath.Join(root, c.file))
			if err != nil {
				t.Fatal(err)
			}
			pages[c.file] = strings.Split(string(text), "\n")
		}
		pages[c.file][c.number-1] = c.correct(pages[c.file][c.number-1])
	}
	runs, err := r.results()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, memoryChart), []byte(drawMemory(runs["memory"])), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, lines := range pages {
		if err := os.WriteFile(filepath.Join(root, file), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const run = `{"cases": [
	{"name":"get/1","unit":"ns","goal":"ratio<=0.6","met":true,"ours":50,"peer":100,"spread":0.1},
	{"name":"lag","unit":"ms","goal":"ours<=20","met":false,"ours":34.12,"peer":3943,"spread":0.25},
	{"name":"idle","unit":"per handler","goal":"-","met":true,"ours":0,"peer":0,"spread":0},
	{"name":"plain/heap","unit":"kB","goal":"-","met":true,"ours":1.5,"peer":12.34,"spread":0}
]}`

const tableOfRun = "# Speed\n## The cache\n| case of `store` | | ours | client-go | ratio (goal) | unit | spread |\n|--|--|--|--|--|--|--|\n" +
	"| `get/1` | a read | 50.0 | 100 | 0.50 (0.6) | ns | 10% |\n" +
	"| `lag` | | 34.1 | 3,943 | 0.01 (20 ms missed) | ms | 25% |\n" +
	"| `idle` | | 0 | 0 | - | per handler | 0% |\n"

func TestFiguresAreThoseOfTheRun(t *testing.T) {
	results := map[string]string{"docs/reference/results/store.json": run}
	tests := map[string]pageTest{
		"the run's": {tableOfRun, nil},
		"another figure": {strings.Replace(tableOfRun, "| 50.0 |", "| 49.9 |", 1),
			[]string{"docs/speed.md:5: docs/reference/results/store.json: get/1: ours is 50.0, not 49.9"}},
		"another peer": {strings.NewReplacer("client-go", "kro", "| 100 |", "| 0 |").Replace(tableOfRun),
			[]string{"docs/speed.md:5: docs/reference/results/store.json: get/1: kro is 100, not 0"}},
		"another goal": {strings.Replace(tableOfRun, " missed", "", 1),
			[]string{"docs/speed.md:6: docs/reference/results/store.json: lag: ratio (goal) is 0.01 (20 ms missed), not 0.01 (20 ms)"}},
		"no such case": {strings.Replace(tableOfRun, "`idle`", "`busy`", 1),
			[]string{`docs/speed.md:7: docs/reference/results/store.json: the run has no case "busy"`}},
		"no such run": {"| case of `queue` | ours |\n|--|--|\n| `get/1` | 1 |\n",
			[]string{`docs/speed.md:3: docs/reference/results/queue.json: the run has no case "get/1"`}},
		"a cell too few": {strings.Replace(tableOfRun, "| 10% |", "|", 1),
			[]string{"docs/speed.md:5: docs/reference/results/store.json: the row has 6 cells, and the table 7 columns"}},
		"metrics in columns":    {"| case of `store` | form | heap, kB `heap` | of client-go's `heap`, ratio |\n|--|--|--|--|\n| `plain`, peer | client-go | 12.3 | 1 |\n| `plain` | plain | 1.50 | 0.12 |\n", nil},
		"the peer's in columns": {"| case of `store` | heap, kB `heap` | client-go, `heap`, peer |\n|--|--|--|\n| `plain` | 1.50 | 12.3 |\n", nil},
		"a wrong metric": {"| case of `store` | heap, kB `heap` |\n|--|--|\n| `plain` | 12.3 |\n",
			[]string{"docs/speed.md:3: docs/reference/results/store.json: plain: heap, kB `heap` is 1.50, not 12.3"}},
		"another table": {"| case | ours |\n|--|--|\n| `get/1` | 1 |\n", nil},
		"links":         {tableOfRun + "\n[50.0](#the-cache \"store get/1, ours\") [34.1 ms](#the-cache \"store lag, ours\") [3,943](speed.md#the-cache \"store lag, peer\") [0.50](#the-cache \"store get/1, ratio\") [1](a.md#b)", nil},
		"wrong links": {tableOfRun + "\n[51](#the-cache \"store get/1, ours\") [1](#speed \"store get/1, ours\") [1](#the-cache \"store get/2, ours\")",
			[]string{"docs/speed.md:9: ours of store get/1 is 50.0, not 51", `docs/speed.md:9: docs/speed.md#speed has no row of the case "store get/1"`, `docs/speed.md:9: no run has the case "store get/2"`}},
		"a figure without its case": {tableOfRun + "\n[50.0 ns](speed.md#the-cache) [two](speed.md#the-cache)",
			[]string{`docs/speed.md:9: 50.0 ns names no case: write [50.0 ns](speed.md#the-cache "subcommand case, ours")`}},
	}
	each(t, "Results", "docs/speed.md", tests, results)
	check(t, "Results", map[string]string{"docs/reference/results/store.json": "{"}, "docs/reference/results:0: docs/reference/results/store.json: unexpected end of JSON input")
}

func TestFiguresAreCorrected(t *testing.T) {
	page := strings.Replace(tableOfRun, "| 50.0 | 100 |", "| ? | ? |", 1) + "\nIt takes [1 ns](#the-cache \"store get/1, ours\") and [2](#the-cache \"store lag, peer\")."
	r := load(t, map[string]string{"docs/reference/results/store.json": run, "docs/speed.md": page})
	lines := strings.Split(page, "\n")
	for _, c := range r.resultCorrections() {
		lines[c.number-1] = c.correct(lines[c.number-1])
	}
	want := tableOfRun + "\nIt takes [50.0 ns](#the-cache \"store get/1, ours\") and [3,943](#the-cache \"store lag, peer\")."
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("corrected is\n%s", got)
	}
}

func TestChartShowsTheRun(t *testing.T) {
	const memory = `{"cases": [{"name":"plain-field/client-go/live-heap","ours":6,"peer":12},{"name":"compact-field/client-go/live-heap","ours":1.5,"peer":12}]}`
	r := load(t, map[string]string{"docs/reference/results/memory.json": memory})
	runs, err := r.results()
	if err != nil {
		t.Fatal(err)
	}
	drawn := drawMemory(runs["memory"])
	for _, want := range []string{`width="460.0"`, `width="230.0"`, `width="57.5"`, ">12.0 kB<", ">6.00 kB<", ">1.50 kB<"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("%s is not in\n%s", want, drawn)
		}
	}
	check(t, "Charts", map[string]string{"docs/reference/results/memory.json": memory, memoryChart: drawn})
	wrong := memoryChart + " does not show the run in docs/reference/results/memory.json: go test ./internal/docscheck -run Written -update"
	check(t, "Charts", map[string]string{"docs/reference/results/memory.json": memory, memoryChart: drawn + "x"}, wrong)
	check(t, "Charts", map[string]string{"docs/reference/results/memory.json": memory}, wrong)
	check(t, "Charts", map[string]string{"a.md": ""})
}
