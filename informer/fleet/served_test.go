package fleet

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		<-time.After(settle)                                                                      // otherwise discovery may know the kind before the watch of definitions does, and there is a second reflector
		stalled := w.server.Inject(reflectortest.StallAfterEvents(2, nil).On("watch", "widgets")) // the object and a bookmark
		_, _, seen := w.follow(widget)
		assert.Equal(t, "[+web]", seen.take())
		require.Equal(t, 1, stalled.Hits())
		w.undefine()
		<-time.After(settle)
		assert.Equal(t, "[-web]", seen.take())
	})
}

// spoiling is a transport that gives the kind Broken a number for a name.
type spoiling struct{ http.RoundTripper }

func (s spoiling) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = spoiled{response.Body}
	}
	return response, err
}

type spoiled struct{ io.ReadCloser }

func (s spoiled) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	copy(into, bytes.ReplaceAll(into[:n], []byte(`"kind":"Broken"`), []byte(`"kind":77777777`)))
	return n, err
}

// The cache of definitions has no version while its first list has an object that cannot be decoded.
func TestDefinitionBesideOneThatCannotBeDecodedIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		require.NoError(t, server.Create(definitionOf("Broken", "Namespaced", "v1")))
		w := newWorldOf(t, server, func(next http.RoundTripper) http.RoundTripper { return spoiling{next} })
		w.define("Namespaced", "v1")
		w.create("web")
		server.Inject(reflectortest.StallAfterEvents(2, nil).On("watch", "widgets")) // the object and a bookmark
		_, _, seen := w.follow(widget)
		assert.Equal(t, "[+web]", seen.take())
		require.Empty(t, w.fleet.definitions.crds.Cache().ResourceVersion())
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

// A watch from the version of the cache would mix the objects of two definitions.
func TestDefinitionThatIsMadeAgainIsListed(t *testing.T) {
	for name, broken := range map[string]bool{"while the definitions are watched": false, "while their watch is broken": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define("Namespaced", "v1")
				w.create("web")
				_, wanted, _ := w.follow(widget)
				if broken {
					w.server.Inject(reflectortest.Answer(500).On("list", "customresourcedefinitions"))
					w.server.Inject(reflectortest.Answer(500).On("watch", "customresourcedefinitions"))
					<-time.After(15 * time.Minute) // a watch ends after ten
				}
				w.server.ForgetRequests()
				w.undefine()
				w.define("Namespaced", "v1")
				w.create("db")
				if broken {
					<-time.After(time.Minute) // the kind is watched again as if its definition were the same
					w.server.ForgetRequests()
				}
				w.server.ClearFaults()
				<-time.After(time.Minute)
				require.NoError(t, wanted.Ready())
				assert.Equal(t, 1, wanted.Cache().Len())
				assert.NotEmpty(t, w.server.Requests(reflectortest.ForResource("widgets"), reflectortest.Param("sendInitialEvents", "true")))
			})
		})
	}
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

// A list of definitions shows that there is another one, but not when the first one went. Objects are newer than
// what was last known of their definition.
func TestDefinitionThatIsMadeAgainUnseenDeletesItsObjects(t *testing.T) {
	for name, served := range map[string][]string{"without the version": {"v1"}, "with the version, which ends": {"v1", "v1beta1"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define("Namespaced", "v1", "v1beta1")
				<-time.After(time.Second)
				w.create("web")
				_, wanted, seen := w.follow(betaWidget)
				assert.Equal(t, "[+web]", seen.take())
				broken := w.server.Inject(reflectortest.Answer(500).On("", "widgets"))
				w.server.Inject(reflectortest.Answer(500).On("", "customresourcedefinitions"))
				<-time.After(15 * time.Minute) // a watch ends after ten
				w.undefine()
				<-time.After(time.Second)
				w.define("Namespaced", served...)
				w.create("db")
				if len(served) > 1 {
					broken.Remove()
					<-time.After(time.Minute) // the kind is watched again as if its definition were the same
					assert.Contains(t, seen.takeAll(), "+db")
					w.serve("v1beta1", false)
				}
				<-time.After(time.Minute)
				w.server.ClearFaults()
				w.server.Inject(reflectortest.LoseHistory().On("watch", "customresourcedefinitions").Times(1))
				<-time.After(time.Minute)
				assert.ErrorContains(t, wanted.Ready(), "(NoVersion)")
				keys := cached(wanted)
				if len(served) > 1 {
					assert.Equal(t, []string{"db"}, keys, "the last object of the definition that exists")
					assert.Equal(t, "[]", seen.take())
				} else {
					assert.Empty(t, keys)
					assert.Equal(t, "[-web]", seen.take())
					web, db := store.Key{Namespace: "a", Name: "web"}, store.Key{Namespace: "a", Name: "db"}
					assert.False(t, wanted.Covers(db))
					_, err := wanted.Gone(t.Context(), db)
					assert.ErrorIs(t, err, reflector.ErrNotServed, "it exists, in another version")
					gone, err := wanted.Gone(t.Context(), web, "the uid of web")
					require.NoError(t, err)
					assert.True(t, gone, "it was deleted with its definition")
				}
				w.undefine()
				<-time.After(settle)
				assert.Empty(t, cached(wanted))
			})
		})
	}
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

