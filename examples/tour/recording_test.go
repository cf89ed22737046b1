package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

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
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		var file bytes.Buffer
		recorder := record.NewRecorder(&file)
		pods := informer.New(record.Client(clientset.CoreV1().Pods("default"), recorder))
		text = live(t, pods, func(s step, n int) error { return s.happens(server, n) })
		require.NoError(t, recorder.Err())
		recording = file.Bytes()
	})
	return text, recording
}

// replay returns the diary of a recording.
func replay(t *testing.T, recording []byte) (text string) {
	synctest.Test(t, func(t *testing.T) {
		client, err := record.NewReplay[*corev1.Pod](bytes.NewReader(recording))
		require.NoError(t, err)
		text = live(t, informer.New(client), func(step, int) error { return nil })
		<-client.Done()
		require.NoError(t, client.Err())
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
