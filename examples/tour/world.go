package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// world is an API server and an informer in which the script runs once.
type world struct {
	began   time.Time
	server  *reflectortest.Server
	pods    *informer.Informer[*corev1.Pod]
	printed printed
	stop    func() error // ends the informer and the server
}

// newWorld makes the first step of the script happen, and starts an informer that the page shows.
func newWorld(ctx context.Context, page *inspect.Page) (*world, error) {
	server, err := reflectortest.NewServer(reflectortest.WithBookmarkInterval(5 * time.Second))
	if err != nil {
		return nil, err
	}
	w := &world{began: time.Now(), server: server}
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err == nil {
		err = script[0].happens(server, 0)
	}
	if err != nil {
		server.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w.pods = informer.New(clientset.CoreV1().Pods("default"), informer.WithName("pods"))
	subscribe(ctx, w.pods, &w.printed)
	remove := inspect.Add(page, w.pods) // before Run, so that the page counts the first list
	ended := make(chan error, 1)
	go func() { ended <- ignoreLeft(w.pods.Run(ctx)) }()
	w.stop = func() error {
		defer server.Close()
		defer remove()
		cancel()
		return <-ended
	}
	return w, nil
}

// ignoreLeft returns nil for events that no handler handled before the end.
func ignoreLeft(err error) error {
	if _, left := errors.AsType[*eventqueue.DrainError](err); left {
		return nil
	}
	return err
}

// pod returns a pod of the cache, or nil.
func (w *world) pod(name string) *corev1.Pod {
	pod, _ := w.pods.Cache().Get(store.Key{Namespace: "default", Name: name})
	return pod
}

// is reports whether the cache has a pod in a phase.
func (w *world) is(name string, phase corev1.PodPhase) bool {
	pod := w.pod(name)
	return pod != nil && pod.Status.Phase == phase
}

// received returns the requests that the server received since a time, one a line.
func (w *world) received(since time.Time) []string {
	var lines []string
	for _, r := range w.server.Requests() {
		if r.Time.Before(since) {
			continue
		}
		line := r.Time.Format("15:04:05.000 ") + r.Verb + " " + r.Resource
		for _, name := range []string{"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "limit"} {
			if value := r.Query.Get(name); value != "" {
				line += " " + name + "=" + value
			}
		}
		switch {
		case r.Code != 0:
			line += fmt.Sprintf(": %d", r.Code)
		case len(r.Faults) > 0:
			line += ": no answer (" + strings.Join(r.Faults, ", ") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// printed is the output of the handlers.
type printed struct {
	mu    sync.Mutex
	lines []printedLine
}

type printedLine struct {
	at   time.Time
	text string
}

// Write implements [io.Writer] for whole lines.
func (p *printed) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, printedLine{time.Now(), strings.TrimSuffix(string(line), "\n")})
	return len(line), nil
}

// since returns the lines since a time.
func (p *printed) since(t time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, l := range p.lines {
		if !l.at.Before(t) {
			lines = append(lines, l.at.Format("15:04:05.000 ")+l.text)
		}
	}
	return lines
}

// count returns how many lines a handler printed since a time.
func (p *printed) count(handler string, t time.Time) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if !l.at.Before(t) && strings.HasPrefix(l.text, handler+": ") {
			n++
		}
	}
	return n
}