// Discovery does not say under which definition objects were read: it may have been made again meanwhile.
func TestObjectsReadByDiscoveryAreListedWhenTheirDefinitionIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		for _, verb := range []string{"list", "watch"} {
			server.Inject(reflectortest.Answer(403).On(verb, "customresourcedefinitions"))
		}
		w := newWorldOf(t, server)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, _, seen := w.follow(widget)
		require.NoError(t, owner.WaitForSync(t.Context()))
		assert.Equal(t, "[+web]", seen.take())
		server.ForgetRequests()
		server.ClearFaults()
		<-time.After(2 * time.Minute)
		require.NoError(t, owner.Ready())
		assert.Equal(t, "[]", seen.take(), "it is the same object")
		assert.NotEmpty(t, server.Requests(reflectortest.ForResource("widgets"), reflectortest.Param("sendInitialEvents", "true")))
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

// kube-apiserver refuses while it starts, so the first refusals say little.
func TestRefusalOfAStartingServerDelaysNoDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		for _, code := range []int{401, 403} {
			for _, verb := range []string{"list", "watch"} {
				server.Inject(reflectortest.Answer(code).On(verb, "customresourcedefinitions").Times(1))
			}
		}
		w := newWorldOf(t, server)
		owner, _ := w.want(widget)
		<-time.After(10 * time.Second)
		w.define("Namespaced", "v1")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.NoError(t, owner.WaitForSync(ctx))
	})
}

// The definition changes, and then the permission comes back. Both are events of definitions that discovery names.
func TestKindIsServedWhileDefinitionsCanOnlyBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())
		server.Inject(reflectortest.Answer(403).On("watch", "customresourcedefinitions"))
		w := newWorldOf(t, server)
		w.define("Namespaced", "v1")
		w.create("web")
		owner, wanted := w.want(widget)
		missing := widget
		missing.Kind = "Missing"
		w.want(missing) // so discovery is asked each minute, and has just been
		require.NoError(t, owner.WaitForSync(t.Context()))
		<-time.After(10 * time.Minute)
		w.logs.TakeAll()
		stands := 0
		go func() {
			for state := wanted.State(); t.Context().Err() == nil; state = wanted.State() {
				if state.Phase == reflector.Stopped && state.Err != nil {
					stands++
				}
				select {
				case <-wanted.Changed(state):
				case <-t.Context().Done():
				}
			}
		}()
		for range 3 {
			crd := w.stored(crdKind, widgets)
			crd.SetAnnotations(map[string]string{"at": time.Now().String()})
			require.NoError(t, server.Update(crd))
			<-time.After(3*time.Minute + 17*time.Second)
		}
		synctest.Wait()
		assert.Zero(t, stands)
		server.ClearFaults()
		<-time.After(3 * time.Minute)
		require.NoError(t, owner.Ready())
		for _, entry := range w.logs.FilterMessage("kind is not served").All() {
			assert.NotContains(t, entry.ContextMap()["kind"], "Widget")
		}
		w.serve("v1", false)
		<-time.After(settle)
		assert.ErrorContains(t, owner.Ready(), "(NoVersion)", "definitions are watched")
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

func TestPermissionForAPIServicesMayEndWhileAnAPIIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reflectortest.WithResource(readings))
		service := readingsService()
		require.NoError(t, w.server.Create(service))
		update := func(status string) {
			setAvailable(t, service, status)
			service.SetResourceVersion("")
			require.NoError(t, w.server.Update(service))
		}
		owner, _, _ := w.follow(reading)
		require.NoError(t, owner.Ready())
		update("False")
		<-time.After(settle)
		assert.ErrorContains(t, owner.Ready(), "(Unavailable)")
		for _, verb := range []string{"list", "watch"} {
			w.server.Inject(reflectortest.Answer(403).On(verb, "apiservices"))
		}
		<-time.After(15 * time.Minute) // a watch ends after ten
		update("True")
		<-time.After(5 * time.Minute)
		require.NoError(t, owner.Ready())
	})
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

