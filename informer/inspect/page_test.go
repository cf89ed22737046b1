package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"greeting": "hello"}}
}

func changed(name string) *corev1.ConfigMap {
	cm := configMap(name)
	cm.Data["greeting"] = "hello again"
	return cm
}

func clientset(t *testing.T, s *reflectortest.Server) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	require.NoError(t, err)
	return client
}

// runs runs an informer until the test ends.
func runs[T any](t *testing.T, i *informer.Informer[T]) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = i.Run(ctx) }) // what handlers leave undone is none of the page's business
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// home is how a reader reaches the page.
const home = "http://127.0.0.1:8080"

func get(p *inspect.Page, address string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, home+address, nil))
	return w
}

func getJSON[T any](t *testing.T, p *inspect.Page, address string) T {
	t.Helper()
	w := get(p, address)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var value T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &value))
	return value
}

func TestStateIsThatOfTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		for _, name := range []string{"a", "b"} {
			require.NoError(t, s.Create(configMap(name)))
		}
		i := informer.New(clientset(t, s).CoreV1().ConfigMaps(""), informer.WithName("maps"))
		release := make(chan struct{})
		defer close(release)
		slow := i.Handle(informer.HandlerFuncs[*corev1.ConfigMap]{OnAdd: func(*corev1.ConfigMap, bool) { <-release }}, informer.WithName("slow"))
		i.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
			if e.Key.Name == "a" {
				return errors.New("not today")
			}
			return nil
		}), informer.WithName("failing"))
		p := inspect.New()
		inspect.Add(p, i)
		state := getJSON[inspect.State](t, p, "/state.json")
		require.Len(t, state.Informers, 1)
		assert.False(t, state.Informers[0].Ready)
		assert.NotEmpty(t, state.Informers[0].Reason)
		assert.Equal(t, "Stopped", state.Informers[0].Reflectors[0].Phase)

		runs(t, i)
		<-i.Synced()
		<-time.After(100 * time.Second)
		require.NoError(t, s.Update(changed("b")))
		<-time.After(time.Second)
		shown := getJSON[inspect.State](t, p, "/state.json").Informers[0]
		assert.True(t, shown.Synced)
		assert.Contains(t, shown.Reason, "slow has 2 object(s)")
		assert.Equal(t, "maps", shown.ID)
		assert.Equal(t, "*v1.ConfigMap", shown.Type)
		assert.Equal(t, i.Cache().Len(), shown.Objects)
		assert.Equal(t, i.Cache().ResourceVersion(), shown.ResourceVersion)
		assert.EqualValues(t, 3, shown.Changes)
		assert.InDelta(t, 0.1, shown.Rate, 1e-9, "one in the last ten seconds")
		encoded, err := json.Marshal(configMap("a"))
		require.NoError(t, err)
		assert.InDelta(t, 2*len(encoded), shown.Bytes, 300)
		require.Len(t, shown.Reflectors, 1)
		assert.Equal(t, "Watching", shown.Reflectors[0].Phase)
		require.Len(t, shown.Subscribers, 2)

		stats := slow.Stats()
		assert.Equal(t, "slow", shown.Subscribers[0].Name)
		assert.Equal(t, stats.Keys, shown.Subscribers[0].Keys)
		assert.Equal(t, stats.Events, shown.Subscribers[0].Events)
		assert.InDelta(t, stats.Oldest.Seconds(), shown.Subscribers[0].OldestSeconds, 1e-9)
		assert.True(t, shown.Subscribers[0].Queues[0].InFlight)
		failing := shown.Subscribers[1]
		assert.Positive(t, failing.Retries)
		require.Len(t, failing.Queues, 1)
		assert.Equal(t, "default/a", failing.Queues[0].Key)
		assert.Equal(t, "not today", failing.Queues[0].Error)

		last := shown.Last
		require.Len(t, last, 3)
		assert.Equal(t, "Modification", last[0].Type)
		assert.Equal(t, "Watch", last[0].Origin)
		assert.Equal(t, "default/b", last[0].Key)
		assert.True(t, last[2].Initial)
	})
}

func TestBrokenWatchIsShownUntilAndAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		i := informer.New(clientset(t, s).CoreV1().ConfigMaps(""), informer.WithName("maps"))
		p := inspect.New(inspect.WithInterval(50 * time.Millisecond))
		inspect.Add(p, i)
		runs(t, i)
		<-i.Synced()
		require.NoError(t, s.Create(configMap("a")))
		synctest.Wait()
		s.Inject(reflectortest.Refuse())
		require.NoError(t, s.Restore(s.ResourceVersion())) // cuts the watch
		cut := time.Now()
		<-time.After(time.Second)
		synctest.Wait()
		shown := p.State().Informers[0]
		require.Equal(t, "BackingOff", shown.Reflectors[0].Phase)
		assert.True(t, shown.Ready)
		assert.InDelta(t, 1, shown.StaleSeconds, 1e-9)
		assert.False(t, shown.Flowing, "the flow ends with the watch")
		assert.Contains(t, shown.Reflectors[0].LastError, "refused")
		assert.WithinRange(t, shown.Reflectors[0].LastErrorAt, cut, time.Now())
		<-time.After(5500 * time.Millisecond)
		assert.Contains(t, get(p, "/").Body.String(), `<span class="badge stale">ready, stale for 6 s</span>`)

		s.ClearFaults()
		<-time.After(time.Minute)
		shown = p.State().Informers[0]
		assert.Equal(t, "Watching", shown.Reflectors[0].Phase)
		assert.Zero(t, shown.StaleSeconds)
		assert.Empty(t, shown.Reflectors[0].Error)
		assert.Contains(t, shown.Reflectors[0].LastError, "refused", "it stays")
		assert.Contains(t, get(p, "/").Body.String(), ", overcome: ")
	})
}

func TestStateIsRenewedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		i := informer.New(clientset(t, s).CoreV1().ConfigMaps(""))
		p := inspect.New(inspect.WithInterval(3 * time.Second))
		remove := inspect.Add(p, i)
		runs(t, i)
		<-i.Synced()
		before := p.State()
		require.NoError(t, s.Create(configMap("a")))
		<-time.After(2 * time.Second)
		assert.Equal(t, before, p.State())
		<-time.After(2 * time.Second)
		assert.Equal(t, 1, p.State().Informers[0].Objects)
		remove()
		assert.Empty(t, p.State().Informers, "a removed informer is gone at once")
	})
}

func TestInformersOfOneNameAreToldApart(t *testing.T) {
	p := inspect.New()
	for range 3 {
		inspect.Add(p, informer.New[*corev1.ConfigMap, *corev1.ConfigMapList](nil))
	}
	var ids []string
	for _, i := range p.State().Informers {
		ids = append(ids, i.ID)
	}
	assert.Equal(t, []string{"*v1.ConfigMap", "*v1.ConfigMap#2", "*v1.ConfigMap#3"}, ids)
}

// busy is a member that takes its time, and counts how often it is asked.
type busy struct {
	member
	asked atomic.Int64
}

func (b *busy) Ready() error {
	b.asked.Add(1)
	<-time.After(time.Second)
	return nil
}

func TestOneLooksForAllWhoAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inspect.New(inspect.WithInterval(time.Minute))
		b := &busy{}
		remove := p.AddRunnable("busy", b)
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() { assert.Len(t, p.State().Runnables, 1) })
		}
		asking.Wait()
		assert.EqualValues(t, 1, b.asked.Load())

		p.AddRunnable("new", member{})
		asking.Go(func() { p.State() })
		synctest.Wait()
		remove() // while the page asks the members
		asking.Wait()
		assert.Equal(t, []inspect.Runnable{{Name: "new", Ready: true}}, p.State().Runnables, "a removed member does not come back, and an added one is there at once")
	})
}

func TestHeadOfAStreamEnds(t *testing.T) {
	p := inspect.New()
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodHead, home+"/stream", nil))
	assert.NoError(t, ctx.Err())
}

func TestStreamsAreNotBrokenByWhatErrorsSay(t *testing.T) {
	p := inspect.New()
	p.AddRunnable("hostile", member{errors.New("one\rtwo\r\rdata: three\r\nfour")})
	p.Close()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, home+"/stream", nil))
	assert.NotContains(t, w.Body.String(), "\r")
	event, rest, _ := strings.Cut(w.Body.String(), "\n\n")
	assert.Empty(t, rest, "one event")
	for line := range strings.SplitSeq(event, "\n") {
		assert.True(t, strings.HasPrefix(line, "data: "), line)
	}
}

// deadlines is a ResponseWriter that notes its deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	last time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.last = t
	return nil
}

