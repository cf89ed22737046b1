package browser

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openTour opens the page of a tour.
func openTour(t *testing.T) *tab {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tour")
	build := exec.Command("go", "build", "-C", "../..", "-o", program, "./examples/tour")
	build.Env = append(os.Environ(), "GOWORK=off")
	built, err := build.CombinedOutput()
	require.NoError(t, err, "%s", built)
	tour := exec.Command(program, "-address", "127.0.0.1:0")
	out, err := tour.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tour.Start())
	t.Cleanup(func() {
		assert.NoError(t, tour.Process.Signal(syscall.SIGINT))
		assert.NoError(t, tour.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	home := regexp.MustCompile(`http://\S+/`).FindString(line)
	require.NotEmpty(t, home, line)
	return open(t, home)
}

// motion lets the reader want less motion, or not.
func (p *tab) motion(preference string) {
	p.t.Helper()
	p.do(func(ctx context.Context, target *chromedp.Target) (void chromedp.Void, err error) {
		_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: preference}},
		})
		return void, err
	})
}

func (p *tab) press(button string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS("#" + button)))
}

// TestTour goes through the tour on a phone with a keyboard, without motion.
func TestTour(t *testing.T) {
	tab := openTour(t)
	tab.motion("reduce")
	tab.do(chromedp.EmulateViewport(360, 740))
	const theirs = `[data-place="queue-client-go"] .token`
	count := func(selector string) string {
		return tab.evaluate("document.querySelectorAll('" + selector + "').length")
	}
	tab.shows("h2", "Three pods")
	assert.Equal(t, "next", tab.evaluate("document.activeElement.id"), "the first key of a reader goes on")
	const steps = 15
	for n := 2; n <= steps; n++ {
		key := kb.Enter
		if n%2 == 1 {
			key = kb.ArrowRight
		}
		tab.do(chromedp.KeyEvent(key))
		tab.shows("#at", fmt.Sprintf("Step %d of %d", n, steps))
		title := tab.text("h2")
		assert.NotEmpty(t, tab.text("#moved"), title)
		assert.Equal(t, "next", tab.evaluate("document.activeElement.id"), "%s: the button has lost the focus", title)
		assert.Equal(t, "0", count(".flying"), "%s: a shape moves", title)
		assert.Equal(t, "true", tab.evaluate("document.documentElement.scrollWidth <= 360"), title)
		assert.Equal(t, "true", tab.evaluate("picture.getBoundingClientRect().bottom <= step.getBoundingClientRect().top"), "%s: the picture is on top", title)
		if title == "Events merge" {
			tab.matches("#moved li:last-child", "buffer holds 5")
			tab.matches(`[data-place="queue-slow"] .token`, "5 in 1")
			assert.Equal(t, "5", count(theirs))
			tab.picture("tour.png", 1040, 700, false)
			tab.picture("tour-phone.png", 360, 900, true)
			tab.accessible("tour", "")
			tab.do(chromedp.EmulateViewport(360, 740))
			tab.motion("reduce") // accessible has changed it
		}
	}
	assert.Equal(t, "The end", tab.text("h2"))
	assert.Equal(t, "true", tab.evaluate("next.ariaDisabled"))
	for n := steps - 1; n >= 6; n-- {
		tab.press("back")
		tab.shows("#at", fmt.Sprintf("Step %d of %d", n, steps))
	}
	tab.shows("h2", "Events merge")
	assert.Equal(t, "5", count(theirs))
	tab.press("restart")
	tab.shows("h2", "Three pods")
	assert.Equal(t, "0", count(`[data-place="cache"] .token`))
}

// TestTourMoves sees a shape travel, and ends its way by a second press.
func TestTourMoves(t *testing.T) {
	tab := openTour(t)
	tab.motion("no-preference")
	tab.evaluate(`(window.flew = [], new MutationObserver(all => all.forEach(m => m.addedNodes.forEach(
		n => n.classList?.contains("flying") && flew.push(n.className.baseVal)))).observe(document.body, {childList: true}))`)
	tab.press("next")
	tab.shows("h2", "The first list")
	tab.matches("#moved", "quick got Addition of web")
	assert.Equal(t, "flying blue,flying leaf,flying web", strings.Join(strings.Split(tab.evaluate("flew"), ",")[:3], ","))
	tab.press("next")
	tab.shows(".flying", "")
	tab.press("next")
	tab.shows("h2", "A change travels")
	tab.matches("#moved", "quick got Modification of web")
	assert.Equal(t, "Step 3 of 15", tab.text("#at"), "the second press ended the way of the pods only")
}
