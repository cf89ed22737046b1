package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// resourceOf is what discovery says of a resource of the kind Widget.
func resourceOf(plural string, verbs ...string) apidiscovery.APIResourceDiscovery {
	return apidiscovery.APIResourceDiscovery{
		Resource: plural, ResponseKind: &metav1.GroupVersionKind{Kind: "Widget"}, Scope: apidiscovery.ScopeNamespace, Verbs: verbs,
	}
}

func TestOfTwoResourcesOfAKindTheFirstThatCanBeWatchedCounts(t *testing.T) {
	reviews, widgets, others := resourceOf("widgetreviews", "create"), resourceOf("widgets", "get", "list", "watch"), resourceOf("others", "list", "watch")
	for _, order := range [][]apidiscovery.APIResourceDiscovery{
		{widgets}, {reviews, widgets}, {widgets, reviews}, {widgets, others}, {reviews, widgets, others},
	} {
		group := apidiscovery.APIGroupDiscovery{Versions: []apidiscovery.APIVersionDiscovery{{Version: "v1", Resources: order}}}
		group.Name = "example.com"
		all := map[schema.GroupKind]*discovered{}
		addGroup(&group, all, nil)
		found := all[someWidget.GroupKind()]
		if assert.NotNil(t, found) {
			assert.Equal(t, []string{"v1"}, found.versions)
			assert.Equal(t, discoveredResource{plural: "widgets", namespaced: true, watchable: true}, found.resource["v1"])
		}
	}
}

// readings are an aggregated API.
var (
	readings = reflectortest.Resource{Group: "metrics.example.com", Version: "v1", Kind: "Reading", Plural: "readings", Namespaced: true}
	reading  = schema.GroupVersionKind{Group: "metrics.example.com", Version: "v1", Kind: "Reading"}
)

// readingsService is the APIService of the readings, which work.
func readingsService() *object {
	service := bare(serviceKind, "", "v1.metrics.example.com")
	service.Object["spec"] = map[string]any{"group": "metrics.example.com", "version": "v1", "service": map[string]any{"name": "metrics", "namespace": "a"}}
	service.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "True"}}}
	return service
}

// discoveryOf edits what discovery says of the readings while it is on.
type discoveryOf struct {
	on   atomic.Bool
	edit func(*apidiscovery.APIGroupDiscovery)
	next http.RoundTripper
}

func (d *discoveryOf) wrap(next http.RoundTripper) http.RoundTripper {
	d.next = next
	return d
}

func (d *discoveryOf) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err != nil || !d.on.Load() || request.URL.Path != "/apis" {
		return response, err
	}
	defer response.Body.Close()
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, err
	}
	for n := range list.Items {
		if list.Items[n].Name == readings.Group {
			d.edit(&list.Items[n])
		}
	}
	body, err := json.Marshal(list)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, err
}

// trapping refuses definitions, and answers discovery as no API server does: with a redirect, or with a message
// of any size.
type trapping struct {
	status, size int

	mu       sync.Mutex
	trusting map[string]bool // whether a host was sent the token; guarded by mu
	read     int             // bytes of messages; guarded by mu
}

func (s *trapping) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trusting[r.URL.Host] = s.trusting[r.URL.Host] || r.Header.Get("Authorization") != ""
	response := &http.Response{StatusCode: http.StatusForbidden, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
	if r.URL.Path == "/api" {
		response.StatusCode = s.status
		response.Header.Set("Location", "http://elsewhere/api")
		const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"`
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(status), io.LimitReader(s, int64(s.size)), strings.NewReader(`"}`)))
	}
	return response, nil
}

func (s *trapping) Read(into []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += copy(into, bytes.Repeat([]byte("x"), len(into)))
	return len(into), nil
}

func TestHostileAnswerOfDiscoveryCostsLittle(t *testing.T) {
	const endless = 64 << 20
	for name, c := range map[string]struct {
		status, size int
		text         string
		read         int
	}{
		"redirect":        {http.StatusFound, endless, "redirect", 0},
		"endless refusal": {http.StatusServiceUnavailable, endless, "unable to handle the request", 1 << 20},
		"long refusal":    {http.StatusServiceUnavailable, 1 << 16, "xxx", 1 << 16},
		"endless answer":  {http.StatusOK, endless, "size limit", 17 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &trapping{status: c.status, size: c.size, trusting: map[string]bool{}}
				core, logs := observer.New(zap.InfoLevel)
				config := &rest.Config{Host: "http://apiserver", Transport: server, BearerToken: "token", QPS: -1}
				w := &world{T: t, fleet: begin(t, config, WithLogger(zap.New(core)))}
				w.want(widget)
				<-time.After(firstPause / 2) // for one discovery
				err := w.fleet.Ready()
				require.ErrorContains(t, err, "discovery at /api: ")
				require.ErrorContains(t, err, c.text)
				assert.LessOrEqual(t, len(err.Error()), 1<<10)
				for _, line := range logs.All() {
					assert.LessOrEqual(t, len(fmt.Sprint(line.ContextMap()["error"])), 1<<10, line.Message)
				}
				server.mu.Lock()
				defer server.mu.Unlock()
				assert.Equal(t, map[string]bool{"apiserver": true}, server.trusting)
				assert.LessOrEqual(t, server.read, c.read)
			})
		})
	}
}

