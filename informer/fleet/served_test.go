package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestKindThatIsWantedBeforeItExistsCostsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		owner, _, seen := w.follow(widget)
		<-time.After(time.Hour)
		assert.Equal(t, []string{"kind is not served NotInstalled"}, w.lines())
		assert.Zero(t, w.requests("widgets"))
		assert.Len(t, w.server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" }), 1, "discovery is asked once")
		assert.ErrorContains(t, owner.Ready(), "Widget.v1.example.com is not served (NotInstalled): no CustomResourceDefinition and no API defines it")

		w.define("Namespaced", "v1")
		w.create("web")
		<-time.After(settle)
		assert.Equal(t, "[+web]", seen.take())
		require.NoError(t, owner.WaitForSync(t.Context()))
		require.NoError(t, owner.Ready())
		assert.Contains(t, w.lines(), "kind is served <nil>")
	})
}

func TestDeletedDefinitionDeletesItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted, seen := w.follow(widget)
		require.NoError(t, owner.WaitForSync(t.Context()))
		assert.Equal(t, "[+web]", seen.take())
		w.lines()

		w.undefine()
		<-time.After(settle)
		assert.Equal(t, "[-web]", seen.take())
		assert.Zero(t, wanted.Cache().Len())
		assert.ErrorIs(t, owner.Ready(), reflector.ErrNotServed)
		assert.Contains(t, w.lines(), "kind is not served NotInstalled")
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Empty(t, w.lines())
		assert.Zero(t, w.requests("widgets"))
	})
}

// The watch of the kind stalls before it shows the deletions, so only the definition says that the objects are gone.
func TestDeletedDefinitionDeletesObjectsThatNoWatchShowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		stalled := w.server.Inject(reflectortest.StallAfterEvents(2, nil).On("watch", "widgets")) // the object and a bookmark
		_, _, seen := w.follow(widget)
		assert.Equal(t, "[+web]", seen.take())
		require.Equal(t, 1, stalled.Hits())
		w.undefine()
		<-time.After(settle)
		assert.Equal(t, "[-web]", seen.take())
	})
}

func TestDefinitionThatIsMadeAgainHasOtherObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		w.create("db")
		_, wanted, seen := w.follow(widget)
		assert.ElementsMatch(t, []string{"+web", "+db"}, seen.takeAll())

		w.undefine()
		w.define("Namespaced", "v1")
		w.create("web")
		<-time.After(settle)
		events := seen.takeAll()
		assert.ElementsMatch(t, []string{"-web", "-db", "+web"}, events)
		assert.Equal(t, []string{"-web", "+web"}, only(events, "web"))
		assert.Equal(t, 1, wanted.Cache().Len())
	})
}

func TestDefinitionThatIsMadeAgainMayHaveAnotherScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		namespaced, err := Want[*object](owner, widget, Selection{Namespace: "a"})
		require.NoError(t, err)
		<-time.After(settle)
		assert.Equal(t, 1, namespaced.Cache().Len())
		assert.False(t, wanted.ClusterScoped())
		w.undefine()
		w.define("Cluster", "v1")
		require.NoError(t, w.server.Create(bare(widget, "", "web")))
		<-time.After(settle)
		_, found := wanted.Cache().Get(store.Key{Name: "web"})
		assert.True(t, found)
		assert.Equal(t, 1, wanted.Cache().Len())
		assert.True(t, wanted.ClusterScoped())
		assert.Zero(t, namespaced.Cache().Len())
		assert.ErrorContains(t, namespaced.Ready(), "NoNamespaces")
	})
}

// The problem is the same before and after, but the objects are not.
func TestDefinitionThatIsMadeAgainWithoutTheVersionDeletesItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1", "v1beta1")
		w.create("web")
		_, wanted, seen := w.follow(betaWidget)
		assert.Equal(t, "[+web]", seen.take())
		w.serve("v1beta1", false)
		<-time.After(settle)
		again := w.stored(crdKind, widgets)
		again.SetUID("")
		again.SetResourceVersion("")
		w.undefine()
		require.NoError(t, w.server.Create(again))
		<-time.After(settle)
		assert.Equal(t, "[-web]", seen.take())
		assert.Zero(t, wanted.Cache().Len())
	})
}

func TestVersionThatIsNotServedDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1", "v1beta1")
		w.create("web")
		owner, wanted, seen := w.follow(betaWidget)
		require.NoError(t, owner.WaitForSync(t.Context()))
		seen.take()
		w.serve("v1beta1", false)
		<-time.After(settle)
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Equal(t, "[]", seen.take())
		assert.Zero(t, w.requests("widgets"))
		state := wanted.State()
		assert.Equal(t, reflector.Stopped, state.Phase)
		var problem *NotServedError
		require.ErrorAs(t, state.Err, &problem)
		assert.Equal(t, NoVersion, problem.Reason)
		assert.ErrorContains(t, wanted.Ready(), "serves the versions [v1]")

		last, found, err := Get[*object](w.fleet, betaWidget, store.Key{Namespace: "a", Name: "web"})
		assert.True(t, found, "the last known object")
		assert.Equal(t, "web", last.GetName())
		assert.ErrorIs(t, err, reflector.ErrNotServed)
		all, err := List[*object](w.fleet, betaWidget, "a")
		assert.Len(t, all, 1)
		assert.ErrorIs(t, err, reflector.ErrNotServed)

		w.create("db")
		w.serve("v1beta1", true)
		<-time.After(settle)
		assert.Equal(t, "[+db]", seen.take(), "only what is new")
		require.NoError(t, owner.Ready())
		_, _, err = Get[*object](w.fleet, betaWidget, store.Key{Namespace: "a", Name: "web"})
		assert.NoError(t, err)
	})
}

func TestAnotherVersionOfTheSameObjectsIsAModification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1beta1", "v1")
		w.serve("v1", false)
		require.NoError(t, w.server.Create(bare(betaWidget, "a", "web")))
		_, wanted, seen := w.follow(someWidget)
		assert.Equal(t, "[+web]", seen.take())
		w.serve("v1", true)
		<-time.After(settle)
		assert.Equal(t, "[]", seen.take(), "the version stays while it is served")
		w.serve("v1beta1", false)
		<-time.After(settle)
		assert.Equal(t, "[~web]", seen.take())
		now, _ := wanted.Cache().Get(store.Key{Namespace: "a", Name: "web"})
		assert.Equal(t, "example.com/v1", now.GetAPIVersion())
	})
}

func TestTwoVersionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1", "v1beta1")
		w.create("web")
		_, one := w.want(widget)
		_, two := w.want(betaWidget)
		metas, err := Want[*partial](w.fleet.NewOwner(t.Context(), "metadata"), widget, Selection{})
		require.NoError(t, err)
		<-time.After(settle)
		key := store.Key{Namespace: "a", Name: "web"}
		a, _ := one.Cache().Get(key)
		b, _ := two.Cache().Get(key)
		c, found := metas.Cache().Get(key)
		require.True(t, found)
		assert.Equal(t, []string{"example.com/v1", "example.com/v1beta1"}, []string{a.GetAPIVersion(), b.GetAPIVersion()})
		assert.Equal(t, []string{"web", "Widget"}, []string{c.Name, c.Kind})
	})
}

func TestDefinitionThatIsNotEstablishedIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		establish := func(status, message string) {
			crd := w.stored(crdKind, widgets)
			conditions := []any{}
			for _, name := range []string{"NamesAccepted", "Established"} {
				conditions = append(conditions, map[string]any{"type": name, "status": status, "reason": "ByTheTest", "message": message})
			}
			require.NoError(t, unstructured.SetNestedSlice(crd.Object, conditions, "status", "conditions"))
			require.NoError(t, w.server.Update(crd))
		}
		establish("False", "the plural is in use")
		<-time.After(settle)
		owner, _ := w.want(widget)
		ctx, cancel := context.WithTimeout(t.Context(), settle)
		defer cancel()
		err := owner.WaitForSync(ctx)
		assert.ErrorContains(t, err, "(NotEstablished): CustomResourceDefinition widgets.example.com is not established; NamesAccepted: the plural is in use")
		assert.Zero(t, w.requests("widgets"))
		establish("True", "")
		require.NoError(t, owner.WaitForSync(t.Context()))
	})
}

// Without the permission to watch definitions, discovery is asked once a minute, and knows no UID of a definition.
func TestWithoutPermissionForDefinitionsDiscoveryIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		var forbidden []*reflectortest.Injection
		for _, verb := range []string{"list", "watch"} {
			for _, plural := range []string{"customresourcedefinitions", "apiservices"} {
				forbidden = append(forbidden, server.Inject(reflectortest.Answer(403).On(verb, plural)))
			}
		}
		w := newWorldOf(t, server)
		owner, wanted, seen := w.follow(widget)
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		discoveries := len(w.server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" }))
		assert.InDelta(t, 60, discoveries, 1)
		assert.Zero(t, w.requests("widgets"))
		assert.ErrorContains(t, owner.Ready(), "discovery does not name it")

		w.define("Namespaced", "v1")
		w.create("web")
		<-time.After(2 * time.Minute)
		assert.Equal(t, "[+web]", seen.take())
		require.NoError(t, owner.Ready())
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Zero(t, len(w.server.Requests(func(r reflectortest.Request) bool { return r.Path == "/apis" })), "all wanted kinds are served")

		w.serve("v1", false)
		<-time.After(2 * time.Minute)
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Equal(t, "[]", seen.take())
		assert.Zero(t, w.requests("widgets"))
		assert.ErrorIs(t, owner.Ready(), reflector.ErrNotServed)
		assert.Equal(t, 1, wanted.Cache().Len())

		for _, one := range forbidden {
			one.Remove()
		}
		w.serve("v1", true)
		<-time.After(2 * time.Minute)
		require.NoError(t, owner.Ready())
		w.undefine()
		<-time.After(settle)
		assert.Equal(t, "[-web]", seen.take(), "by the definition, which can be watched now")
	})
}

