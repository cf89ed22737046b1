package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// visitor uses the tour by HTTP.
type visitor struct {
	t    *testing.T
	home string
}

func (v visitor) request(method, path string) string {
	request, err := http.NewRequestWithContext(v.t.Context(), method, v.home+path, nil)
	require.NoError(v.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(v.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)
	require.Equal(v.t, http.StatusOK, response.StatusCode, path)
	return string(body)
}

// sees waits until the page shows something.
func (v visitor) sees(what string, shown func(inspect.Informer) bool) {
	v.t.Helper()
	var last string
	require.Eventually(v.t, func() bool {
		last = v.request(http.MethodGet, "/informers/state.json")
		var state inspect.State
		require.NoError(v.t, json.Unmarshal([]byte(last), &state))
		return len(state.Informers) == 1 && shown(state.Informers[0])
	}, time.Minute, 20*time.Millisecond, "%s", what)
}

// goes presses a button and waits until a step is the current one.
func (v visitor) goes(button, title string) {
	v.t.Helper()
	v.request(http.MethodPost, "/"+button)
	v.reads(`aria-current="step"><h2>` + title)
}

// reads waits until the page of the steps has a text.
func (v visitor) reads(text string) {
	v.t.Helper()
	require.Eventually(v.t, func() bool { return strings.Contains(v.request(http.MethodGet, "/"), text) }, time.Minute, 10*time.Millisecond, text)
}

func of(i inspect.Informer, subscriber string) inspect.Subscriber {
	for _, s := range i.Subscribers {
		if s.Name == subscriber {
			return s
		}
	}
	return inspect.Subscriber{}
}

func has(i inspect.Informer, kind, key, origin string) bool {
	for _, c := range i.Last {
		if c.Type == kind && c.Key == key && c.Origin == origin {
			return true
		}
	}
	return false
}

// tourAt runs a tour until the test ends.
func tourAt(t *testing.T, pace time.Duration, paused bool) visitor {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, pace, paused) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	return visitor{t, "http://" + listener.Addr().String()}
}

func TestTour(t *testing.T) {
	v := tourAt(t, time.Hour, true)
	assert.Contains(t, v.request(http.MethodGet, "/"), "informers/")
	v.sees("three pods", func(i inspect.Informer) bool { return i.Objects == 3 && i.Synced && len(i.Subscribers) == 3 })
	v.reads("watch pods resourceVersionMatch=NotOlderThan sendInitialEvents=true: 200")
	v.reads("Lines in this step: quick 3, slow 3, fails 3.")
	v.reads("slow: Addition of web, Pending, version 2")
	v.goes("next", "A pod is created")
	v.reads("no new request; the open watch brings the changes")
	v.reads("quick: Addition of queue")
	v.sees("the pod", func(i inspect.Informer) bool { return i.Objects == 4 && has(i, "Addition", "default/queue", "Watch") })
	v.goes("next", "One pod changes forty times")
	v.sees("merged events", func(i inspect.Informer) bool { return of(i, "slow").Merged > 30 && of(i, "slow").Events <= 5 })
	v.goes("next", "A handler fails")
	v.reads("fails: pod db has failed")
	v.sees("a back-off", func(i inspect.Informer) bool {
		s := of(i, "fails")
		return s.Retries > 0 && s.Keys == 1 && strings.Contains(s.Queues[0].Error, "pod db has failed")
	})
	v.goes("next", "A newer state ends the back-off")
	v.sees("no queue", func(i inspect.Informer) bool { return of(i, "fails").Keys == 0 })
	v.reads("fails: Modification of db, Running")
	v.goes("next", "The watch breaks")
	v.reads(": no answer (Refuse")
	v.sees("the failure", func(i inspect.Informer) bool {
		return i.Reflectors[0].Phase == "BackingOff" && strings.Contains(i.Reflectors[0].Error, "refused") && i.Objects == 4 && i.Ready && i.StaleSeconds > 1
	})
	v.goes("next", "The watch resumes")
	v.sees("a re-creation", func(i inspect.Informer) bool {
		return i.Reflectors[0].Phase == "Watching" && has(i, "Deletion", "default/cache", "Watch") && has(i, "Addition", "default/cache", "Watch")
	})
	v.goes("next", "The server forgets its history")
	v.sees("a missing pod", func(i inspect.Informer) bool { return has(i, "Deletion", "default/queue", "List") && i.Objects == 3 })
	v.goes("next", "All pods are deleted")
	v.sees("nothing", func(i inspect.Informer) bool { return i.Objects == 0 })
	v.goes("next", "All pods are deleted")

	v.goes("back", "The server forgets its history")
	v.sees("a missing pod again", func(i inspect.Informer) bool { return has(i, "Deletion", "default/queue", "List") && i.Objects == 3 })
	v.goes("back", "The watch resumes")
	v.sees("four pods", func(i inspect.Informer) bool { return i.Objects == 4 && i.Reflectors[0].Phase == "Watching" })
	v.goes("restart", "Three pods exist")
	v.sees("three pods", func(i inspect.Informer) bool { return i.Objects == 3 && i.Changes == 3 })
	v.goes("back", "Three pods exist")
}

