package browser

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// widest is the largest natural width of a diagram in pixels, so that a page shows it unscaled.
const widest = 800

// diagrams returns the Mermaid blocks of all pages, by file and line.
func diagrams(t *testing.T) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && strings.HasPrefix(name, ".") && name != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := ""
		for n, line := range strings.Split(string(text), "\n") {
			switch {
			case line == "```mermaid":
				at = fmt.Sprintf("%s:%d", strings.TrimPrefix(filepath.ToSlash(path), "../../"), n+1)
			case line == "```":
				at = ""
			case at != "":
				found[at] += line + "\n"
			}
		}
		return nil
	}))
	return found
}

// drawn is the result of rendering a diagram.
type drawn struct {
	Error    string
	Width    float64
	Labels   int
	Overlaps []string // pairs of texts
}

// draw renders a diagram. overlaps compares the boxes of its labels.
const draw = `
function overlaps(place) {
	const labels = [], found = [];
	for (const label of place.querySelectorAll("svg text, svg foreignObject .nodeLabel, svg foreignObject .edgeLabel")) {
		const words = label.textContent.trim(), box = label.getBoundingClientRect();
		if (words && box.width > 0 && !label.parentElement.closest(".nodeLabel, foreignObject .edgeLabel")) labels.push({words, box});
	}
	for (const [n, a] of labels.entries()) for (const b of labels.slice(n + 1)) {
		const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
		const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
		if (wide > 2 && high > 2) found.push(a.words + " / " + b.words);
	}
	return {Labels: labels.length, Overlaps: found};
}
async function draw(theme, text) {
	mermaid.initialize({startOnLoad: false, theme, fontFamily: "sans-serif", flowchart: {useMaxWidth: false}, sequence: {useMaxWidth: false}, state: {useMaxWidth: false}});
	const place = document.createElement("div");
	document.body.replaceChildren(place);
	try {
		place.innerHTML = (await mermaid.render("diagram", text)).svg;
	} catch (e) {
		return {Error: String(e)};
	}
	return {Width: place.querySelector("svg").getBoundingClientRect().width, ...overlaps(place)};
}`

// draws renders a diagram.
func (p *tab) draws(theme, text string) (d drawn) {
	p.t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(p.t, err)
	p.evaluate(fmt.Sprintf(`(window.found = "", draw(%q, %s).then(f => { window.found = JSON.stringify(f); }), 0)`, theme, quoted))
	var found string
	require.Eventually(p.t, func() bool {
		found = p.evaluate("window.found")
		return found != ""
	}, patience, 10*time.Millisecond, text)
	require.NoError(p.t, json.Unmarshal([]byte(found), &d))
	return d
}

// Diagrams are readable on a page of GitHub, in light and dark.
func TestDiagramsFitTheirPages(t *testing.T) {
	script, err := npmFile("mermaid", "12.3.0", "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw==", "package/dist/mermaid.min.js")
	require.NoError(t, err)
	tab := open(t, "data:text/html,<body>")
	for _, source := range []string{script, draw} {
		quoted, err := json.Marshal(source)
		require.NoError(t, err)
		tab.evaluate(fmt.Sprintf(`document.body.append(Object.assign(document.createElement("script"), {text: %s}))`, quoted))
	}
	assert.Equal(t, "one / two", tab.evaluate(`(document.body.innerHTML = "<svg><text y=20>one</text><text y=25>two</text><text y=60>three</text></svg>", overlaps(document.body).Overlaps.join())`))

	all := diagrams(t)
	require.NotEmpty(t, all)
	for at, text := range all {
		for _, theme := range []string{"default", "dark"} {
			d := tab.draws(theme, text)
			assert.Empty(t, d.Error, "%s (%s)", at, theme)
			assert.Positive(t, d.Labels, "%s (%s) has no labels", at, theme)
			assert.LessOrEqual(t, d.Width, float64(widest), "%s (%s) is too wide: draw it from top to bottom, or in two diagrams", at, theme)
			assert.Empty(t, d.Overlaps, "%s (%s): labels overlap", at, theme)
			t.Logf("%s (%s): %.0f px", at, theme, d.Width)
		}
	}
}
