package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTour goes through the first steps of the tour, freezes it, and goes back.
func TestTour(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tour")
	build := exec.Command("go", "build", "-C", "../..", "-o", program, "./examples/tour")
	build.Env = append(os.Environ(), "GOWORK=off")
	built, err := build.CombinedOutput()
	require.NoError(t, err, "%s", built)
	tour := exec.Command(program, "-address", "127.0.0.1:0", "-paused")
	out, err := tour.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tour.Start())
	t.Cleanup(func() { // after the page is closed, which polls the tour
		assert.NoError(t, tour.Process.Signal(syscall.SIGINT))
		assert.NoError(t, tour.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	home := regexp.MustCompile(`http://\S+/`).FindString(line)
	require.NotEmpty(t, home, line)

	tab := open(t, home)
	const current = "li[aria-current] "
	tab.shows(current+"h2", "Three pods exist")
	tab.framed(`section[data-key="pods"] [data-value="objects"]`, "3")
	press := func(button string) { tab.do(chromedp.Click(chromedp.CSS("#" + button))) }
	press("next")
	tab.shows(current+"h2", "A pod is created")
	tab.framed(`section[data-key="pods"] [data-value="objects"]`, "4")
	tab.matches(current+`[data-evidence="printed"]`, "quick: Addition of queue")
	assert.Equal(t, "next", tab.evaluate(`document.activeElement.id`), "the button has lost the focus")
	press("next")
	tab.framed(`section[data-key="pods"] [data-value="changes"]`, "44")

	press("freeze")
	tab.matches("#status", "frozen$")
	tab.framed("#live", "frozen")
	tab.picture("tour.png", 1400, 900, false)
	tab.picture("tour-phone.png", 390, 1500, false)
	tab.accessible("tour", "")
	tab.do(chromedp.EmulateViewport(360, 740))
	assert.Equal(t, "1", tab.evaluate(`[...document.querySelectorAll("li")].filter(li => li.offsetParent).length`), "a phone shows the current step only")
	assert.Equal(t, "true", tab.evaluate("document.documentElement.scrollWidth <= 360"))
	press("back")
	tab.shows(current+"h2", "A pod is created")
	tab.framed("#live", "live")
	tab.framed(`section[data-key="pods"] [data-value="objects"]`, "4")
	press("restart")
	tab.shows(current+"h2", "Three pods exist")
	tab.framed(`section[data-key="pods"] [data-value="changes"]`, "3")
}

// framed waits until an element of the informer's page in the frame has a text.
func (p *tab) framed(selector, want string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		return p.evaluate(fmt.Sprintf("document.querySelector('iframe').contentDocument?.querySelector(%q)?.textContent", selector)) == want
	}, patience, 20*time.Millisecond, "%s is not %q", selector, want)
}