// A list is allowed and a watch is not: definitions are then listed once a minute, and discovery asked.
func TestPermissionMayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		owner, _ := w.want(widget)
		require.NoError(t, owner.WaitForSync(t.Context()))
		for _, verb := range []string{"list", "watch"} {
			w.server.Inject(reflectortest.Answer(403).On(verb, "customresourcedefinitions"))
		}
		<-time.After(time.Hour) // the watch of definitions ends and is refused
		other := definitionOf("Gadget", "Namespaced", "v1")
		require.NoError(t, w.server.Create(other))
		gadget := widget
		gadget.Kind = "Gadget"
		later, _ := w.want(gadget)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		require.NoError(t, later.WaitForSync(ctx))
	})
}

func TestForbiddenKindSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.server.Inject(reflectortest.Answer(403).On("list", "widgets"))
		w.server.Inject(reflectortest.Answer(403).On("watch", "widgets"))
		owner, _ := w.want(widget)
		pods, err := Want[*object](owner, podKind, Selection{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = owner.WaitForSync(ctx)
		assert.ErrorContains(t, err, "informer Widget.v1.example.com is not synced")
		assert.ErrorContains(t, err, "forbidden")
		assert.NotContains(t, err.Error(), "Pod")
		assert.NoError(t, pods.Ready())
		assert.ErrorAs(t, err, new(*informer.SyncError))
	})
}

func TestAggregatedAPIThatIsDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reflectortest.WithResource(reflectortest.Resource{Group: "metrics.example.com", Version: "v1", Kind: "Reading", Plural: "readings", Namespaced: true}))
		reading := serviceKind
		reading.Group, reading.Kind = "metrics.example.com", "Reading"
		service := bare(serviceKind, "", "v1.metrics.example.com")
		service.Object["spec"] = map[string]any{"group": "metrics.example.com", "version": "v1", "service": map[string]any{"name": "metrics", "namespace": "a"}}
		available := func(status string) {
			require.NoError(t, unstructured.SetNestedSlice(service.Object, []any{map[string]any{
				"type": "Available", "status": status, "reason": "MissingEndpoints", "message": "endpoints for service/metrics have no addresses",
			}}, "status", "conditions"))
			service.SetResourceVersion("")
			require.NoError(t, w.server.Update(service))
		}
		require.NoError(t, w.server.Create(service))
		available("True")
		require.NoError(t, w.server.Create(bare(reading, "a", "cpu")))
		owner, wanted, seen := w.follow(reading)
		require.NoError(t, owner.WaitForSync(t.Context()))
		seen.take()
		available("False")
		<-time.After(settle)
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Zero(t, w.requests("readings"))
		assert.Equal(t, "[]", seen.take())
		assert.Equal(t, 1, wanted.Cache().Len())
		assert.ErrorContains(t, owner.Ready(), "(Unavailable): APIService v1.metrics.example.com: MissingEndpoints")
		available("True")
		<-time.After(settle)
		require.NoError(t, owner.Ready())
		assert.Equal(t, "[]", seen.take())
	})
}

// hiding answers discovery without a group as long as it is true.
type hiding struct {
	group string
	now   atomic.Bool
	next  http.RoundTripper
}

func (h *hiding) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := h.next.RoundTrip(request)
	if err != nil || !h.now.Load() || request.URL.Path != "/apis" {
		return response, err
	}
	defer response.Body.Close()
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return g.Name == h.group })
	body, err := json.Marshal(list)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, err
}

