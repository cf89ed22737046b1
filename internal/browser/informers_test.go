package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

const hidden = "hush-hush"

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

// program is one that shows its informers.
type program struct {
	server *reflectortest.Server
	maps   *informer.Informer[*corev1.ConfigMap]
	slow   *informer.Subscription[*corev1.ConfigMap]
	home   string
}

func start(t *testing.T) *program {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	require.NoError(t, server.Create(&corev1.Secret{ObjectMeta: named("password"), StringData: map[string]string{"p": hidden}, Data: map[string][]byte{"q": []byte(hidden)}}))
	for n := range 5 {
		require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: named(fmt.Sprint("cm-", n))}))
	}
	p := &program{server: server, maps: informer.New(clientset.CoreV1().ConfigMaps(""), informer.WithName("maps"))}
	p.slow = p.maps.Subscribe(informer.WithName("not pulled"))
	p.maps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
		if e.Key.Name == "cm-0" {
			return errors.New("<b>not</b> this one")
		}
		return nil
	}), informer.WithName("fails"))
	secrets := informer.New(clientset.CoreV1().Secrets(""), informer.WithName("secrets"))

	shown := inspect.New(inspect.WithInterval(50 * time.Millisecond))
	inspect.Add(shown, p.maps)
	inspect.Add(shown, secrets)
	ctx, stop := context.WithCancel(context.Background())
	all := manager.New(nil)
	all.Add(p.maps)
	all.Add(secrets)
	var running sync.WaitGroup
	running.Go(func() { _ = all.Run(ctx) }) // one handler fails for ever
	web := httptest.NewServer(shown)
	p.home = web.URL
	t.Cleanup(func() {
		shown.Close()
		web.Close()
		stop()
		running.Wait()
	})
	return p
}

const maps = `section[data-key="maps"] `

func TestNumbersAreThoseOfTheProgram(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows("#live", "live")
	tab.shows(maps+`[data-value="objects"]`, "5")
	tab.shows(maps+`[data-value="phase"]`, "Watching")
	for n := range 20 {
		require.NoError(t, p.server.Create(&corev1.ConfigMap{ObjectMeta: named(fmt.Sprint("more-", n))}))
		require.NoError(t, p.server.Update(&corev1.ConfigMap{ObjectMeta: named("cm-1"), Data: map[string]string{"n": strconv.Itoa(n)}}))
	}
	tab.shows(maps+`[data-value="objects"]`, "25")
	tab.shows(maps+`[data-value="changes"]`, "45")
	stats := p.slow.Stats()
	row := maps + `tr[data-subscriber="not pulled"] `
	tab.shows(row+`[data-value="keys"]`, strconv.Itoa(stats.Keys))
	tab.shows(row+`[data-value="events"]`, strconv.Itoa(stats.Events))
	tab.shows(row+`[data-value="merged"]`, strconv.FormatUint(stats.Merged, 10))
	tab.shows(maps+`[data-value="resourceVersion"]`, p.maps.Cache().ResourceVersion())
	assert.Contains(t, tab.text(maps), "<b>not</b> this one", "text, and no element")
	assert.Equal(t, "0", tab.evaluate("document.querySelectorAll('#informers b').length"))
	tab.picture("informers.png", 1300, 1000, false)
	tab.picture("informers-dark.png", 1300, 1000, true)
	tab.picture("informers-phone.png", 390, 844, false)
}

// flow is the arrow from the API server to the reflector, and moves is its animation.
const (
	flow  = maps + ".pipeline > .arrow"
	moves = `getComputedStyle(document.querySelector('` + flow + `'), "::before").animationName`
)

