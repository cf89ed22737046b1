package docscheck

import (
	"fmt"
	"io/fs"
	"strings"
)

// memoryChart is the picture of docs/memory.md.
const memoryChart = "docs/images/memory.svg"

// bars are the forms of memoryChart, and the cases of the run "memory" that have their heap.
var bars = []struct {
	form, of string
	peer     bool
}{
	{"client-go", "plain-field", true},
	{"plain", "plain-field", false},
	{"interned", "interned-field", false},
	{"stripped", "stripped-field", false},
	{"compact", "compact-field", false},
}

// Charts returns one line if the chart of memory differs from the run that is kept.
func Charts(r *Repository) []string {
	runs, err := r.results()
	if err != nil {
		return []string{err.Error()}
	}
	if runs["memory"] == nil {
		return nil
	}
	drawn, err := fs.ReadFile(r.FS, memoryChart)
	if err != nil || string(drawn) != drawMemory(runs["memory"]) {
		return []string{memoryChart + " does not show the run in " + resultFolder + "/memory.json: go test ./internal/docscheck -run Written -update"}
	}
	return nil
}

// drawMemory draws a bar for each form, with its figure. The colours are for a light and a dark page.
func drawMemory(run map[string]measured) string {
	const left, right, line, most = 90, 70, 30, 460 // pixels: of the names, the figures, a bar with its space, the longest bar
	heap := func(i int) float64 {
		m := run[bars[i].of+"/client-go/live-heap"]
		if bars[i].peer {
			return m.Peer
		}
		return m.Ours
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title">
<title id="title">Live heap in kB an object, 100,000 pods as in real clusters</title>
<style>
text { font: 14px sans-serif; fill: #1f2328 }
rect { fill: #2563a8 }
rect.peer { fill: #767676 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #6cb0f5 } rect.peer { fill: #9a9a9a } }
</style>
`, left+most+right, line*len(bars))
	longest := 0.0
	for i := range bars {
		longest = max(longest, heap(i))
	}
	for i, bar := range bars {
		class, y := "ours", line*i
		if bar.peer {
			class = "peer"
		}
		width := heap(i) / longest * most
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/><text x="%.1f" y="%d">%s kB</text>`+"\n",
			left-8, y+20, bar.form, class, left, y+6, width, line-12, left+width+6, y+20, figure(heap(i)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