// A server names the kinds of an aggregated API some time after it says that the API works.
func TestDiscoveryThatLagsBehindAnAPIService(t *testing.T) {
	for name, hidden := range map[string]time.Duration{"shortly": 12 * time.Second, "for ever": 100 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(),
					reflectortest.WithResource(reflectortest.Resource{Group: "metrics.example.com", Version: "v1", Kind: "Reading", Plural: "readings", Namespaced: true}))
				lag := &hiding{group: "metrics.example.com"}
				lag.now.Store(true)
				config := server.Config()
				config.Wrap(func(next http.RoundTripper) http.RoundTripper { lag.next = next; return lag })
				f, err := New(config)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- f.Run(ctx) }()
				defer func() {
					cancel()
					assert.NoError(t, <-ended)
				}()
				w := &world{T: t, server: server, fleet: f}
				reading := schema.GroupVersionKind{Group: "metrics.example.com", Version: "v1", Kind: "Reading"}
				owner, _ := w.want(reading)
				<-time.After(time.Minute)
				assert.ErrorContains(t, owner.Ready(), "(NotInstalled)")

				server.ForgetRequests()
				service := bare(serviceKind, "", "v1.metrics.example.com")
				service.Object["spec"] = map[string]any{"group": "metrics.example.com", "version": "v1", "service": map[string]any{"name": "metrics", "namespace": "a"}}
				service.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "True"}}}
				require.NoError(t, server.Create(service))
				<-time.After(min(hidden, time.Hour))
				lag.now.Store(hidden > time.Hour)
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

func TestDiscoveryThatFailsDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		server.Inject(reflectortest.Answer(500).On("", ""))
		w := newWorldOf(t, server)
		owner, _ := w.want(podKind)
		<-time.After(time.Minute)
		assert.ErrorContains(t, owner.Ready(), "(Unknown)")
		assert.Error(t, w.fleet.Ready())
		w.server.ClearFaults()
		require.NoError(t, owner.WaitForSync(t.Context()))
		require.NoError(t, w.fleet.WaitForSync(t.Context()))
		assert.NoError(t, w.fleet.Ready())
	})
}

// The list in the other version fails at first, and must not be taken for done.
func TestSwitchOfVersionsSurvivesAServerThatLagsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1beta1", "v1")
		w.serve("v1", false)
		require.NoError(t, w.server.Create(bare(betaWidget, "a", "web")))
		_, wanted := w.want(someWidget)
		<-time.After(settle)
		w.serve("v1", true)
		<-time.After(settle)
		lagging := w.server.Inject(reflectortest.Answer(404).On("watch", "widgets").Times(3))
		w.serve("v1beta1", false)
		<-time.After(2 * time.Minute)
		require.Equal(t, 3, lagging.Hits())
		now, _ := wanted.Cache().Get(store.Key{Namespace: "a", Name: "web"})
		assert.Equal(t, "example.com/v1", now.GetAPIVersion())
		assert.NoError(t, wanted.Ready())
	})
}

func TestKindThatIsServedAgainIsNotReadyBeforeItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		require.NoError(t, owner.WaitForSync(t.Context()))
		w.server.Inject(reflectortest.Answer(500).On("watch", "widgets"))
		w.server.Inject(reflectortest.Answer(500).On("list", "widgets"))
		w.undefine()
		<-time.After(settle)
		key := store.Key{Namespace: "a", Name: "web"}
		assert.True(t, wanted.Covers(key), "no object exists")
		w.define("Namespaced", "v1")
		w.create("web")
		<-time.After(settle)
		assert.ErrorContains(t, owner.Ready(), "(Unread)")
		assert.False(t, wanted.Covers(key))
		_, err := List[*object](w.fleet, widget, "a")
		assert.ErrorIs(t, err, reflector.ErrNotServed)
		later, _ := w.want(widget)
		ctx, cancel := context.WithTimeout(t.Context(), settle)
		defer cancel()
		assert.ErrorContains(t, later.WaitForSync(ctx), "(Unread)")
		w.server.ClearFaults()
		require.NoError(t, later.WaitForSync(t.Context()))
		require.NoError(t, owner.Ready())
		assert.True(t, wanted.Covers(key))
	})
}

func TestKindThatIsDefinedButRefusedIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reflectortest.WithResource(reflectortest.Resource{Group: "metrics.example.com", Version: "v1", Kind: "Reading", Plural: "readings", Namespaced: true}))
		w.server.Inject(reflectortest.Answer(404).On("watch", "readings"))
		reading := serviceKind
		reading.Group, reading.Kind = "metrics.example.com", "Reading"
		owner, _ := w.want(reading)
		<-time.After(time.Hour)
		assert.ErrorContains(t, owner.Ready(), "(Refused)")
		assert.Less(t, w.requests("readings"), 130)
		assert.Equal(t, []string{"kind is served <nil>", "kind is not served Refused"}, w.lines())
		w.server.ClearFaults()
		require.NoError(t, owner.WaitForSync(t.Context()))
	})
}