func TestFaultsAppearAndGo(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows(maps+`[data-value="phase"]`, "Watching")
	tab.shows(maps+`[data-value="failure"]`, "none")
	tab.shows(maps+".badge", "ready")
	changes := 0
	require.Eventually(t, func() bool { // changes, until the browser shows that they flow
		changes++
		require.NoError(t, p.server.Update(&corev1.ConfigMap{ObjectMeta: named("cm-1"), Data: map[string]string{"n": strconv.Itoa(changes)}}))
		return tab.evaluate(moves) == "flow"
	}, patience, 20*time.Millisecond)

	p.server.Inject(reflectortest.Refuse())
	require.NoError(t, p.server.Restore(p.server.ResourceVersion())) // cuts the watches
	tab.shows(maps+`[data-value="phase"]`, "BackingOff")
	tab.shows(maps+`[data-value="flow"]`, "no watch")
	assert.Equal(t, "none", tab.evaluate(moves), "the flow stops when the watch does")
	assert.Equal(t, "0", tab.evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", flow+".flowing")))
	assert.Equal(t, "1", tab.evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", maps+".arrow.broken")))
	tab.matches(maps+".badge", `^ready, stale for [1-9][0-9]* s$`)
	tab.matches(maps+`[data-value="failure"]`, `^\d\d:\d\d:\d\d\.\d{3}, .* ago, attempt \d+, next at .*refused`)

	p.server.ClearFaults()
	tab.shows(maps+`[data-value="phase"]`, "Watching")
	tab.shows(maps+".badge", "ready")
	assert.Equal(t, "0", tab.evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", maps+".arrow.broken")))
	tab.matches(maps+`[data-value="failure"]`, `^\d\d:\d\d:\d\d\.\d{3}, .* ago, overcome: .*refused`)
}

func TestReaderKeepsFocusAndWhatWasOpened(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows(maps+`[data-value="objects"]`, "5")
	const queues = maps + `details[data-key="queues of not pulled"]`
	tab.do(chromedp.WaitVisible(chromedp.CSS(queues+" summary")), chromedp.Focus(chromedp.CSS(queues+" summary")), chromedp.KeyEvent("\r")) // by the keyboard
	require.NoError(t, p.server.Create(&corev1.ConfigMap{ObjectMeta: named("another")}))
	tab.shows(maps+`[data-value="objects"]`, "6")
	assert.Equal(t, "true", tab.evaluate(fmt.Sprintf("document.querySelector(%q).open", queues)))
	assert.Equal(t, "true", tab.evaluate(fmt.Sprintf("document.activeElement === document.querySelector(%q)", queues+" summary")))

	tab.do(chromedp.Click(chromedp.CSS("#hold")))
	tab.shows("#live", "frozen")
	require.NoError(t, p.server.Create(&corev1.ConfigMap{ObjectMeta: named("and-another")}))
	require.Eventually(t, func() bool { return p.maps.Cache().Len() == 7 }, patience, time.Millisecond)
	assert.Equal(t, "6", tab.text(maps+`[data-value="objects"]`))
	tab.do(chromedp.Click(chromedp.CSS("#hold")))
	tab.shows(maps+`[data-value="objects"]`, "7")
}

func TestNothingSecretIsShown(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows(`section[data-key="secrets"] [data-value="objects"]`, "1")
	tab.do(chromedp.Click(chromedp.CSS(`section[data-key="secrets"] [data-value="objects"]`)), chromedp.WaitVisible(chromedp.CSS(".keys a")), chromedp.Click(chromedp.CSS(".keys a")), chromedp.WaitVisible(chromedp.CSS("pre")))
	text := tab.text("main")
	assert.Contains(t, text, "••••••")
	assert.NotContains(t, text, hidden)
	assert.NotContains(t, text, "aHVzaC1odXNo", "nor encoded")
	assert.Contains(t, text, "name: password")
}

func TestObjectPageBeginsWithTheObjectAndComparesVersions(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows(maps+`[data-value="objects"]`, "5")
	require.NoError(t, p.server.Update(&corev1.ConfigMap{ObjectMeta: named("cm-1"), Data: map[string]string{"color": "<i>red</i>"}}))
	require.NoError(t, p.server.Update(&corev1.ConfigMap{ObjectMeta: named("cm-1"), Data: map[string]string{"color": "blue"}}))
	tab.shows(maps+`[data-value="changes"]`, "7")
	tab.visit(p.home + "/object?informer=maps&namespace=default&name=cm-1")
	assert.Equal(t, "Object in the cache", tab.text("main h2"))
	assert.Contains(t, tab.text("main h2 + pre"), "color: blue")
	rows := strings.Join(strings.Fields(tab.evaluate(`[...document.querySelectorAll(".versions tr")].map(r => r.innerText).join(" ")`)), " ")
	assert.Regexp(t, `^Field Before After data.color "<i>red</i>" "blue" metadata.resourceVersion "\d+" "\d+" Field Before After data no field {"color":"<i>red</i>"}`, rows)
	tab.picture("object.png", 1300, 1000, false)
}

func TestPhonesShowThePipelineUpright(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows(maps+`[data-value="objects"]`, "5")
	boxes := func() (upright bool) {
		return tab.evaluate(`(() => {
			const boxes = [...document.querySelectorAll('`+maps+`.pipeline > .box')].map(b => b.getBoundingClientRect());
			return boxes.every((b, n) => n === 0 || b.top > boxes[n-1].bottom);
		})()`) == "true"
	}
	assert.False(t, boxes())
	tab.do(chromedp.EmulateViewport(360, 740))
	require.Eventually(t, boxes, patience, 20*time.Millisecond)
	for _, page := range []string{"", "/objects?informer=maps", "/object?informer=maps&namespace=default&name=cm-1"} {
		tab.visit(p.home + page)
		width, err := strconv.Atoi(tab.evaluate("document.documentElement.scrollWidth"))
		require.NoError(t, err)
		assert.LessOrEqual(t, width, 360, page)
	}
}

// The pages pass axe: roles, names, and a contrast of at least 4.5 in light and dark.
func TestPagesAreAccessible(t *testing.T) {
	p := start(t)
	tab := open(t, p.home)
	tab.shows(maps+`[data-value="objects"]`, "5")
	p.server.Inject(reflectortest.Refuse())
	require.NoError(t, p.server.Restore(p.server.ResourceVersion())) // cuts the watches
	tab.matches(maps+".badge", `stale for`)
	tab.matches(maps+".stalled .note", `^stalled, oldest`)
	tab.accessible("overview", "#hold")
	for _, page := range []string{"/objects?informer=maps", "/object?informer=maps&namespace=default&name=cm-0", "/object?informer=secrets&namespace=default&name=password"} {
		tab.visit(p.home + page)
		tab.accessible(page, "")
	}
}