// A server that starts says when to ask again.
func TestDiscoveryWaitsAsLongAsTheServerAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		began := time.Now()
		starting := func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/apis" || time.Since(began) > 8*time.Second {
					return next.RoundTrip(r)
				}
				asked.Add(1)
				status := apierrors.NewTooManyRequests("storage is (re)initializing", 1).Status()
				body, err := json.Marshal(status)
				return &http.Response{
					StatusCode: http.StatusTooManyRequests, Request: r, Body: io.NopCloser(bytes.NewReader(body)),
					Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}},
				}, err
			})
		}
		w := newWorldOf(t, reflectortest.Start(t), starting)
		owner, _ := w.want(podKind)
		require.NoError(t, owner.WaitForSync(t.Context()))
		assert.Less(t, time.Since(began), 11*time.Second)
		assert.LessOrEqual(t, asked.Load(), int32(10))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server names the kinds of an aggregated API some time after it says that the API works.
func TestDiscoveryThatLagsBehindAnAPIService(t *testing.T) {
	for name, hidden := range map[string]time.Duration{"shortly": 12 * time.Second, "for ever": 100 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lag := &discoveryOf{edit: func(g *apidiscovery.APIGroupDiscovery) { g.Versions = nil }}
				lag.on.Store(true)
				server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(readings))
				w := newWorldOf(t, server, lag.wrap)
				owner, _ := w.want(reading)
				<-time.After(time.Minute)
				assert.ErrorContains(t, owner.Ready(), "(NotInstalled)")

				server.ForgetRequests()
				require.NoError(t, server.Create(readingsService()))
				<-time.After(min(hidden, time.Hour))
				lag.on.Store(hidden > time.Hour)
				<-time.After(time.Hour)
				asked := server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" })
				assert.LessOrEqual(t, len(asked), 8, "it is asked again for half a minute, and not for ever")
				if hidden > time.Hour {
					assert.ErrorContains(t, owner.Ready(), "(NotInstalled)")
				} else {
					require.NoError(t, owner.Ready())
				}
			})
		})
	}
}

// Other kinds were discovered before.
func TestKindOfAnAPIThatAppearedWhileNobodyWantedIt(t *testing.T) {
	for name, service := range map[string]bool{"a new API": true, "a new kind of an API": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lag := &discoveryOf{edit: func(g *apidiscovery.APIGroupDiscovery) { g.Versions = nil }}
				lag.on.Store(true)
				server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(readings))
				w := newWorldOf(t, server, lag.wrap)
				w.follow(podKind)
				asked := func() int {
					return len(server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" }))
				}
				require.Equal(t, 1, asked())
				<-time.After(time.Hour)
				if service {
					require.NoError(t, server.Create(readingsService()))
					<-time.After(time.Second)
				} else {
					lag.on.Store(false)
				}
				require.Equal(t, 1, asked(), "nobody needs it")
				owner, _, _ := w.follow(reading)
				lag.on.Store(false)
				<-time.After(settle)
				require.NoError(t, owner.Ready())
				w.want(schema.GroupVersionKind{Group: "example.com", Kind: "Other"})
				w.want(schema.GroupVersionKind{Group: "example.com", Kind: "Another"})
				before := asked()
				<-time.After(time.Hour)
				assert.Equal(t, before+1, asked(), "kinds that do not exist cost one discovery together")
			})
		})
	}
}

// An API whose server is down is named in discovery as stale, without its kinds.
func TestKindOfAnAPIThatDoesNotAnswerDiscoveryIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &discoveryOf{edit: func(g *apidiscovery.APIGroupDiscovery) {
			g.Versions = []apidiscovery.APIVersionDiscovery{{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessStale}}
		}}
		down.on.Store(true)
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(readings))
		w := newWorldOf(t, server, down.wrap)
		v2, other := reading, reading
		v2.Version, other.Group = "v2", "example.com"
		some := schema.GroupVersionKind{Group: reading.Group, Kind: reading.Kind}
		for kind, reason := range map[schema.GroupVersionKind]string{reading: "(Unavailable)", some: "(Unavailable)", v2: "(NotInstalled)", other: "(NotInstalled)"} {
			owner, _, _ := w.follow(kind)
			assert.ErrorContains(t, owner.Ready(), reason, kind)
		}
		down.on.Store(false)
		owner, _, seen := w.follow(reading)
		require.NoError(t, owner.WaitForSync(t.Context()))
		require.NoError(t, server.Create(bare(reading, "a", "cpu")))
		<-time.After(settle)
		assert.Equal(t, "[+cpu]", seen.take())

		down.on.Store(true)
		require.NoError(t, server.Create(readingsService())) // so discovery is asked
		<-time.After(time.Hour)
		require.NoError(t, owner.Ready(), "what was known stays")
		assert.Equal(t, "[]", seen.take())
	})
}

