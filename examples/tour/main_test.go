package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader uses the tour by HTTP.
type reader struct {
	t    *testing.T
	home string
}

func (r reader) request(method, path string) string {
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.home+path, nil)
	require.NoError(r.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	return html.UnescapeString(string(body))
}

// sees waits until the page of package inspect shows something.
func (r reader) sees(what string, shown func(inspect.Informer) bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		var state inspect.State
		require.NoError(r.t, json.Unmarshal([]byte(r.request(http.MethodGet, "/informers/state.json")), &state))
		return len(state.Informers) == 1 && shown(state.Informers[0])
	}, time.Minute, 20*time.Millisecond, what)
}

func of(i inspect.Informer, subscriber string) inspect.Subscriber {
	for _, s := range i.Subscribers {
		if s.Name == subscriber {
			return s
		}
	}
	return inspect.Subscriber{}
}

// readTour runs a tour until the test ends.
func readTour(t *testing.T) reader {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	return reader{t, "http://" + listener.Addr().String()}
}

// told is what each step has to tell of the real informer; the text beside it says the same.
var told = map[string][]string{
	"The first list":             {"quick got Addition of web v2, initial."},
	"A change travels":           {"quick got Modification of web v2 → v5."},
	"A handler joins late":       {"slow got Addition of blue v3, initial. slow’s queue holds leaf and web."},
	"An event waits":             {"quick got Modification of blue v3 → v6. slow’s queue holds blue."},
	"Events merge":               {"slow’s queue holds blue (5 changes in one event). client-go’s buffer holds 5."},
	"The newest state, once":     {"slow got Modification of blue v3 → v10.", "got OnUpdate of blue v3 → v6.", "got OnUpdate of blue v9 → v10."},
	"Here and gone":              {"In slow’s queue the events cancelled each other, and nothing waits."},
	"The same name, another pod": {"slow got Deletion of leaf", "slow got Addition of leaf"},
	"A handler fails":            {"picky got Modification of blue v10 → v18. picky’s queue holds blue."},
	"News end the back-off":      {"picky got Modification of blue v10 → v19."},
	"The watch breaks":           {"The informer does not notice it."},
	"The watch resumes":          {"quick got Modification of web v11 → v20."},
	"The history is lost":        {"quick got Deletion of leaf v17, final state unknown.", "quick got Modification of blue"},
	"The end":                    {"slow got Deletion of web"},
}

func TestTour(t *testing.T) {
	r := readTour(t)
	assert.Contains(t, r.request(http.MethodGet, "/"), "<h2>Three pods</h2>")
	for n := 1; n < len(script); n++ {
		page, title := r.request(http.MethodPost, fmt.Sprint("/next?step=", n)), script[n].Title
		require.Contains(t, page, "<h2>"+title+"</h2>")
		for _, text := range told[title] {
			assert.Contains(t, page, text, title)
		}
		switch title {
		case "Events merge":
			r.sees("one in the call, one waits", func(i inspect.Informer) bool {
				return of(i, "slow").Merged == 4 && of(i, "slow").Events == 2
			})
		case "The newest state, once":
			r.sees("no queue", func(i inspect.Informer) bool { return of(i, "slow").Keys == 0 })
			assert.Contains(t, page, "3 calls, the last: Addition of web v5, initial", "the picture before the step")
			assert.Contains(t, page, "4 calls, the last: Modification of blue v3 → v10")
			assert.Contains(t, page, "8 calls, the last: OnUpdate of blue v9 → v10")
		case "A handler fails":
			r.sees("a back-off", func(i inspect.Informer) bool {
				s := of(i, "picky")
				return s.Keys == 1 && strings.Contains(s.Queues[0].Error, "pod blue has failed")
			})
		case "The end":
			r.sees("nothing", func(i inspect.Informer) bool { return i.Objects == 0 && of(i, "slow").Keys == 0 })
		}
	}
	assert.Contains(t, r.request(http.MethodPost, "/next?step=15"), "<h2>The end</h2>")
	assert.Contains(t, r.request(http.MethodPost, "/next?step=3"), "<h2>A handler joins late</h2>", "a step happens once")
	assert.Contains(t, r.request(http.MethodGet, "/?step=5"), "5 in 1")
	assert.Contains(t, r.request(http.MethodPost, "/restart"), "<h2>Three pods</h2>")
	assert.Contains(t, r.request(http.MethodGet, "/?step=5"), "<h2>Three pods</h2>", "it has not happened again")
}

func TestLinksOfTheStepsExist(t *testing.T) {
	for _, s := range script {
		for _, l := range []link{s.Series, s.Docs} {
			file, anchor, _ := strings.Cut(l.to, "#")
			text, err := os.ReadFile("../../" + file)
			require.NoError(t, err)
			if anchor == "" {
				continue
			}
			anchors := ""
			for line := range strings.Lines(string(text)) {
				if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && line[0] == '#' {
					anchors += "#" + regexp.MustCompile(`[^a-z0-9-]`).ReplaceAllString(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-"), "") + "\n"
				}
			}
			assert.Contains(t, anchors, "#"+anchor+"\n", l.to)
		}
		folder, name, _ := strings.Cut(s.Type.to, "#")
		files, err := filepath.Glob("../../" + folder + "/*.go")
		require.NoError(t, err)
		declared := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			declared = declared || regexp.MustCompile(`(?m)^(type |func |\t)`+name+`\b`).Match(text)
		}
		assert.True(t, declared, s.Type.to)
	}
}

