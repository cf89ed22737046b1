package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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