func TestDiscoveryIsAskedWhenAnAPIServiceChangesInWhatMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reflectortest.WithResource(readings))
		w.follow(reading)
		service := readingsService()
		require.NoError(t, w.server.Create(service))
		for _, one := range []struct {
			change string
			makes  func()
			asked  bool
		}{
			{"an annotation", func() { service.SetAnnotations(map[string]string{"a": "b"}) }, false},
			{"it does not work", func() { setAvailable(t, service, "False") }, true},
			{"it works", func() { setAvailable(t, service, "True") }, true},
			{"it is a local one", func() { unstructured.RemoveNestedField(service.Object, "spec", "service") }, true},
			{"it is a local one still", func() { service.SetAnnotations(map[string]string{"a": "c"}) }, false},
		} {
			<-time.After(time.Minute)
			w.server.ForgetRequests()
			one.makes()
			service.SetResourceVersion("")
			require.NoError(t, w.server.Update(service))
			<-time.After(time.Minute)
			asked := w.server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" })
			assert.Equal(t, one.asked, len(asked) > 0, one.change)
		}
	})
}

// A server that is down for ever, such as a metrics server, concerns those who want its kinds.
func TestChangesOfAPIsThatNobodyWantsTakeNoMemoryForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := New(&rest.Config{})
		require.NoError(t, err)
		d := f.definitions
		d.found, d.askedAt = map[schema.GroupKind]*discovered{}, time.Now()
		for n := range 3 * mostChanged {
			if n%mostChanged == 0 {
				<-time.After(discoveryLag)
			}
			s := &apiService{}
			s.Spec.Group = fmt.Sprintf("g%d.example.com", n)
			d.serviceChanged(s)
		}
		assert.Len(t, d.changed, mostChanged)
		assert.True(t, d.outdated, "what is forgotten may be wanted later")
	})
}

func TestAPIThatDoesNotAnswerDiscoveryCostsNothingIfNobodyWantsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &discoveryOf{edit: func(g *apidiscovery.APIGroupDiscovery) {
			g.Versions = []apidiscovery.APIVersionDiscovery{{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessStale}}
		}}
		down.on.Store(true)
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(readings))
		w := newWorldOf(t, server, down.wrap)
		w.follow(podKind)
		asked := func() int {
			w.server.ForgetRequests()
			<-time.After(time.Hour)
			return len(w.server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" }))
		}
		assert.Zero(t, asked())
		owner, _ := w.want(reading)
		assert.InDelta(t, 60, asked(), 10)
		down.on.Store(false)
		<-time.After(2 * time.Minute)
		require.NoError(t, owner.Ready())
		assert.Zero(t, asked())
	})
}

// It says other things when the program may not watch definitions: those kinds are then among its own.
func TestDiscoveryIsAskedWhenThePermissionForDefinitionsEndsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.follow(widget)
		w.follow(podKind)
		asked := func(within time.Duration) []reflectortest.Request {
			w.server.ForgetRequests()
			<-time.After(within)
			return w.server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" })
		}
		assert.Empty(t, asked(time.Hour))
		w.want(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
		assert.Empty(t, asked(time.Hour), "it is known")
		for _, verb := range []string{"list", "watch"} {
			w.server.Inject(reflectortest.Answer(403).On(verb, "customresourcedefinitions"))
		}
		requests := asked(15 * time.Minute) // a watch ends after ten
		require.Len(t, requests, 1)
		refused := w.logs.FilterMessageSnippet("definitions cannot be watched").All()
		require.Len(t, refused, 1)
		assert.WithinDuration(t, refused[0].Time, requests[0].Time, settle)
		assert.Empty(t, asked(time.Hour), "all wanted kinds are served")
		w.server.ClearFaults()
		assert.Len(t, asked(2*time.Minute), 1)
		assert.Empty(t, asked(time.Hour))
	})
}

func setAvailable(t *testing.T, service *object, status string) {
	t.Helper()
	require.NoError(t, unstructured.SetNestedSlice(service.Object, []any{map[string]any{"type": "Available", "status": status}}, "status", "conditions"))
}
