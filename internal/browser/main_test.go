package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "folder to write pictures of the pages into")

var chromium = func() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}()

func TestMain(m *testing.M) {
	flag.Parse()
	if chromium == "" {
		fmt.Fprintln(os.Stderr, "these tests need Chromium: install it, as by: apt-get install chromium")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// patience is how long a page may take to show something.
const patience = time.Minute

// tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// open opens a page. The test fails if the browser complains of it until it ends.
func open(t *testing.T, address string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1300, 1000), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-dev-shm-usage", true))
	allocator, closeAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	console := chromedp.Console(ctx)
	problems := make(chan []string, 1)
	go func() {
		var all []string
		for message, err := range console {
			if err != nil {
				break // the page was closed
			}
			if message.IsException() || message.Type == chromedp.ConsoleError || message.Type == chromedp.ConsoleWarning {
				all = append(all, message.String())
			}
		}
		problems <- all
	}()
	t.Cleanup(func() {
		closeTab()
		closeAllocator()
		assert.Empty(t, <-problems)
	})
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(address)))
	return &tab{t: t, ctx: ctx}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, actions...))
}

func run[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	require.NoError(p.t, err)
	return value
}

// evaluate returns the value of an expression in the page, as text.
func (p *tab) evaluate(expression string) string {
	p.t.Helper()
	return strings.TrimSpace(run(p, chromedp.Evaluate[string]("String("+expression+")")))
}

// text returns the text of what a selector finds first.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return p.evaluate(fmt.Sprintf("document.querySelector(%q)?.textContent", selector))
}

// shows waits until something has a text.
func (p *tab) shows(selector, want string) {
	p.t.Helper()
	var last string
	require.Eventually(p.t, func() bool {
		last = p.text(selector)
		return last == want
	}, patience, 20*time.Millisecond, "%s is not %q", selector, want)
}

// matches waits until the text of an element matches a pattern.
func (p *tab) matches(selector, pattern string) {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	require.Eventually(p.t, func() bool { return want.MatchString(p.text(selector)) }, patience, 20*time.Millisecond, "%s does not match %s", selector, pattern)
}

// visit goes to another page.
func (p *tab) visit(address string) {
	p.t.Helper()
	p.do(chromedp.Navigate(address))
}

// scheme shows the page in light or dark colors.
func (p *tab) scheme(name string) {
	p.t.Helper()
	p.do(func(ctx context.Context, target *chromedp.Target) (void chromedp.Void, err error) {
		_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return void, err
	})
}

// picture writes a picture of the page, if pictures are wanted.
func (p *tab) picture(name string, width, height int64, dark bool) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.do(chromedp.EmulateViewport(width, height))
	p.scheme(scheme)
	png := run(p, chromedp.CaptureScreenshot())
	require.NoError(p.t, os.MkdirAll(*screenshots, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name), png, 0o644))
}