// A reader of the cache, and a reconciler, tell from the state whether the objects may be outdated. Between two
// reflectors they may be, also in the moment after the one has ended and before the other begins.
func TestStateOfAFilledCacheThatNothingFollowsNamesAProblem(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"kind is served again": func(w *world) {
			w.serve("v1", false)
			<-time.After(settle)
			w.serve("v1", true)
		},
		"definition is made again": func(w *world) {
			w.undefine()
			w.define("Namespaced", "v1")
		},
		"server answers 404": func(w *world) {
			w.server.Inject(reflectortest.Answer(404).On("watch", "widgets").Times(1))
			<-time.After(15 * time.Minute) // a watch ends after ten
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, server: reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions())}
				var mu sync.Mutex
				var states []reflector.State // guarded by mu
				record := func(m *member) {
					announced := m.onChange
					m.onChange = func() {
						if m.synced.IsSet() {
							mu.Lock()
							states = append(states, m.State())
							mu.Unlock()
						}
						announced()
					}
				}
				core, _ := observer.New(zap.InfoLevel)
				var first sync.Once
				w.fleet = begin(t, w.server.Config(), WithLogger(zap.New(core, zap.Hooks(func(entry zapcore.Entry) error {
					if entry.Message == "kind is served" { // on the goroutine of the member, before its first reflector
						first.Do(func() { record(w.fleet.all()[0]) })
					}
					return nil
				}))))
				w.define("Namespaced", "v1")
				w.create("web")
				owner, _ := w.want(widget)
				require.NoError(t, owner.WaitForSync(t.Context()))
				change(w)
				<-time.After(time.Minute)
				require.NoError(t, owner.Ready())
				mu.Lock()
				defer mu.Unlock()
				stopped := slices.DeleteFunc(states, func(s reflector.State) bool { return s.Phase != reflector.Stopped })
				assert.NotEmpty(t, stopped)
				for _, state := range stopped {
					assert.ErrorIs(t, state.Err, reflector.ErrNotServed)
				}
			})
		})
	}
}

func TestKindThatIsDefinedButRefusedIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reflectortest.WithResource(reflectortest.Resource{Group: "metrics.example.com", Version: "v1", Kind: "Reading", Plural: "readings", Namespaced: true}))
		w.server.Inject(reflectortest.Answer(404).On("watch", "readings"))
		reading := serviceKind
		reading.Group, reading.Kind = "metrics.example.com", "Reading"
		owner, _ := w.want(reading)
		<-time.After(time.Hour)
		synctest.Wait() // a request may have begun at the same time
		assert.ErrorContains(t, owner.Ready(), "(Refused)")
		assert.InDelta(t, 3600/lastPause.Seconds(), w.requests("readings"), 10)
		assert.Equal(t, []string{"kind is served <nil>", "kind is not served Refused"}, w.lines())
		w.server.ClearFaults()
		require.NoError(t, owner.WaitForSync(t.Context()))
	})
}

// Each 404 is a reason to ask discovery, which must not be asked more often than once a minute then.
func TestWithoutPermissionForDefinitionsARefusedKindIsAskedForOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(readings))
		server.Inject(reflectortest.Answer(404).On("watch", "readings"))
		server.Inject(reflectortest.Answer(403).On("", "apiservices"))
		w := newWorldOf(t, server)
		w.want(reading)
		<-time.After(time.Hour)
		assert.InDelta(t, 60, w.requests("readings"), 2)
	})
}

// The server answers 404 for a moment while it restarts, and has done so for long before.
func TestRefusedKindThatWasReadMeanwhileIsAskedForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reflectortest.WithResource(readings))
		w.server.Inject(reflectortest.Answer(404).On("watch", "readings"))
		owner, _ := w.want(reading)
		<-time.After(time.Hour)
		w.server.ClearFaults()
		require.NoError(t, owner.WaitForSync(t.Context()))
		w.server.Inject(reflectortest.Answer(404).On("watch", "readings").Times(2))
		<-time.After(15 * time.Minute) // a watch ends after ten
		require.NoError(t, owner.Ready())
		var at []time.Time
		for _, r := range w.server.Requests(reflectortest.ForResource("readings")) {
			if r.Time.After(time.Now().Add(-15 * time.Minute)) {
				at = append(at, r.Time)
			}
		}
		require.GreaterOrEqual(t, len(at), 3)
		assert.Less(t, at[2].Sub(at[0]), settle)
		w.server.Inject(reflectortest.Answer(404).On("watch", "readings"))
		<-time.After(15 * time.Minute)
		w.server.ForgetRequests()
		<-time.After(time.Hour)
		assert.Less(t, w.requests("readings"), 130, "and seldom if it goes on")
	})
}

func TestEventIsNoChangeOfTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		_, wanted, seen := w.follow(widget)
		state := wanted.State()
		w.create("web")
		<-time.After(settle)
		assert.Equal(t, "[+web]", seen.take())
		assert.False(t, lifecycle.IsClosed(wanted.Changed(state)))
	})
}

// holding is a follower that holds up each writer until it is closed.
type holding chan struct{}

func (holding) Start(*store.Snapshot[*object])    {}
func (h holding) Commit(_ *store.Commit[*object]) { <-h }

// The reflector has not ended yet.
func TestKindThatIsNotServedIsStaleSinceThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Namespaced", "v1")
		_, wanted, _ := w.follow(widget)
		hold := make(holding)
		defer wanted.Cache().Follow(hold)()
		w.create("web")
		<-time.After(settle)
		for _, end := range []func(){func() { w.serve("v1", false) }, func() { close(hold) }} {
			end()
			synctest.Wait()
			var stale *informer.StaleError
			require.ErrorAs(t, wanted.Ready(), &stale)
			assert.Zero(t, stale.For)
		}
	})
}
