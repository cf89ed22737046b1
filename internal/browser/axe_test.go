package browser

import (
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var axe = sync.OnceValues(func() (string, error) {
	return npmFile("axe-core", "4.14.1", "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==", "package/axe.min.js")
})

// accessible checks the page with axe, in light and dark, on a wide screen and a phone. It first
// clicks the button that stops the page's updates; "" if there is none.
func (p *tab) accessible(name, freeze string) {
	p.t.Helper()
	script, err := axe()
	require.NoError(p.t, err)
	if freeze != "" {
		p.do(chromedp.Click(chromedp.CSS(freeze)))
	}
	p.evaluate("(() => {" + script + "})()")
	for _, width := range []int64{1300, 360} {
		p.do(chromedp.EmulateViewport(width, 800))
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.evaluate(`(window.found = "", axe.run({iframes: false}).then(
				r => { window.found = "done " + r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")).join("\n"); },
				e => { window.found = "failed " + e; }), 0)`)
			var found string
			require.Eventually(p.t, func() bool {
				found = p.evaluate("window.found")
				return found != ""
			}, patience, 20*time.Millisecond)
			assert.Equal(p.t, "done", found, "%s, %s, %d px", name, scheme, width)
		}
	}
}

func TestContrastThatIsTooLowIsFound(t *testing.T) {
	tab := open(t, "data:text/html,<html lang=en><title>a</title><main><h1>a</h1><p style='color:%23aaa'>pale")
	script, err := axe()
	require.NoError(t, err)
	tab.evaluate("(() => {" + script + "})()")
	tab.evaluate(`(axe.run().then(r => { window.found = r.violations.map(v => v.id).join(); }), 0)`)
	require.Eventually(t, func() bool { return tab.evaluate("window.found") == "color-contrast" }, patience, 20*time.Millisecond)
}