func TestOtherWebsitesDoNotPressTheButtons(t *testing.T) {
	v := tourAt(t, time.Hour, true)
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-origin": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.home+"/next", nil)
		require.NoError(t, err)
		request.Header.Set("Sec-Fetch-Site", site)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode, site)
	}
}

func TestTourContinuesByItselfUnlessFrozen(t *testing.T) {
	v := tourAt(t, 50*time.Millisecond, true)
	v.reads("Step 1 of 9, waits for you")
	v.request(http.MethodPost, "/freeze")
	v.request(http.MethodPost, "/auto")
	v.reads("Step 1 of 9, frozen")
	v.request(http.MethodPost, "/freeze")
	v.reads("Step 9 of 9</p>")
	v.request(http.MethodPost, "/freeze")
	v.reads("Step 9 of 9, frozen</p>")
	v.request(http.MethodPost, "/back")
	v.reads("Step 9 of 9</p>") // going back ends the freeze
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

// backingOff are the steps in which the reflector backs off for a random time.
var backingOff = []string{"The watch breaks", "The watch resumes", "The server forgets its history"}

// live plays the script for an informer with the handlers of the tour, and returns its diary. Each
// step lasts longer than the longest back-off.
func live(t *testing.T, pods *informer.Informer[*corev1.Pod], happens func(step, int) error) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	d := &diary{pods: pods}
	var out printed
	subscribe(ctx, pods, &out)
	pods.Handle(d, informer.WithName("diary"), informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
	ended := make(chan error, 1)
	for n, s := range script {
		began := time.Now()
		for i := range s.times {
			if i > 0 {
				<-time.After(between)
			}
			require.NoError(t, happens(s, i))
		}
		if n == 0 {
			go func() { ended <- ignoreLeft(pods.Run(ctx)) }()
		}
		for _, pause := range []time.Duration{time.Second, 2 * time.Minute} {
			<-time.After(pause)
			synctest.Wait()
			if pause > time.Second || !slices.Contains(backingOff, s.Title) {
				d.look(s.Title)
			}
		}
		if s.times == 40 {
			assert.Equal(t, 40, out.count("quick", began), "quick handles each change")
			assert.Equal(t, 3, out.count("slow", began), "slow handles the latest state every two seconds")
		}
		<-time.After(time.Second) // between two steps
	}
	stop()
	require.NoError(t, <-ended)
	return d.text()
}

// recordTour plays the tour on a server, and returns its diary and its recording.
func recordTour(t *testing.T) (text string, recording []byte) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithBookmarkInterval(time.Minute))
		var file bytes.Buffer
		recorder := record.NewRecorder(&file)
		config := server.Config()
		config.Wrap(recorder.Wrap)
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		text = live(t, informer.New(clientset.CoreV1().Pods("default")), func(s step, n int) error { return s.happens(server, n) })
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
		clientset, err := kubernetes.NewForConfig(replay.Config())
		require.NoError(t, err)
		text = live(t, informer.New(clientset.CoreV1().Pods("default")), func(step, int) error { return nil })
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
