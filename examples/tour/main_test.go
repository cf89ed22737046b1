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

// visitor is somebody who takes the tour.
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

// next takes the next step, and waits until it is the one of that title.
func (v visitor) next(title string) {
	v.t.Helper()
	v.request(http.MethodPost, "/next")
	require.Eventually(v.t, func() bool {
		return strings.Contains(v.request(http.MethodGet, "/steps"), `aria-current="step">`+title)
	}, time.Minute, 10*time.Millisecond, title)
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

func TestTour(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, time.Hour, true) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	}()
	v := visitor{t, "http://" + listener.Addr().String()}

	assert.Contains(t, v.request(http.MethodGet, "/"), "informers/")
	v.sees("three pods", func(i inspect.Informer) bool { return i.Objects == 3 && i.Synced && len(i.Subscribers) == 3 })
	v.sees("slow is behind", func(i inspect.Informer) bool { return of(i, "slow").Keys > 0 && of(i, "quick").Keys == 0 })
	v.next("A pod is created")
	v.sees("it", func(i inspect.Informer) bool { return i.Objects == 4 && has(i, "Addition", "default/queue", "Watch") })
	v.next("One pod changes forty times")
	v.sees("what is merged", func(i inspect.Informer) bool { return of(i, "slow").Merged > 30 && of(i, "slow").Events <= 5 })
	v.next("A handler fails")
	v.sees("a back-off", func(i inspect.Informer) bool {
		s := of(i, "fails")
		return s.Retries > 0 && s.Keys == 1 && strings.Contains(s.Queues[0].Error, "so do I")
	})
	v.next("News ends a back-off")
	v.sees("no queue", func(i inspect.Informer) bool { return of(i, "fails").Keys == 0 })
	v.next("The watch breaks")
	v.sees("why", func(i inspect.Informer) bool {
		return i.Reflectors[0].Phase == "BackingOff" && strings.Contains(i.Reflectors[0].Error, "refused") && i.Objects == 4
	})
	v.next("The watch resumes")
	v.sees("a re-creation", func(i inspect.Informer) bool {
		return i.Reflectors[0].Phase == "Watching" && has(i, "Deletion", "default/cache", "Watch") && has(i, "Addition", "default/cache", "Watch")
	})
	v.next("History is lost")
	v.sees("a deletion that was found", func(i inspect.Informer) bool { return has(i, "Deletion", "default/queue", "List") && i.Objects == 3 })
	v.next("Everything ends")
	v.sees("nothing", func(i inspect.Informer) bool { return i.Objects == 0 })
	v.next("Three pods exist")
	v.sees("three pods", func(i inspect.Informer) bool { return i.Objects == 3 })
	v.request(http.MethodPost, "/pause")
	assert.Contains(t, v.request(http.MethodGet, "/steps"), "Pause")
}