func TestNoDeadlinePassesBetweenTwoEvents(t *testing.T) {
	p := inspect.New(inspect.WithInterval(time.Hour))
	p.Close()
	d := &deadlines{httptest.NewRecorder(), time.Now()}
	p.ServeHTTP(d, httptest.NewRequest(http.MethodGet, home+"/stream", nil))
	assert.True(t, d.last.IsZero(), "HTTP/2 ends a stream when it has passed, not when something is written")
}

type member struct{ err error }

func (m member) Run(context.Context) error         { return nil }
func (m member) WaitForSync(context.Context) error { return nil }
func (m member) Ready() error                      { return m.err }

type talkative struct{ member }

func (talkative) StatusItems() [][2]string { return [][2]string{{"colour", "<blue>"}} }

func TestRunnablesAreReadyOrNot(t *testing.T) {
	p := inspect.New()
	p.AddRunnable("good", member{})
	remove := p.AddRunnable("bad", member{errors.New("it has begun to rain")})
	assert.Equal(t, []inspect.Runnable{{Name: "good", Ready: true}, {Name: "bad", Reason: "it has begun to rain"}}, p.State().Runnables)
	assert.Contains(t, get(p, "/").Body.String(), "it has begun to rain")
	remove()
	assert.Len(t, p.State().Runnables, 1)

	p.AddRunnable("talkative", talkative{})
	assert.Equal(t, []inspect.StatusItem{{Name: "colour", Value: "<blue>"}}, p.State().Runnables[1].StatusItems)
	assert.Contains(t, get(p, "/").Body.String(), "<dt>colour</dt><dd>&lt;blue&gt;</dd>")
}

func TestWhatIsShownIsEscapedAndOnlyRead(t *testing.T) {
	p := inspect.New()
	inspect.Add(p, informer.New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, informer.WithName("<script>alert(1)</script>")))
	overview := get(p, "/")
	assert.NotContains(t, overview.Body.String(), "<script>alert")
	assert.Contains(t, overview.Body.String(), "&lt;script&gt;alert")
	assert.Contains(t, overview.Header().Get("Content-Security-Policy"), "default-src 'none'")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(method, home+"/", nil))
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
	}
	for _, address := range []string{"/nothing", "/assets/", "/object?informer=none&name=a", "/objects?informer=none",
		"/object?" + url.Values{"informer": {"<script>alert(1)</script>"}, "name": {"a"}}.Encode()} {
		assert.Equal(t, http.StatusNotFound, get(p, address).Code, address)
	}
	for _, address := range []string{"/page.css", "/page.js"} {
		assert.Equal(t, http.StatusOK, get(p, address).Code, address)
	}
}

func TestPageUnderAPrefix(t *testing.T) {
	p := http.StripPrefix("/debug/informers", inspect.New())
	ask := func(address string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, address, nil)
		r.Host = "127.0.0.1"
		p.ServeHTTP(w, r)
		return w
	}
	w := ask("/debug/informers")
	assert.Equal(t, "/debug/informers/", w.Header().Get("Location"), "its links are relative")
	w = ask("/debug/informers?a=b")
	assert.Equal(t, "/debug/informers/?a=b", w.Header().Get("Location"), "and leads somewhere else")
}

func TestObjectsAndTheirHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		for n := range 520 {
			require.NoError(t, s.Create(configMap(fmt.Sprintf("cm-%02d", n))))
		}
		i := informer.New(clientset(t, s).CoreV1().ConfigMaps(""), informer.WithName("maps"))
		waiting := i.Subscribe(informer.WithName("not pulled"))
		defer waiting.Close()
		p := inspect.New()
		inspect.Add(p, i)
		runs(t, i)
		<-i.Synced()
		require.NoError(t, s.Update(changed("cm-07")))
		require.NoError(t, s.Delete(configMap("cm-08")))
		<-time.After(2 * time.Second)
		assert.True(t, p.State().Informers[0].Flowing)
		<-time.After(2 * time.Second)
		assert.False(t, p.State().Informers[0].Flowing, "the last change is old")

		assert.EqualValues(t, 522, p.State().Informers[0].Changes, "those that are forgotten count")
		assert.Len(t, p.State().Informers[0].Last, 12)
		body := get(p, "/objects?informer=maps&contains=cm-1").Body.String()
		assert.Contains(t, body, "default/cm-13")
		assert.NotContains(t, body, "default/cm-03")
		assert.NotContains(t, get(p, "/objects?informer=maps&namespace=other").Body.String(), "default/cm-13")

		object := getJSON[inspect.ObjectState](t, p, "/object.json?informer=maps&namespace=default&name=cm-07")
		assert.Contains(t, object.YAML, "greeting: hello again", "a ConfigMap is no secret")
		require.Len(t, object.Changes, 1)
		assert.Equal(t, "Modification", object.Changes[0].Type)
		assert.True(t, object.Changes[0].Compared)
		assert.Contains(t, object.Changes[0].Fields, inspect.FieldChange{Path: "data.greeting", Before: `"hello"`, After: `"hello again"`})
		require.Len(t, object.Queues, 1)
		assert.Equal(t, "not pulled", object.Queues[0].Subscriber)
		page := get(p, "/object?informer=maps&namespace=default&name=cm-07").Body.String()
		assert.Contains(t, page, "greeting: hello again")
		assert.Contains(t, page, "<th scope=\"row\">data.greeting</th><td><del>&#34;hello&#34;</del></td><td><ins>&#34;hello again&#34;</ins></td>")
		assert.Less(t, strings.Index(page, "<pre"), strings.Index(page, "data.greeting"), "the page begins with the object")

		gone := getJSON[inspect.ObjectState](t, p, "/object.json?informer=maps&namespace=default&name=cm-08")
		assert.Empty(t, gone.YAML)
		require.Len(t, gone.Changes, 1)
		assert.Equal(t, "Deletion", gone.Changes[0].Type)
		assert.True(t, gone.Changes[0].FinalStateKnown)
		assert.Equal(t, http.StatusNotFound, get(p, "/object?informer=maps&namespace=default&name=none").Code)
	})
}

func TestStreamsEndWithTheirReaderAndWithThePage(t *testing.T) {
	p := inspect.New(inspect.WithInterval(time.Millisecond))
	inspect.Add(p, informer.New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, informer.WithName("maps")))
	server := httptest.NewServer(p)
	defer server.Close()
	open := func(ctx context.Context, address string) (*bufio.Scanner, func()) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+address, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
		return bufio.NewScanner(response.Body), func() { response.Body.Close() }
	}
	ctx, leave := context.WithCancel(t.Context())
	asJSON, end := open(ctx, "/stream?as=json")
	defer end()
	for range 2 {
		require.True(t, asJSON.Scan())
		var state inspect.State
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(asJSON.Text(), "data: ")), &state))
		assert.Equal(t, "maps", state.Informers[0].ID)
		require.True(t, asJSON.Scan())
		assert.Empty(t, asJSON.Text(), "the end of the event")
	}
	leave()

	html, end := open(t.Context(), "/stream")
	defer end()
	require.True(t, html.Scan())
	p.Close()
	p.Close()
	for html.Scan() {
		assert.True(t, html.Text() == "" || strings.HasPrefix(html.Text(), "data: "), html.Text())
	}
	assert.NoError(t, html.Err(), "it ends as it should")
	http.DefaultClient.CloseIdleConnections()
}

// blocked is a member whose Ready returns when release is closed.
type blocked struct {
	member
	asked   atomic.Int32
	release chan struct{}
}

func newBlocked() *blocked { return &blocked{release: make(chan struct{})} }

func (b *blocked) Ready() error {
	b.asked.Add(1)
	<-b.release
	return nil
}

type panicking struct{ member }

func (panicking) Ready() error { panic("ouch") }

// show returns a page with a member.
func show(name string, m informer.Runnable) *inspect.Page {
	p := inspect.New()
	p.AddRunnable(name, m)
	return p
}

// fresh returns the state of a page after its interval.
func fresh(p *inspect.Page) inspect.State {
	<-time.After(time.Second)
	return p.State()
}

func TestMemberThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		p := show("blocked", b)
		for range 20 {
			assert.Equal(t, []inspect.Runnable{{Name: "blocked", Reason: "no answer for 2s"}}, p.State().Runnables)
			assert.Equal(t, http.StatusOK, get(p, "/").Code)
		}
		assert.EqualValues(t, 1, b.asked.Load())
		close(b.release)
		synctest.Wait()
		assert.EqualValues(t, 1, b.asked.Load())
		assert.Equal(t, []inspect.Runnable{{Name: "blocked", Ready: true}}, fresh(p).Runnables)
		assert.EqualValues(t, 2, b.asked.Load(), "a late answer is not shown")
	})
}

func TestPanicOfAMemberIsShown(t *testing.T) {
	p := show("broken", panicking{})
	assert.Equal(t, []inspect.Runnable{{Name: "broken", Reason: "panic: ouch"}}, p.State().Runnables)
}
