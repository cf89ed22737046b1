package reflector_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
)

// computing is an extension server that computes its objects on request: its lists have no version,
// like those of metrics-server and of antrea's controlplane (antrea-io/antrea#8123).
type computing struct {
	watches bool   // it serves watches
	version string // of lists
	typo    string // replaces the kind of lists

	mu       sync.Mutex
	names    []string
	requests []string // "list", "watch"
	open     *io.PipeWriter
}

func (c *computing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
	c.mu.Lock()
	defer c.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.URL.Path == "/version":
		return noVersion(r), nil
	case query.Get("watch") == "":
		c.requests = append(c.requests, "list")
		var items []string
		for _, name := range c.names {
			items = append(items, c.object(name))
		}
		answer.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(jsonList(c.version, items...).body, `"ConfigMapList"`, `"`+orText(c.typo, "ConfigMapList")+`"`)))
	case query.Get("sendInitialEvents") != "":
		answer.StatusCode, answer.Body = http.StatusUnprocessableEntity, http.NoBody
	case !c.watches:
		c.requests = append(c.requests, "watch")
		answer.StatusCode, answer.Body = http.StatusMethodNotAllowed, http.NoBody
	default:
		c.requests = append(c.requests, "watch")
		answer.Body, c.open = io.Pipe()
		go func(open *io.PipeWriter, events string) {
			if _, err := io.WriteString(open, events); err == nil {
				<-r.Context().Done()
			}
			_ = open.Close()
		}(c.open, c.all())
	}
	return answer, nil
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (c *computing) object(name string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":%q}}`, name)
}

// all returns the events of all objects, with which a watch without a version begins.
func (c *computing) all() (events string) {
	for _, name := range c.names {
		events += jsonEvent(watch.Added, c.object(name))
	}
	return events
}

// set changes the objects. An event that tells of it may be of any type.
func (c *computing) set(event watch.EventType, names ...string) {
	c.mu.Lock()
	c.names = names
	open := c.open
	c.mu.Unlock()
	if open != nil && event != "" {
		_, _ = io.WriteString(open, jsonEvent(event, c.object("x")))
	}
}

func (c *computing) setVersion(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

func (c *computing) seen(what string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, request := range c.requests {
		if request == what {
			n++
		}
	}
	return n
}

func TestListsWithoutAVersionArePolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &computing{names: []string{"a", "b"}}
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"))
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, m.names())
		<-m.of.Synced()
		state := m.of.State()
		assert.Equal(t, reflector.Polling, state.Phase)
		assert.NoError(t, state.Err)
		assert.Equal(t, 1, m.logs.FilterMessage("polling: no versions").Len())

		server.set("", "b", "c")
		<-time.After(protocol.PollInterval)
		synctest.Wait()
		assert.Equal(t, []string{"b", "c"}, m.names(), "a list shows deletions, too")
		<-time.After(time.Hour)
		assert.InDelta(t, 3600/27, server.seen("list"), 10)
		assert.LessOrEqual(t, server.seen("watch"), 2, "the server does not serve watches")
		assert.Equal(t, reflector.Polling, m.of.State().Phase)
		assert.Equal(t, 1, m.logs.FilterMessage("polling: no versions").Len())
		m.stop()
	})
}

func TestWatchWithoutAVersionOnlyTriggersTheNextList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &computing{names: []string{"a", "b"}, watches: true}
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"))
		<-time.After(2 * time.Second)
		assert.Equal(t, 2, server.seen("list"), "once more after the events of all objects")
		for _, event := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
			before := server.seen("list")
			server.set(event, "b", "c"+strings.ToLower(string(event)))
			<-time.After(1700 * time.Millisecond)
			assert.Equal(t, []string{"b", "c" + strings.ToLower(string(event))}, m.names(), "what the event says is not believed")
			assert.Equal(t, before+1, server.seen("list"))
		}
		<-time.After(30 * time.Second)

		// A busy server gets a list in a second, not one for each event.
		before := server.seen("list")
		for i := range 1000 {
			server.set(watch.Modified, fmt.Sprintf("n%03d", i))
			<-time.After(10 * time.Millisecond)
		}
		assert.LessOrEqual(t, server.seen("list")-before, 10)
		<-time.After(1700 * time.Millisecond)
		assert.Equal(t, []string{"n999"}, m.names())
		assert.Equal(t, 1, server.seen("watch"), "it stays open")
		assert.Equal(t, reflector.Polling, m.of.State().Phase)
		assert.Empty(t, slices.DeleteFunc(m.errors(), func(err error) bool { return strings.Contains(err.Error(), "watch-list") }))
		m.stop()
	})
}

func TestObjectsWithoutAVersionInAListWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &computing{names: []string{"a"}, version: "7", watches: true}
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"))
		synctest.Wait()
		assert.Equal(t, reflector.Watching, m.of.State().Phase)
		server.set(watch.Added, "a", "x")
		synctest.Wait()
		assert.Equal(t, []string{"a", "x"}, m.names(), "the watch shows it")
		server.set(watch.Deleted, "a")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, m.names())
		m.stop()
	})
}

func TestServerThatGetsVersionsIsNotPolledAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &computing{names: []string{"a"}, watches: true}
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"))
		<-time.After(time.Minute)
		server.setVersion("7")
		<-time.After(time.Minute)
		assert.Equal(t, reflector.Watching, m.of.State().Phase)
		assert.Equal(t, "7", m.cache.ResourceVersion())
		lists := server.seen("list")
		<-time.After(time.Minute)
		assert.Equal(t, lists, server.seen("list"))
		m.stop()
	})
}

func TestFailureBetweenPollsIsReportedAndOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &computing{names: []string{"a"}}
		var down bool
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			server.mu.Lock()
			refuse := down
			server.mu.Unlock()
			if refuse {
				return nil, io.ErrUnexpectedEOF
			}
			return server.RoundTrip(r)
		})
		set := func(is bool) {
			server.mu.Lock()
			defer server.mu.Unlock()
			down = is
		}
		m := followed(t, opened[*Paint](t, transport, configMapResource, "default"), reflector.WithoutWatchList())
		synctest.Wait()
		set(true)
		<-time.After(time.Minute)
		assert.Equal(t, reflector.BackingOff, m.of.State().Phase)
		require.Error(t, m.of.State().Err)
		assert.Equal(t, []string{"a"}, m.names())
		set(false)
		<-time.After(protocol.MaxBackoff)
		synctest.Wait()
		assert.Equal(t, reflector.Polling, m.of.State().Phase)
		assert.NoError(t, m.of.State().Err)
		m.stop()
		assert.Equal(t, reflector.Stopped, m.of.State().Phase)
	})
}
