package browser

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTour steps through the first steps of the tour as its visitors do.
func TestTour(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tour")
	built, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./examples/tour").CombinedOutput()
	require.NoError(t, err, "%s", built)
	tour := exec.Command(program, "-address", "127.0.0.1:0", "-paused")
	out, err := tour.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tour.Start())
	t.Cleanup(func() { // after the pages are closed, which go on asking
		assert.NoError(t, tour.Process.Signal(syscall.SIGINT))
		assert.NoError(t, tour.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	home := regexp.MustCompile(`http://\S+/`).FindString(line)
	require.NotEmpty(t, home, line)

	steps := open(t, home+"steps")
	informers := open(t, home+"informers/")
	const pods = `section[data-key="pods"] `
	informers.shows(pods+`[data-value="objects"]`, "3")
	steps.shows("li[aria-current] p", "The reflector asks for a watch that begins with all objects. The cache holds three pods, and each subscriber has an initial addition for each. Slow takes two seconds for every event.")
	steps.do(chromedp.Click(chromedp.CSS("form[action=next] button")))
	informers.shows(pods+`[data-value="objects"]`, "4")
	steps.shows("li[aria-current] p", "The watch brings an Addition. Whoever is idle hears of it at once; at slow it waits in a queue of its own, for each object has one.")
	assert.Equal(t, "next", steps.evaluate(`document.activeElement.closest("form")?.getAttribute("action")`), "the button has lost the focus")
	steps.do(chromedp.Click(chromedp.CSS("form[action=next] button")))
	informers.shows(pods+`[data-value="changes"]`, "44")

	whole := open(t, home)
	whole.do(chromedp.WaitReady(chromedp.CSS("iframe")))
	whole.picture("tour.png", 1400, 900, false)
}