func TestOtherWebsitesDoNotPressTheButtons(t *testing.T) {
	r := readTour(t)
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-origin": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.home+"/next", nil)
		require.NoError(t, err)
		request.Header.Set("Sec-Fetch-Site", site)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode, site)
	}
}

var update = flag.Bool("update", false, "record the tour anew")

const (
	recordingFile = "testdata/tour.jsonl"
	diaryFile     = "testdata/tour.txt"
)

// diary records the events and states of an informer. It numbers the UIDs of objects in their
// order, because they differ in each run.
type diary struct {
	pods  *informer.Informer[*corev1.Pod]
	mu    sync.Mutex
	uids  []types.UID
	lines []string
}

func (d *diary) writeLocked(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) podLocked(p *corev1.Pod) string {
	if p == nil {
		return "-"
	}
	n := slices.Index(d.uids, p.UID)
	if n < 0 {
		n = len(d.uids)
		d.uids = append(d.uids, p.UID)
	}
	restarts := int32(0)
	for _, c := range p.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return fmt.Sprintf("#%d@%s %s %d", n+1, p.ResourceVersion, p.Status.Phase, restarts)
}

// Handle records an event.
func (d *diary) Handle(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writeLocked("%s %s: %s, was %s, from a %s, initial: %t", e.Type, e.Key, d.podLocked(e.Object), d.podLocked(e.Prior), e.Origin, e.Initial)
	return nil
}

// look records the state: the waiting keys of each subscriber, and the objects of the cache.
func (d *diary) look(title string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writeLocked("== %s", title)
	for _, s := range d.pods.Subscriptions() {
		var keys []string
		for _, q := range s.Pending(100) {
			keys = append(keys, q.Key.Name)
		}
		slices.Sort(keys)
		d.writeLocked("%s waits for %v", s.Name(), keys)
	}
	for key, p := range d.pods.Cache().All() {
		d.writeLocked("cache: %s %s", key, d.podLocked(p))
	}
}

func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n") + "\n"
}

// live plays the script in a world, and returns its diary.
func live(t *testing.T, w *world) string {
	t.Helper()
	d := &diary{pods: w.pods}
	w.pods.Handle(d, informer.WithName("diary"), informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
	for _, s := range script {
		for _, a := range s.acts {
			if w.server != nil || !a.atServer {
				require.NoError(t, a.does(w))
			}
			if w.started {
				<-time.After(10 * time.Second) // longer than the first back-off of the reflector
				synctest.Wait()
			}
		}
		d.look(s.Title)
		<-time.After(time.Second) // so that nothing else happens at the time of the look
	}
	require.NoError(t, w.stop())
	return d.text()
}

// recordTour plays the tour on a server, and returns its diary and its recording.
func recordTour(t *testing.T) (text string, recording []byte) {
	synctest.Test(t, func(t *testing.T) {
		server, err := reflectortest.NewServer(reflectortest.WithBookmarkInterval(time.Minute))
		require.NoError(t, err)
		var file bytes.Buffer
		recorder := record.NewRecorder(&file)
		config := server.Config()
		config.Wrap(recorder.Wrap)
		w, err := newWorld(t.Context(), config, server)
		require.NoError(t, err)
		text = live(t, w)
		require.NoError(t, recorder.Close())
		recording = file.Bytes()
	})
	return text, recording
}

// replay returns the diary of a recording.
func replay(t *testing.T, recording []byte) (text string) {
	synctest.Test(t, func(t *testing.T) {
		replay, err := record.NewReplay(bytes.NewReader(recording))
		require.NoError(t, err)
		w, err := newWorld(t.Context(), replay.Config(), nil)
		require.NoError(t, err)
		text = live(t, w)
		<-replay.Done()
		require.NoError(t, replay.Err())
	})
	return text
}

// A replay of the tour has the same events as the tour, and the same queues and cache after each
// step.
func TestReplayOfTheTourIsTheTour(t *testing.T) {
	lived, fresh := recordTour(t)
	if *update {
		require.NoError(t, os.WriteFile(recordingFile, fresh, 0o644))
		require.NoError(t, os.WriteFile(diaryFile, []byte(lived), 0o644))
	}
	kept, err := os.ReadFile(recordingFile)
	require.NoError(t, err)
	want, err := os.ReadFile(diaryFile)
	require.NoError(t, err)
	assert.Equal(t, string(want), lived, "the tour itself; -update if it is meant to be another")
	assert.Equal(t, string(want), replay(t, kept))
	assert.Equal(t, string(want), replay(t, fresh))
}

func TestTourThatCouldNotBeginHasAPage(t *testing.T) {
	page := httptest.NewRecorder()
	(&tour{}).routes(t.Context()).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/?step=3", nil))
	assert.Equal(t, http.StatusOK, page.Code)
	assert.Contains(t, page.Body.String(), "could not begin")
}
